//! The version of a film at an endpoint, which must not change while the film is read.

use reelway_sys::FileIdentity;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// A version of a film at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Length in bytes.
    pub len: u64,
    /// Entity tag as it was received, with quotes and `W/` (RFC 9110 8.8.3).
    pub etag: Option<String>,
    /// `Last-Modified` in seconds since 1970.
    pub modified: Option<i64>,
    /// Another Reelway's name for the recording, for as long as it only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edition: Option<String>,
}

impl Version {
    /// The entity tag if it is strong: the same tag means the same bytes. Only a strong tag is
    /// allowed in `If-Match` (RFC 9110 13.1.1).
    pub fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// Whether another version could be distinguished from this one: by a tag, even a weak one, or
    /// by its date.
    pub fn is_lasting(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }

    /// Whether an answer's tag and date match this version. What is missing on either side is not
    /// compared, with one exception: if this version has a tag, the answer must have one, as
    /// servers do not stop sending it.
    pub fn fits(&self, etag: Option<&str>, modified: Option<i64>) -> bool {
        match (&self.etag, etag) {
            (Some(mine), Some(theirs)) => {
                mine.trim_start_matches("W/") == theirs.trim_start_matches("W/")
            }
            (Some(_), None) => false,
            (None, _) => match (self.modified, modified) {
                (Some(mine), Some(theirs)) => mine == theirs,
                _ => true,
            },
        }
    }

    /// The film's identity for indexes and cached blocks: equal for the same endpoint, address and
    /// version. It never equals that of a local file. A recording keeps its number when it grows.
    pub fn identity(&self, address: &str) -> FileIdentity {
        let changed = self.modified.unwrap_or_default();
        let changed = changed.saturating_mul(1_000_000_000);
        if let Some(edition) = &self.edition {
            let text = format!("{address}\nrecording {edition}");
            return FileIdentity::remote_recording(xxh3_128(text.as_bytes()), self.len, changed);
        }
        let text = format!(
            "{address}\n{}\n{}\n{}",
            self.len,
            self.etag.as_deref().unwrap_or_default(),
            self.modified.unwrap_or_default()
        );
        FileIdentity::remote(xxh3_128(text.as_bytes()), self.len, changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: Option<&str>, modified: Option<i64>) -> Version {
        Version {
            len: 10,
            etag: etag.map(str::to_owned),
            modified,
            edition: None,
        }
    }

    #[test]
    fn a_tag_decides_where_there_is_one() {
        let tagged = version(Some("\"a\""), Some(5));
        assert!(tagged.fits(Some("\"a\""), Some(5)));
        assert!(
            tagged.fits(Some("W/\"a\""), Some(6)),
            "as told by a proxy that compresses"
        );
        assert!(!tagged.fits(Some("\"b\""), Some(5)));
        assert!(!tagged.fits(None, Some(5)));
        assert_eq!(version(Some("W/\"a\""), None).strong(), None);
    }

    #[test]
    fn without_a_tag_the_date_decides() {
        let dated = version(None, Some(5));
        assert!(dated.fits(None, Some(5)) && dated.fits(None, None));
        assert!(!dated.fits(None, Some(6)));
    }

    #[test]
    fn every_part_of_a_version_makes_another_identity() {
        let base = version(Some("\"a\""), Some(5));
        let identities = [
            base.identity("http://a/x"),
            base.identity("http://a/y"),
            version(Some("\"b\""), Some(5)).identity("http://a/x"),
            version(Some("\"a\""), Some(6)).identity("http://a/x"),
            Version {
                len: 11,
                ..base.clone()
            }
            .identity("http://a/x"),
        ];
        for (nth, one) in identities.iter().enumerate() {
            assert!(one.is_remote());
            assert!(!identities[nth + 1..].contains(one));
        }
        assert_eq!(base.identity("http://a/x"), identities[0]);
    }

    #[test]
    fn a_recording_that_grows_keeps_its_number_and_no_other_version_has_it() {
        let of = |len, edition: &str| {
            Version {
                len,
                edition: Some(edition.to_owned()),
                ..version(Some("\"a\""), Some(5))
            }
            .identity("http://a/x")
        };
        let (short, long) = (of(10, "1f"), of(20, "1f"));
        assert!(short.may_have_grown_into(&long) && !long.may_have_grown_into(&short));
        assert_eq!(short.of_recording(), long.of_recording());
        assert!(short.of_recording().is_some());
        let other = of(20, "2f");
        assert!(!short.may_have_grown_into(&other));
        let plain = version(Some("\"a\""), Some(5)).identity("http://a/x");
        assert_eq!(plain.of_recording(), None);
        assert!(!plain.may_have_grown_into(&long) && plain.number() != long.number());
    }
}
