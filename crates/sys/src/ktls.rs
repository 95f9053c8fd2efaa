//! Kernel TLS: connections whose records the kernel encrypts and decrypts (linux/tls.h, `networking/tls` in the kernel's
//! documentation).
//!
//! The handshake is done elsewhere: this module starts with its keys.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::check;
use crate::options::set;

/// `TLS_TX`, `TLS_RX`: the directions of sending and receiving.
const SENDING: libc::c_int = 1;
const RECEIVING: libc::c_int = 2;
/// `TLS_SET_RECORD_TYPE`, `TLS_GET_RECORD_TYPE`.
const SET_RECORD_TYPE: libc::c_int = 1;
const GET_RECORD_TYPE: libc::c_int = 2;
/// Record types (RFC 8446, section 5.1).
const ALERT: u8 = 21;
const DATA: u8 = 23;
/// A `close_notify` alert with the level warning (RFC 8446, section 6).
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// Size of a control message with a record type.
// SAFETY: arithmetic.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(1) } as usize;

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.2
    Tls12,
    /// 1.3
    Tls13,
}

/// The key with which records are encrypted.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// AES-128 in GCM
    Aes128Gcm(&'a [u8; 16]),
    /// AES-256 in GCM
    Aes256Gcm(&'a [u8; 32]),
    /// ChaCha20 with Poly1305
    ChaCha20Poly1305(&'a [u8; 32]),
}

/// The state of one direction of a connection, from its next record on.
#[derive(Clone, Copy, Debug)]
pub struct Secrets<'a> {
    /// The version of the connection.
    pub version: Version,
    /// The key.
    pub key: Key<'a>,
    /// The initialization vector, with its fixed part first.
    pub iv: [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

/// `struct tls12_crypto_info_aes_gcm_128` and `_256`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Gcm<const KEY: usize> {
    version: u16,
    cipher: u16,
    iv: [u8; 8],
    key: [u8; KEY],
    salt: [u8; 4],
    sequence: [u8; 8],
}

impl<const KEY: usize> Gcm<KEY> {
    /// The fixed part of the initialization vector is the salt.
    fn of((version, cipher): (u16, u16), key: &[u8; KEY], iv: [u8; 12], sequence: [u8; 8]) -> Self {
        Gcm {
            version,
            cipher,
            iv: std::array::from_fn(|at| iv[4 + at]),
            key: *key,
            salt: std::array::from_fn(|at| iv[at]),
            sequence,
        }
    }
}

/// `struct tls12_crypto_info_chacha20_poly1305`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ChaCha {
    version: u16,
    cipher: u16,
    iv: [u8; 12],
    key: [u8; 32],
    sequence: [u8; 8],
}

impl Key<'_> {
    /// One of each cipher, all zero.
    const NONE: [Key<'static>; 3] = [
        Key::Aes128Gcm(&[0; 16]),
        Key::Aes256Gcm(&[0; 32]),
        Key::ChaCha20Poly1305(&[0; 32]),
    ];

    fn is_of_cipher(&self, other: &Key<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The ciphers that the kernel supports: versions with all-zero keys of their ciphers.
#[derive(Clone, Debug, Default)]
pub struct Ciphers(Vec<(Version, Key<'static>)>);

impl Ciphers {
    /// Finds those that a connection of this machine to itself accepts.
    ///
    /// # Errors
    /// There are none; the error says why. `NotFound`: the kernel lacks TLS, or the algorithms of
    /// its ciphers.
    pub fn find() -> io::Result<Ciphers> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut found = Vec::new();
        let mut refused = None;
        for version in [Version::Tls12, Version::Tls13] {
            for key in Key::NONE {
                match is_done(&listener, version, key) {
                    Ok(()) => found.push((version, key)),
                    Err(error) => refused = Some(error),
                }
            }
        }
        match refused {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(Ciphers(found)),
        }
    }

    /// Whether the kernel supports this version with this kind of key.
    pub fn have(&self, version: Version, key: Key<'_>) -> bool {
        let mut all = self.0.iter();
        all.any(|(of, one)| *of == version && one.is_of_cipher(&key))
    }
}

fn is_done(listener: &TcpListener, version: Version, key: Key<'_>) -> io::Result<()> {
    let connection = TcpStream::connect(listener.local_addr()?)?;
    let _other = listener.accept()?;
    let secrets = Secrets {
        version,
        key,
        iv: [0; 12],
        sequence: 0,
    };
    prepare(connection.as_fd())?;
    send(connection.as_fd(), &secrets)?;
    receive(connection.as_fd(), &secrets)
}

/// Prepares a connection for [`send`] and [`receive`]; until those are called, it is unchanged.
///
/// # Errors
/// `NotFound`: the kernel lacks TLS; otherwise the kernel's error.
pub fn prepare(connection: BorrowedFd<'_>) -> io::Result<()> {
    set(connection, libc::IPPROTO_TCP, libc::TCP_ULP, *b"tls\0")
}

/// Makes the kernel encrypt everything written from now on.
///
/// # Errors
/// The kernel's error, for example for an unknown cipher.
pub fn send(connection: BorrowedFd<'_>, secrets: &Secrets<'_>) -> io::Result<()> {
    begin(connection, SENDING, secrets)
}

/// Makes the kernel decrypt everything received from now on; it is read with [`read`].
///
/// # Errors
/// As for [`send`].
pub fn receive(connection: BorrowedFd<'_>, secrets: &Secrets<'_>) -> io::Result<()> {
    begin(connection, RECEIVING, secrets)
}

fn begin(
    connection: BorrowedFd<'_>,
    direction: libc::c_int,
    secrets: &Secrets<'_>,
) -> io::Result<()> {
    let Secrets {
        version,
        key,
        iv,
        sequence,
    } = *secrets;
    let version = match version {
        Version::Tls12 => 0x0303,
        Version::Tls13 => 0x0304,
    };
    let sequence = sequence.to_be_bytes();
    match key {
        Key::Aes128Gcm(key) => {
            let info = Gcm::of((version, 51), key, iv, sequence);
            set(connection, libc::SOL_TLS, direction, info)
        }
        Key::Aes256Gcm(key) => {
            let info = Gcm::of((version, 52), key, iv, sequence);
            set(connection, libc::SOL_TLS, direction, info)
        }
        Key::ChaCha20Poly1305(key) => {
            let info = ChaCha {
                version,
                cipher: 54,
                iv,
                key: *key,
                sequence,
            };
            set(connection, libc::SOL_TLS, direction, info)
        }
    }
}

/// The result of a read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Bytes of data; 0: the connection was closed.
    Data(usize),
    /// An alert: the peer closes the connection, or found an error.
    Alert,
    /// A record of another type, such as a handshake that changes keys.
    Other(u8),
}

/// Reads from a connection whose records the kernel decrypts. Never blocks.
///
/// # Errors
/// `WouldBlock`: nothing has arrived; otherwise the kernel's error. A record that fails
/// authentication is `EBADMSG`.
pub fn read(connection: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Read> {
    let mut slice = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let mut control = Control([0; CONTROL]);
    let mut message = message(&mut slice, &mut control);
    loop {
        // SAFETY: the message refers to buffers that are borrowed for the call.
        let read =
            unsafe { libc::recvmsg(connection.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        match check(read as i64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(read) => {
                // SAFETY: the kernel has filled in the control messages and their length.
                let first = unsafe { libc::CMSG_FIRSTHDR(&message).as_ref() };
                let of_record = first.filter(|header| {
                    (header.cmsg_level, header.cmsg_type) == (libc::SOL_TLS, GET_RECORD_TYPE)
                });
                // SAFETY: such a message holds a byte.
                let kind = of_record.map_or(DATA, |header| unsafe { *libc::CMSG_DATA(header) });
                return Ok(match kind {
                    DATA => Read::Data(read as usize),
                    ALERT => Read::Alert,
                    other => Read::Other(other),
                });
            }
        }
    }
}

/// Sends the peer a `close_notify`: no more data follows. Returns the number of bytes that were
/// sent. Never blocks.
///
/// # Errors
/// `WouldBlock`: there is no room for it; otherwise the kernel's error.
pub fn close(connection: BorrowedFd<'_>) -> io::Result<usize> {
    let mut alert = CLOSE_NOTIFY;
    let mut slice = libc::iovec {
        iov_base: alert.as_mut_ptr().cast(),
        iov_len: alert.len(),
    };
    let mut control = Control([0; CONTROL]);
    let message = message(&mut slice, &mut control);
    // SAFETY: there is room for a header and a byte, and no more is written.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(header) = ALERT;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the message refers to bytes that are borrowed for the call, which only reads them.
    let sent = unsafe { libc::sendmsg(connection.as_raw_fd(), &message, flags) };
    check(sent as i64).map(|sent| sent as usize)
}

/// Room for a control message, with its alignment.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

fn message(slice: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    message
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Gcm<16>>(), 40);
        assert_eq!(size_of::<Gcm<32>>(), 56);
        assert_eq!(size_of::<ChaCha>(), 56);
    }

    #[test]
    fn without_records_a_connection_is_read_as_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = listener.accept().unwrap().0;
        let mut room = [0; 10];
        let nothing = read(ours.as_fd(), &mut room).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        theirs.write_all(b"film").unwrap();
        assert_eq!(read(ours.as_fd(), &mut room).unwrap(), Read::Data(4));
        drop(theirs);
        assert_eq!(read(ours.as_fd(), &mut room).unwrap(), Read::Data(0));
    }
}
