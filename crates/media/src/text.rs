//! Subtitles inside a film: tracks of text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::stored::{Home, Stored};

/// A track of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextTrack {
    /// track_ID in the file.
    pub id: u32,
    /// What the document is.
    pub form: TextForm,
    /// ISO 639-2/T or BCP 47 language, `None` for undetermined.
    pub language: Option<String>,
    /// The track's own name, if it says something.
    pub name: Option<String>,
    /// Shown unless a viewer chooses otherwise.
    pub default: bool,
    /// Only what is said in another language than the film's.
    pub forced: bool,
    /// For people who do not hear well.
    pub sdh: bool,
    /// All of its cues, on the film's timeline.
    pub document: Document,
}

/// Forms of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextForm {
    /// SubRip.
    SubRip,
    /// WebVTT.
    WebVtt,
    /// Advanced SubStation Alpha.
    Ass,
}

/// The text of a track, as it would be in a file beside the film. It is in memory while the film is indexed, and in the
/// index afterwards.
#[derive(Clone)]
pub struct Document {
    len: u32,
    home: Home,
}

impl Document {
    /// With these bytes.
    pub fn new(bytes: Vec<u8>) -> Document {
        Document {
            len: bytes.len() as u32,
            home: Home::Here(bytes),
        }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u32 {
        self.len
    }

    /// The bytes; `None`: they cannot be read.
    pub fn read(&self) -> Option<Vec<u8>> {
        self.home.copy(self.len)
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.home.memory()
    }

    /// Takes the bytes out of it, to be kept elsewhere; it has none until [`Document::attach`] says where they are.
    pub fn detach(&mut self) -> Vec<u8> {
        self.home.take(self.len)
    }

    /// Has its bytes read from where [`Document::detach`]ed ones are kept.
    pub fn attach(&mut self, stored: Arc<dyn Stored>) {
        self.home = Home::There(stored);
    }

    /// With its bytes in memory; empty where they cannot be read.
    pub(crate) fn here(&self) -> Document {
        Document::new(self.read().unwrap_or_default())
    }

    /// Whether it is in memory, and as long as it says.
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

/// Bytes that lie elsewhere are left out: whoever reads the document back has to attach them.
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
