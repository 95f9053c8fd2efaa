//! What the streams of a file lie in.

use super::ts::{self, Layout};
use super::{bare, ps};
use crate::title::Container;

/// What the streams of a file lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The packets of a transport stream.
    Transport(Layout),
    /// The packets of a program stream, which tell their own length.
    Program,
    /// Nothing: the file is one stream.
    Nothing,
}

impl Carrier {
    /// That of a file of `len` bytes which begins with these (4 KiB, or all of it); `None`: it is of another kind.
    pub fn of_file(head: &[u8], len: u64) -> Option<Carrier> {
        if let Some(layout) = ts::packet_bytes(head, len).and_then(Layout::of) {
            return Some(Carrier::Transport(layout));
        }
        if ps::begins(head) {
            return Some(Carrier::Program);
        }
        bare::coding(head).map(|_| Carrier::Nothing)
    }

    /// That of a film with this [`View::packet`](crate::View::packet).
    pub fn of_view(packet: u8) -> Carrier {
        match Layout::of(packet) {
            Some(layout) => Carrier::Transport(layout),
            None if packet == 1 => Carrier::Nothing,
            None => Carrier::Program,
        }
    }

    /// See [`View::packet`](crate::View::packet).
    pub fn packet(self) -> u8 {
        match self {
            Carrier::Transport(layout) => layout.stride as u8,
            Carrier::Program => 0,
            Carrier::Nothing => 1,
        }
    }

    /// What people call it.
    pub fn container(self) -> Container {
        match self {
            Carrier::Transport(_) => Container::TransportStream,
            Carrier::Program => Container::ProgramStream,
            Carrier::Nothing => Container::ElementaryStream,
        }
    }
}
