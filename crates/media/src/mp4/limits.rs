//! Limits on the samples of a film, and the scratch space for them.

use super::boxes::Place;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;

/// Limits on the samples of a film, and the scratch space for them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The size of the file in bytes.
    pub file_len: u64,
    /// The number of further samples allowed.
    pub samples: u32,
    /// Media bytes that samples without individual sizes may still claim; prevents a `trun` of a
    /// few bytes from claiming billions of samples.
    pub unsized_bytes: u64,
    /// Bytes of further sample descriptions allowed, as these stay in memory.
    pub described: usize,
    /// The scratch space for sample tables.
    pub scratch: Scratch,
}

/// The maximum bytes of sample descriptions of a film, all tracks together.
pub const MOST_DESCRIBED: usize = 4 << 20;

impl Limits {
    /// Counts a sample description of this size against the limit.
    pub fn describe(&mut self, of: &Place, bytes: usize) -> Result<(), IndexError> {
        self.described = self.described.checked_sub(bytes).ok_or_else(|| {
            of.error(
                IndexErrorKind::TooLarge,
                format!("brings the sample descriptions to more than {MOST_DESCRIBED} bytes"),
            )
        })?;
        Ok(())
    }

    /// Counts `count` samples against the limit, before anything is allocated for them.
    pub fn book(&mut self, of: &Place, count: u32) -> Result<(), IndexError> {
        self.samples = self.samples.checked_sub(count).ok_or_else(|| {
            of.error(
                IndexErrorKind::TooLarge,
                format!(
                    "brings {count} samples, {} more than are allowed",
                    count - self.samples
                ),
            )
        })?;
        Ok(())
    }

    /// Checks that a sample lies within the file and fits its record.
    #[inline]
    pub fn check(&self, of: &Place, number: u32, offset: u64, size: u32) -> Result<(), IndexError> {
        if offset
            .checked_add(size.into())
            .is_none_or(|end| end > self.file_len)
            || size >> 31 != 0
            || offset >> 48 != 0
        {
            return Err(self.misplaced(of, number, offset, size));
        }
        Ok(())
    }

    #[cold]
    fn misplaced(&self, of: &Place, number: u32, offset: u64, size: u32) -> IndexError {
        let problem = format!(
            "sample {} takes {size} bytes from byte {offset} on; the file ends at byte {}",
            u64::from(number) + 1,
            self.file_len
        );
        of.error(
            if size >> 31 == 0 {
                IndexErrorKind::Incomplete
            } else {
                IndexErrorKind::Damaged
            },
            problem,
        )
    }
}
