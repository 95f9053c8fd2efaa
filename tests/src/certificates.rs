//! Certificates for servers under test, and the authority that signs them.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::films::temp_dir;

/// A certificate authority that clients may trust.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: TempDir,
}

/// A server's certificate and its key, as files.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The chain (PEM).
    pub chain: PathBuf,
    /// The key (PEM).
    pub key: PathBuf,
}

impl Authority {
    /// Makes an authority that no client trusts yet.
    pub fn new() -> Authority {
        let mut about = CertificateParams::default();
        let name = &mut about.distinguished_name;
        name.push(DnType::CommonName, "an authority");
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = about.self_signed(&key).expect("a certificate");
        let dir = temp_dir("authority");
        fs::write(dir.path().join("authority.pem"), certificate.pem()).expect("a file");
        Authority {
            issuer: Issuer::new(about, key),
            dir,
        }
    }

    /// The authority's own certificate (PEM), for clients that trust it.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("authority.pem")
    }

    /// Writes a certificate for servers at this machine's loopback addresses to `tv.pem` and
    /// `tv.key` in a directory, and overwrites existing ones.
    pub fn sign(&self, into: &Path) -> Certificate {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let about = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let certificate = about.signed_by(&key, &self.issuer).expect("a signature");
        let files = Certificate {
            chain: into.join("tv.pem"),
            key: into.join("tv.key"),
        };
        fs::write(&files.key, key.serialize_pem()).expect("a file");
        fs::write(&files.chain, certificate.pem()).expect("a file");
        files
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}
