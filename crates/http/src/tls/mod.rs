//! HTTPS: connections are encrypted by the kernel if it can, otherwise by rustls.
//!
//! The handshake is always done by rustls. If the kernel supports TLS, it then gets the keys, and
//! all data is written as over a connection without TLS, including film that is given away without
//! a copy.
//!
//! | file | content |
//! |---|---|
//! | `certificate.rs` | the certificate, reread when its files change |
//! | `record.rs` | reads that stop at the end of a TLS record |
//! | `kernel.rs` | a connection whose records the kernel encrypts and decrypts |

mod certificate;
mod kernel;
mod record;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use reelway_session::patience;
use reelway_sys::ktls::{self, Ciphers, Key, Secrets, Version};
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ProtocolVersion, ServerConfig, ServerConnection,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::certificate::Certificate;
use self::kernel::KernelTls;
use self::record::Records;
use crate::config::TlsConfig;
use crate::connection::Watched;

/// Marks a request that arrived over TLS; stored in the request's extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsSecure;

/// Secures connections.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
    /// The ciphers that the kernel supports.
    kernel: Ciphers,
}

/// A connection after its handshake.
pub(crate) enum Secure {
    /// Encrypted by the kernel.
    ByKernel(KernelTls),
    /// Encrypted by rustls.
    ByLibrary(Box<TlsStream<Records<Watched>>>),
}

impl Tls {
    /// Creates it with the configured certificate.
    ///
    /// # Errors
    /// The certificate or its key cannot be read, or they do not belong together.
    pub fn new(config: &TlsConfig) -> io::Result<Tls> {
        let provider = Arc::new(default_provider());
        let files = (config.certificate.clone(), config.key.clone());
        let certificate = Arc::new(Certificate::read(files, provider.clone())?);
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        tls.enable_secret_extraction = config.kernel;
        // Players open many connections: a resumed session costs no signature, and no memory on the
        // server.
        tls.ticketer = Ticketer::new().map_err(io::Error::other)?;
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            certificate,
            kernel: if config.kernel {
                of_kernel()
            } else {
                Ciphers::default()
            },
        })
    }

    /// Rereads the certificate whenever its files change, for ever.
    pub async fn keep_certificate(self: Arc<Tls>) {
        self.certificate.clone().keep().await;
    }

    /// Performs a connection's handshake within this time.
    pub async fn accept(&self, connection: Watched, within: Duration) -> io::Result<Secure> {
        let handshake = self.acceptor.accept(Records::one_by_one(connection));
        let mut secure = tokio::select! {
            biased;
            done = handshake => done?,
            () = patience(within) => return Err(io::ErrorKind::TimedOut.into()),
        };
        if self.is_for_kernel(secure.get_ref().1) {
            let (records, keys) = secure.into_inner();
            let connection = records.into_inner();
            hand_over(&connection, keys)?;
            return Ok(Secure::ByKernel(KernelTls::new(connection)));
        }
        secure.get_mut().0.read_freely();
        Ok(Secure::ByLibrary(Box::new(secure)))
    }

    /// Whether the kernel supports the negotiated cipher.
    fn is_for_kernel(&self, keys: &ServerConnection) -> bool {
        let suite = keys.negotiated_cipher_suite();
        let key = match suite.map(|suite| suite.suite()) {
            Some(
                CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            ) => Key::Aes128Gcm(&[0; 16]),
            Some(
                CipherSuite::TLS13_AES_256_GCM_SHA384
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            ) => Key::Aes256Gcm(&[0; 32]),
            Some(
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
            ) => Key::ChaCha20Poly1305(&[0; 32]),
            _ => return false,
        };
        version(keys).is_some_and(|version| self.kernel.have(version, key))
    }
}

/// Returns the kernel's ciphers, and logs if it has none.
fn of_kernel() -> Ciphers {
    Ciphers::find().unwrap_or_else(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => {
                "it has no TLS, or its module `tls` is not loaded".to_owned()
            }
            _ => error.to_string(),
        };
        tracing::info!("the kernel does not encrypt connections ({why}): Reelway does it itself");
        Ciphers::default()
    })
}

fn version(keys: &ServerConnection) -> Option<Version> {
    match keys.protocol_version()? {
        ProtocolVersion::TLSv1_2 => Some(Version::Tls12),
        ProtocolVersion::TLSv1_3 => Some(Version::Tls13),
        _ => None,
    }
}

/// Passes a connection's keys to the kernel.
fn hand_over(connection: &Watched, keys: ServerConnection) -> io::Result<()> {
    let version = version(&keys).ok_or(io::ErrorKind::Unsupported)?;
    let secrets = keys.dangerous_extract_secrets().map_err(io::Error::other)?;
    let socket = connection.as_fd();
    ktls::prepare(socket)?;
    with(version, &secrets.tx, |tx| ktls::send(socket, tx))?;
    with(version, &secrets.rx, |rx| ktls::receive(socket, rx))
}

/// Calls a function with the secrets of one direction.
fn with(
    version: Version,
    (sequence, secrets): &(u64, ConnectionTrafficSecrets),
    what: impl FnOnce(&Secrets<'_>) -> io::Result<()>,
) -> io::Result<()> {
    fn sized<const BYTES: usize>(key: &[u8]) -> io::Result<&[u8; BYTES]> {
        key.try_into().map_err(io::Error::other)
    }
    let (key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            (Key::Aes128Gcm(sized(key.as_ref())?), iv)
        }
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            (Key::Aes256Gcm(sized(key.as_ref())?), iv)
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Key::ChaCha20Poly1305(sized(key.as_ref())?), iv)
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    what(&Secrets {
        version,
        key,
        iv: *sized(iv.as_ref())?,
        sequence: *sequence,
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::speed::Speed;

    #[tokio::test]
    async fn a_client_that_says_nothing_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let [chain, key] = ["tv.pem", "tv.key"].map(|name| dir.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::new(&TlsConfig {
            listen: Vec::new(),
            certificate: chain,
            key,
            kernel: true,
        });
        let tls = tls.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await;
        let stream = listener.accept().await.unwrap().0;
        let hour = Duration::from_secs(3600);
        let connection = Watched::new(stream, Arc::default(), hour, Speed::default());
        let accepted = tls.accept(connection, Duration::from_millis(20)).await;
        let error = accepted.err().expect("no handshake");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
