//! The container format that carries the streams of a file.

use super::ts::{self, Layout};
use super::{bare, ps};
use crate::title::Container;

/// The container format that carries the streams of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The packets of a transport stream.
    Transport(Layout),
    /// The packets of a program stream, which state their own length.
    Program,
    /// None: the file is an elementary stream.
    Nothing,
}

impl Carrier {
    /// Returns the carrier of a file with this size and beginning (4 KiB, or all); `None`: unknown.
    pub fn of_file(head: &[u8], len: u64) -> Option<Carrier> {
        if let Some(layout) = ts::packet_bytes(head, len).and_then(Layout::of) {
            return Some(Carrier::Transport(layout));
        }
        if ps::begins(head) {
            return Some(Carrier::Program);
        }
        bare::coding(head).map(|_| Carrier::Nothing)
    }

    /// Returns the carrier of a film with this [`View::packet`](crate::View::packet).
    pub fn of_view(packet: u8) -> Carrier {
        match Layout::of(packet) {
            Some(layout) => Carrier::Transport(layout),
            None if packet == 1 => Carrier::Nothing,
            None => Carrier::Program,
        }
    }

    /// Returns the value of [`View::packet`](crate::View::packet).
    pub fn packet(self) -> u8 {
        match self {
            Carrier::Transport(layout) => layout.stride as u8,
            Carrier::Program => 0,
            Carrier::Nothing => 1,
        }
    }

    /// Returns the container format of the title.
    pub fn container(self) -> Container {
        match self {
            Carrier::Transport(_) => Container::TransportStream,
            Carrier::Program => Container::ProgramStream,
            Carrier::Nothing => Container::ElementaryStream,
        }
    }
}
