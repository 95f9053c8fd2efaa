//! Subtitle tracks inside a film.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::stored::{Home, Stored};

/// A subtitle track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextTrack {
    /// The track_ID in the file.
    pub id: u32,
    /// The format of the document.
    pub form: TextForm,
    /// The language (ISO 639-2/T or BCP 47), `None` if undetermined.
    pub language: Option<String>,
    /// The track's own name, if it is meaningful.
    pub name: Option<String>,
    /// Whether it is shown unless viewers choose otherwise.
    pub default: bool,
    /// Whether it covers only speech in a language other than the film's.
    pub forced: bool,
    /// Whether it is for the deaf and hard of hearing.
    pub sdh: bool,
    /// All cues, on the film's timeline.
    pub document: Document,
}

/// Document formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextForm {
    /// SubRip.
    SubRip,
    /// WebVTT.
    WebVtt,
    /// Advanced SubStation Alpha.
    Ass,
}

/// The text of a track in the form of a subtitle file. It is in memory while the film is being
/// indexed, and in the index afterwards.
#[derive(Clone)]
pub struct Document {
    len: u32,
    home: Home,
}

impl Document {
    /// Creates a document of these bytes.
    pub fn new(bytes: Vec<u8>) -> Document {
        Document {
            len: bytes.len() as u32,
            home: Home::Here(bytes),
        }
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u32 {
        self.len
    }

    /// Returns the bytes, or `None` if they cannot be read.
    pub fn read(&self) -> Option<Vec<u8>> {
        self.home.copy(self.len)
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.home.memory()
    }

    /// Takes the bytes, to be stored elsewhere; there are none until [`Document::attach`].
    pub fn detach(&mut self) -> Vec<u8> {
        self.home.take(self.len)
    }

    /// Sets where the bytes are read from after [`Document::detach`].
    pub fn attach(&mut self, stored: Arc<dyn Stored>) {
        self.home = Home::There(stored);
    }

    /// Returns a copy with its bytes in memory; empty if they cannot be read.
    pub(crate) fn here(&self) -> Document {
        Document::new(self.read().unwrap_or_default())
    }

    /// Returns whether the bytes are in memory and of the stated length.
    pub(crate) fn is_here(&self) -> bool {
        matches!(&self.home, Home::Here(bytes) if bytes.len() == self.len as usize)
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.read() == other.read()
    }
}

impl Eq for Document {}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes)", self.len)
    }
}

/// Bytes that are stored elsewhere are omitted: the reader of the document has to attach them.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: &[u8] = match &self.home {
            Home::Here(bytes) => bytes,
            Home::There(_) => &[],
        };
        (self.len, bytes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (len, bytes) = <(u32, Vec<u8>)>::deserialize(deserializer)?;
        Ok(Document {
            len,
            home: Home::Here(bytes),
        })
    }
}
