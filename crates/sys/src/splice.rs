//! Handing bytes to a socket without a copy (vmsplice and splice, see splice(2)).
//!
//! The socket refers to the pages in which the bytes lie. So only bytes that are never written
//! again can be given away ([`crate::once::Written`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;
use crate::once::Written;

/// The pipe size that is requested, in bytes: the most that users other than root may have
/// (`/proc/sys/fs/pipe-max-size`).
const WANTED: usize = 1 << 20;
/// Bytes that go through the pipe at a time. Those that the socket does not take are moved in vain.
const STEP: usize = 256 << 10;

/// A pipe through which bytes pass to sockets. It is empty between calls.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Receives the bytes that a socket does not take.
    nowhere: File,
    room: usize,
    broken: bool,
}

impl Pipe {
    /// Makes a pipe, as large as the kernel permits.
    ///
    /// # Errors
    /// No descriptors are available.
    pub fn new() -> io::Result<Pipe> {
        let nowhere = File::options().write(true).open("/dev/null")?;
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        check(i64::from(unsafe {
            libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK)
        }))?;
        // SAFETY: two descriptors that nothing else owns.
        let [out, into] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // Refused if the user already has many pipes (`pipe-user-pages-soft`): then the pipe is
        // smaller.
        // SAFETY: a descriptor of ours, and a number.
        let room = unsafe {
            libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, WANTED as libc::c_int);
            libc::fcntl(into.as_raw_fd(), libc::F_GETPIPE_SZ)
        };
        Ok(Pipe {
            out,
            into,
            nowhere,
            room: check(i64::from(room))? as usize,
            broken: false,
        })
    }

    /// Gives a connection as many of these bytes as it takes now, and returns their number. Never
    /// blocks. `more` says that further bytes follow at once.
    ///
    /// # Errors
    /// `WouldBlock` if it takes none; otherwise the kernel's error if it has taken none.
    pub fn give(
        &mut self,
        connection: BorrowedFd<'_>,
        bytes: Written<'_>,
        more: bool,
    ) -> io::Result<usize> {
        let mut given = 0;
        while given < bytes.len() {
            let rest = &bytes[given..];
            let step = &rest[..rest.len().min(self.room).min(STEP)];
            let is_last = step.len() == rest.len();
            let (passed, end) = self.pass(connection, step, more || !is_last);
            given += passed;
            match end {
                Some(error) if given == 0 => return Err(error),
                Some(_) => break,
                None => {}
            }
        }
        Ok(given)
    }

    /// Whether the pipe could not be emptied, and may hold bytes of another connection: it gives
    /// nothing any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Passes these bytes on; returns how many the connection took, and why it took no more.
    fn pass(
        &mut self,
        connection: BorrowedFd<'_>,
        bytes: &[u8],
        more: bool,
    ) -> (usize, Option<io::Error>) {
        if self.broken {
            return (0, Some(io::Error::other("the pipe is broken")));
        }
        let slice = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: the pages are only read, now and later: the bytes are never written again.
        let held =
            unsafe { libc::vmsplice(self.into.as_raw_fd(), &slice, 1, libc::SPLICE_F_NONBLOCK) };
        let held = match check(held as i64) {
            Ok(held) => held as usize,
            Err(error) => return (0, Some(error)),
        };
        let more = more || held < bytes.len();
        let mut passed = 0;
        let mut end = None;
        while passed < held && end.is_none() {
            match self.out_to(connection.as_raw_fd(), held - passed, more) {
                Ok(0) => end = Some(io::ErrorKind::WriteZero.into()),
                Ok(some) => passed += some,
                Err(error) => end = Some(error),
            }
        }
        let mut left = held - passed;
        while left > 0 && !self.broken {
            match self.out_to(self.nowhere.as_raw_fd(), left, false) {
                Ok(some) if some > 0 => left -= some,
                _ => self.broken = true,
            }
        }
        (passed, end)
    }

    fn out_to(&self, to: libc::c_int, bytes: usize, more: bool) -> io::Result<usize> {
        let more = if more { libc::SPLICE_F_MORE } else { 0 };
        loop {
            // SAFETY: two open descriptors; no offsets.
            let passed = unsafe {
                libc::splice(
                    self.out.as_raw_fd(),
                    std::ptr::null_mut(),
                    to,
                    std::ptr::null_mut(),
                    bytes,
                    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | more,
                )
            };
            match check(passed as i64) {
                Ok(passed) => return Ok(passed as usize),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use super::*;
    use crate::once::{Addresses, FRAME};

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    /// Bytes that depend on their position, with a different pattern for each `seed`.
    fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
        (0..bytes)
            .map(|at| (at.wrapping_mul(31 + seed) >> 3) as u8)
            .collect()
    }

    #[test]
    fn bytes_that_were_given_away_arrive_whatever_is_put_at_their_address_later() {
        let addresses = Addresses::reserve(1).unwrap();
        let mut pipe = Pipe::new().unwrap();
        let mut readers = Vec::new();
        for seed in 0..20 {
            // Every frame has the same address.
            let frame = Arc::new(addresses.frame().unwrap().expect("the one before is gone"));
            let piece = frame.put(&pattern(seed, FRAME)).unwrap();
            let (ours, theirs) = connected();
            let written = addresses.find(piece.as_ref()).unwrap();
            let given = pipe.give(ours.as_fd(), written, false).unwrap();
            assert!(given > 0);
            readers.push((seed, given, ours, theirs));
        }
        for (seed, given, ours, mut theirs) in readers {
            drop(ours);
            let mut came = Vec::new();
            theirs.read_to_end(&mut came).unwrap();
            assert!(came == pattern(seed, FRAME)[..given], "connection {seed}");
        }
    }

    #[test]
    fn what_a_socket_does_not_take_goes_to_no_other() {
        let addresses = Addresses::reserve(2).unwrap();
        let mut pipe = Pipe::new().unwrap();
        let frame = Arc::new(addresses.frame().unwrap().unwrap());
        let large = frame.put(&pattern(1, FRAME)).unwrap();
        let other = Arc::new(addresses.frame().unwrap().unwrap());
        let small = other.put(b"another film").unwrap();
        let (full, _unread) = connected();
        let written = |piece| addresses.find(piece).unwrap();
        loop {
            match pipe.give(full.as_fd(), written(large.as_ref()), true) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let (ours, mut theirs) = connected();
        assert_eq!(
            pipe.give(ours.as_fd(), written(small.as_ref()), false)
                .unwrap(),
            12
        );
        drop(ours);
        let mut came = Vec::new();
        theirs.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"another film");
    }

    #[test]
    fn a_connection_that_is_gone_is_an_error() {
        let addresses = Addresses::reserve(1).unwrap();
        let frame = Arc::new(addresses.frame().unwrap().unwrap());
        let piece = frame.put(&[7; 100_000]).unwrap();
        let mut pipe = Pipe::new().unwrap();
        let (ours, theirs) = connected();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        drop(theirs);
        let error = pipe
            .give(ours.as_fd(), addresses.find(piece.as_ref()).unwrap(), false)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
