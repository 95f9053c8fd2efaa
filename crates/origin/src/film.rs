//! A film of a source, in one version, and which versions of each endpoint that is.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use crate::siblings::AtSiblings;
use crate::version::Version;

/// A film of a source, in one version.
#[derive(Debug)]
pub(crate) struct Film {
    /// Path below the endpoints, decoded.
    pub path: String,
    /// The name by which the store opens it and messages show it: the address at the first endpoint.
    pub address: PathBuf,
    pub identity: FileIdentity,
    /// Whether its identity tells its bytes from those of other versions after a restart too.
    pub lasting: bool,
    /// Which version of each endpoint it is.
    pins: Mutex<Vec<Pin>>,
    /// Digest of its spots, where there are several endpoints.
    pub spots: OnceLock<u128>,
    /// What of it is at siblings.
    pub at_siblings: AtSiblings,
}

/// What is known of an endpoint's version of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// It was not looked at.
    Unknown,
    /// It is the film in this version.
    Is(Version),
    /// It is another film.
    Other,
}

impl Film {
    /// The film in the version that was found at an endpoint.
    pub fn new(
        path: String,
        address: PathBuf,
        endpoints: usize,
        endpoint: usize,
        version: Version,
    ) -> Film {
        let identity = version.identity(&address.to_string_lossy());
        let lasting = version.is_lasting();
        let mut pins = vec![Pin::Unknown; endpoints];
        pins[endpoint] = Pin::Is(version);
        Film {
            path,
            address,
            identity,
            lasting,
            at_siblings: AtSiblings::new(&identity, lasting),
            pins: Mutex::new(pins),
            spots: OnceLock::new(),
        }
    }

    pub fn pins(&self) -> MutexGuard<'_, Vec<Pin>> {
        // Each is set in one step.
        supervise::whole(self.pins.lock())
    }

    /// The film as it was before it has grown, when it was this.
    pub fn before(&self, identity: FileIdentity) -> Film {
        let as_it_was = |pin: &Pin| match pin {
            Pin::Is(version) => Pin::Is(Version {
                len: identity.size,
                ..version.clone()
            }),
            other => other.clone(),
        };
        Film {
            path: self.path.clone(),
            address: self.address.clone(),
            identity,
            lasting: self.lasting,
            at_siblings: AtSiblings::new(&identity, self.lasting),
            pins: Mutex::new(self.pins().iter().map(as_it_was).collect()),
            spots: OnceLock::new(),
        }
    }

    /// Whether it is a recording that another Reelway has, which may grow.
    pub fn is_recording(&self) -> bool {
        self.identity.of_recording().is_some()
    }

    /// What is known of an endpoint.
    pub fn pin(&self, endpoint: usize) -> Pin {
        self.pins()[endpoint].clone()
    }

    pub fn set_pin(&self, endpoint: usize, pin: Pin) {
        self.pins()[endpoint] = pin;
    }
}

