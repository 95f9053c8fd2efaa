//! The identity of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file's identity: an index or a cached block made from it is valid as long as this does not
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last modification of its contents, in ns since 1970.
    pub mtime_ns: i64,
}

/// The bit of a device number that no local file has: it marks a film on another server.
const REMOTE: u64 = 1 << 63;
/// The upper half of the device number of a remote recording, which keeps its number while it
/// grows. Another film has this value by chance, once in two thousand million. This does no harm:
/// no other version has the same number.
const RECORDING: u64 = 0xc7ec_0d1b << 32;
/// The mask of the upper half.
const UPPER: u64 = 0xffff_ffff << 32;

impl FileIdentity {
    /// The identity of a remote file with `size` bytes, last modified at `mtime_ns` (ns since
    /// 1970). `number` identifies its address and version.
    pub fn remote(number: u128, size: u64, mtime_ns: i64) -> FileIdentity {
        FileIdentity {
            device: (number >> 64) as u64 | REMOTE,
            inode: number as u64,
            size,
            mtime_ns,
        }
    }

    /// The identity of a remote recording that has `size` bytes now. `number` identifies its
    /// address and the name that its server uses while it grows.
    pub fn remote_recording(number: u128, size: u64, mtime_ns: i64) -> FileIdentity {
        FileIdentity {
            device: (number >> 64) as u64 & !UPPER | RECORDING,
            ..FileIdentity::remote(number, size, mtime_ns)
        }
    }

    /// The identity that a remote recording keeps while it grows; `None` if it is not one.
    pub fn of_recording(&self) -> Option<FileIdentity> {
        (self.device & UPPER == RECORDING).then_some(FileIdentity {
            size: 0,
            mtime_ns: 0,
            ..*self
        })
    }

    /// The identity of a view of this file with `size` bytes.
    pub fn of_view(self, size: u64) -> FileIdentity {
        FileIdentity {
            // No file has such a device number.
            device: !self.device,
            size,
            ..self
        }
    }

    /// Whether it is the identity of this file, or of a view of it.
    pub fn is_of(&self, file: FileIdentity) -> bool {
        *self == file || *self == file.of_view(self.size)
    }

    /// Whether this file may have become `now` by growing: it is the same file, and not shorter.
    /// That its old contents are unchanged is shown by its [`Mark`](crate::Mark), or for a remote
    /// file by its number.
    pub fn may_have_grown_into(&self, now: &FileIdentity) -> bool {
        let is_same = (self.device, self.inode) == (now.device, now.inode);
        is_same && self.size <= now.size && self.mtime_ns <= now.mtime_ns
    }

    /// Whether the film is on another server.
    pub fn is_remote(&self) -> bool {
        self.device & REMOTE != 0
    }

    /// The number of a remote film: the same on every server that reads the same version of it from
    /// the same address. `None` for a local file.
    pub fn number(&self) -> Option<u128> {
        self.is_remote()
            .then(|| u128::from(self.device) << 64 | u128::from(self.inode))
    }
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mtime_ns: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
        }
    }
}

/// A device number as in the kernel's files: major and minor.
pub fn device_numbers(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_elsewhere_is_the_same_when_it_has_grown_and_no_other_film_is() {
        let of = |size| FileIdentity::remote_recording(u128::MAX, size, size as i64);
        let lasting = of(1).of_recording();
        assert!(of(1).is_remote() && of(1) != of(2));
        assert_eq!(of(2).of_recording(), lasting);
        assert!(lasting.is_some() && lasting.and_then(|film| film.of_recording()) == lasting);
        assert!(of(1).may_have_grown_into(&of(2)) && !of(2).may_have_grown_into(&of(1)));
        assert_eq!(of(1).number(), of(2).number());
        let other = FileIdentity::remote_recording(3, 2, 2);
        assert!(!of(1).may_have_grown_into(&other));
        for number in [0, u128::MAX] {
            assert_eq!(FileIdentity::remote(number, 1, 1).of_recording(), None);
        }
        let file = FileIdentity {
            device: 0x801,
            inode: 2,
            size: 3,
            mtime_ns: 4,
        };
        assert_eq!(file.of_recording(), None);
    }
}
