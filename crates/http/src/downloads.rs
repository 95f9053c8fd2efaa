//! The capacity that downloads may take of what is unbooked ([`reelway_viewing::Spares`]), as
//! reported by admission.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::{Gate, Resource};
use reelway_sys::FileIdentity;
use reelway_viewing::{Beyond, Download, Spares};

/// All downloads.
pub(crate) struct Downloads {
    gate: Gate,
    /// Whether downloads may exceed their film's pace at all.
    are_eager: bool,
    /// The code point of their packets.
    dscp: u8,
    spares: Mutex<Spares<Resource>>,
}

impl Downloads {
    pub fn new(gate: Gate, are_eager: bool, dscp: u8) -> Arc<Downloads> {
        Arc::new(Downloads {
            gate,
            are_eager,
            dscp,
            spares: Mutex::default(),
        })
    }

    /// Returns the code point of their packets.
    pub fn dscp(&self) -> u8 {
        self.dscp
    }

    /// Returns the share of a viewer's download; `None`: it gets its film's pace and no more.
    pub fn share(self: &Arc<Self>, file: &FileIdentity, peer: IpAddr) -> Option<Share> {
        self.are_eager.then(|| self.begin(file, peer))
    }

    /// Begins a share of unbooked capacity, for an answer from this file to this address.
    pub fn begin(self: &Arc<Self>, file: &FileIdentity, peer: IpAddr) -> Share {
        Share {
            download: self.spares().begin(self.gate.on_the_way(file, peer)),
            downloads: self.clone(),
        }
    }

    fn spares(&self) -> MutexGuard<'_, Spares<Resource>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One answer's share of unbooked capacity.
pub(crate) struct Share {
    downloads: Arc<Downloads>,
    download: Download<Resource>,
}

impl Share {
    /// Whether no resource on its way is limited.
    pub fn is_all(&self) -> bool {
        self.download.is_unlimited()
    }

    /// Takes permission to send the next piece beyond the film's pace ([`Spares::take`]). On error,
    /// returns how long to wait.
    pub fn take(&self, asked: Option<u64>, most: u64, now: Monotonic) -> Result<u64, Duration> {
        let mut spares = self.looked(now);
        spares.take(&self.download, asked, most, now)
    }

    /// Returns how much may be sent beyond its film's pace.
    pub fn beyond(&self, now: Monotonic) -> Beyond {
        self.looked(now).beyond(&self.download)
    }

    /// Records that the film's pace suffices: those behind it in the queue need not wait for it.
    pub fn rests(&self) {
        if !self.is_all() {
            self.downloads.spares().rests(&self.download);
        }
    }

    /// Returns the unbooked capacities, updated from admission if they are out of date.
    fn looked(&self, now: Monotonic) -> MutexGuard<'_, Spares<Resource>> {
        let mut spares = self.downloads.spares();
        for resource in spares.stale(&self.download, now) {
            spares.set(resource, self.downloads.gate.unbooked(resource), now);
        }
        spares
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.is_all() {
            self.downloads.spares().end(&self.download);
        }
    }
}
