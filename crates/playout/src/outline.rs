//! The content to be sent, group by group, shared by all viewers: the timeline of a film, or of a
//! plain file cut into packets.

use std::path::PathBuf;
use std::sync::Arc;

use reelway_media::{Nanos, Samples, Title};
use reelway_rtp::{Payload, PayloadOptions};

use crate::beginning::{Beginning, TrackBeginning};
use crate::cut::Cut;
use crate::error::StreamError;

/// The shortest duration that a group is assumed to have when its rate is calculated.
const SHORTEST: Nanos = 100_000_000;

/// The number of a track within the outline, and of a group within the track.
pub type GroupId = (usize, usize);

/// The tracks of some content, their groups, and when these are due. Created once for a film and
/// shared by all its viewers.
pub struct Outline {
    pub(crate) kind: Content,
    /// How far ahead of its time the film is sent at most, so that it is sent evenly.
    ahead: Nanos,
}

pub(crate) enum Content {
    Film(Film),
    File(Cut),
}

/// A film: its index, and the payload formats of its tracks.
pub(crate) struct Film {
    pub title: Arc<Title>,
    pub samples: Arc<dyn Samples>,
    /// The film's path, for error messages.
    path: PathBuf,
    payloads: Vec<Result<Payload, String>>,
}

impl Film {
    /// Returns an error that names the film.
    pub fn fails(&self, reason: &dyn std::fmt::Display) -> StreamError {
        StreamError(format!("{}: {reason}", self.path.display()))
    }
}

impl Outline {
    /// Creates the outline of a film, with its payload formats. A film with pictures is sent
    /// evenly, up to `ahead` ns before its time.
    pub fn film(
        title: Arc<Title>,
        samples: Arc<dyn Samples>,
        path: PathBuf,
        options: PayloadOptions,
        ahead: Nanos,
    ) -> Outline {
        let ahead = if title.video().is_some() { ahead } else { 0 };
        let payload =
            |track| Payload::new(track, options).map_err(|unsupported| unsupported.reason);
        let payloads = title.tracks.iter().map(payload).collect();
        let film = Film {
            title,
            samples,
            path,
            payloads,
        };
        Outline {
            kind: Content::Film(film),
            ahead,
        }
    }

    /// Creates the outline of a plain file: one track, without a payload format.
    pub fn file(cut: Cut) -> Outline {
        Outline {
            kind: Content::File(cut),
            ahead: 0,
        }
    }

    /// Returns how far ahead of its time anything may leave, ns.
    pub fn ahead(&self) -> Nanos {
        self.ahead
    }

    /// Returns the film's index; `None` for a plain file.
    fn title(&self) -> Option<&Title> {
        match &self.kind {
            Content::Film(film) => Some(&film.title),
            Content::File(_) => None,
        }
    }

    /// Returns whether a track is a film's video track.
    pub fn is_picture(&self, track: usize) -> bool {
        let track = self.title().and_then(|title| title.tracks.get(track));
        track.is_some_and(|track| track.kind == reelway_media::Kind::Video)
    }

    /// Returns the packetiser of a film's track, or the reason why there is none.
    pub fn payload(&self, track: usize) -> Result<Option<&Payload>, String> {
        match &self.kind {
            Content::File(_) => Ok(None),
            Content::Film(film) => match film.payloads.get(track) {
                Some(Ok(payload)) => Ok(Some(payload)),
                Some(Err(reason)) => Err(reason.clone()),
                None => Err(format!("the film has no track number {track}")),
            },
        }
    }

    /// Returns the number of groups of a track.
    pub fn groups(&self, track: usize) -> usize {
        match &self.kind {
            Content::Film(film) => film
                .title
                .tracks
                .get(track)
                .map_or(0, |track| track.groups.len()),
            Content::File(cut) => cut.groups(),
        }
    }

    /// Returns when a group's first packet is due on the film's timeline; [`Nanos::MAX`] if there
    /// is no such group.
    pub fn group_due(&self, track: usize, group: usize) -> Nanos {
        match &self.kind {
            Content::Film(film) => {
                let track = film.title.tracks.get(track);
                track
                    .and_then(|track| Some(track.decode(track.groups.get(group)?.dts)))
                    .unwrap_or(Nanos::MAX)
            }
            Content::File(cut) => cut.group_due(group),
        }
    }

    /// Returns the peak rate of a track in bytes per second, averaged over a group.
    pub fn peak_rate(&self, track: usize) -> u64 {
        let rate = |bytes: u64, nanos: Nanos| {
            let nanos = nanos.max(1) as u128;
            (u128::from(bytes) * 1_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64
        };
        match &self.kind {
            Content::File(cut) => {
                let (bytes, time) = cut.pace();
                rate(bytes, time)
            }
            Content::Film(film) => {
                let Some(track) = film.title.tracks.get(track) else {
                    return 0;
                };
                let ends = track
                    .groups
                    .iter()
                    .skip(1)
                    .map(|group| track.decode(group.dts));
                let ends = ends.chain([film.title.duration]);
                let groups = track.groups.iter().zip(ends);
                // A group of a few samples at a film's end may be very short.
                let rate = |(group, end): (reelway_media::Group, Nanos)| {
                    let lasts = end.saturating_sub(track.decode(group.dts));
                    rate(group.bytes.into(), lasts.max(SHORTEST))
                };
                groups.map(rate).max().unwrap_or(0)
            }
        }
    }

    /// Returns the presentation duration, ns.
    pub fn duration(&self) -> Nanos {
        match &self.kind {
            Content::Film(film) => film.title.duration,
            Content::File(cut) => cut.duration(),
        }
    }

    /// Returns the RTP timestamp of a film position, before the viewer's base is added.
    pub fn rtp_time(&self, track: usize, at: Nanos) -> u32 {
        match &self.kind {
            Content::File(cut) => cut.rtp_time(at),
            Content::Film(_) => self
                .payload(track)
                .ok()
                .flatten()
                .map_or(0, |payload| payload.rtp_time(at)),
        }
    }

    /// Returns where `tracks` begin for the requested position `wish`: video at the sync sample at
    /// or before it, a plain file at the packet that is due then. Reads the film's index.
    pub fn locate(&self, tracks: &[usize], wish: Nanos) -> Result<Beginning, StreamError> {
        match &self.kind {
            Content::Film(film) => Beginning::find(&film.title, &*film.samples, tracks, wish)
                .map_err(|error| film.fails(&error)),
            Content::File(cut) => {
                let at = wish.max(0);
                let group = cut.group_at(at);
                let track = group.map(|group| TrackBeginning { group, due: at });
                Ok(Beginning {
                    at,
                    tracks: vec![track],
                })
            }
        }
    }
}
