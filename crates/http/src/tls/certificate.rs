//! The server's certificate. Its files are reread when they change, so that a renewed certificate
//! needs no restart.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use reelway_supervise as supervise;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::blocking::blocking;

/// Interval at which the files are checked.
const LOOK: Duration = Duration::from_secs(10);
/// Maximum file size in bytes: a chain has a few thousand.
const LONGEST: u64 = 1 << 20;

/// A certificate and its key, as in their files.
pub(super) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    now: RwLock<Arc<CertifiedKey>>,
    /// The versions of the files that were read last.
    seen: Mutex<[Option<Seen>; 2]>,
}

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen(u64, u64, i64, i64);

impl Certificate {
    /// Reads the files of a certificate chain and of its key.
    ///
    /// # Errors
    /// A file cannot be read, or they do not belong together; the message says which and why.
    pub fn read(
        (chain, key): (PathBuf, PathBuf),
        provider: Arc<CryptoProvider>,
    ) -> io::Result<Certificate> {
        let seen = look(&chain, &key);
        let now = read(&chain, &key, &provider)?;
        Ok(Certificate {
            chain,
            key,
            provider,
            now: RwLock::new(Arc::new(now)),
            seen: Mutex::new(seen),
        })
    }

    /// Rereads the files whenever they change, for ever. Unusable files are logged and change
    /// nothing.
    pub async fn keep(self: Arc<Certificate>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let this = self.clone();
            blocking(move || this.read_if_changed()).await;
        }
    }

    fn read_if_changed(&self) {
        let mut seen = supervise::whole(self.seen.lock());
        // Checked before reading: a change during reading counts as another change.
        let look = look(&self.chain, &self.key);
        if *seen == look {
            return;
        }
        *seen = look;
        match read(&self.chain, &self.key, &self.provider) {
            Ok(read) => {
                *supervise::whole(self.now.write()) = Arc::new(read);
                tracing::info!("the certificate {} was read again", self.chain.display());
            }
            Err(error) => {
                tracing::warn!("{error}; the previous certificate stays in use");
            }
        }
    }
}

fn look(chain: &Path, key: &Path) -> [Option<Seen>; 2] {
    [chain, key].map(|path| {
        let file = fs::metadata(path).ok()?;
        Some(Seen(
            file.ino(),
            file.len(),
            file.mtime(),
            file.mtime_nsec(),
        ))
    })
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the certificate of {}", self.chain.display())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = supervise::whole(self.now.read());
        Some(now.clone())
    }
}

fn read(chain: &Path, key: &Path, provider: &CryptoProvider) -> io::Result<CertifiedKey> {
    let chain_of =
        |text: &[u8]| CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    let certificates = parse("tls.certificate", chain, "certificate", chain_of)?;
    if certificates.is_empty() {
        return Err(wrong("tls.certificate", chain, "no certificate in it"));
    }
    let private = parse("tls.key", key, "private key", PrivateKeyDer::from_pem_slice)?;
    CertifiedKey::from_der(certificates, private, provider).map_err(|error| {
        wrong(
            "tls.key",
            key,
            &format!("of no use with {}: {error}", chain.display()),
        )
    })
}

/// Parses a PEM file (RFC 7468).
fn parse<T>(
    setting: &str,
    path: &Path,
    what: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> io::Result<T> {
    let named = |error: &dyn fmt::Display| wrong(setting, path, &error.to_string());
    let bytes = fs::metadata(path).map_err(|error| named(&error))?.len();
    if bytes > LONGEST {
        return Err(wrong(
            setting,
            path,
            &format!("too long for a {what}: {bytes} bytes"),
        ));
    }
    let text = fs::read(path).map_err(|error| named(&error))?;
    parse(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => wrong(setting, path, &format!("no {what} in it")),
        error => named(&error),
    })
}

fn wrong(setting: &str, path: &Path, words: &str) -> io::Error {
    let words = format!("{setting}: {}: {words}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, words)
}
