//! Films as RTSP sees them: the tracks that can be sent over RTP, and their description.

use std::net::IpAddr;

use reelway_media::{Nanos, Title};
use reelway_rtp::sdp::{Description, Profile, SdpMedia, Section};
use reelway_rtp::{Payload, PayloadOptions};

use crate::response::SERVER;

/// Query parameter that requests the unchanged transport stream.
pub(crate) const AS_TS: &str = "as=ts";
/// First payload type that a session description may assign (RFC 3551 section 6).
const FIRST_DYNAMIC: u8 = 96;
/// Last payload type that a session description may assign.
const LAST_DYNAMIC: u8 = 127;

/// A film as RTSP sees it. `F` is the server's handle, which is passed back with orders unchanged.
#[derive(Clone, Debug)]
pub struct Film<F> {
    /// TITLE, as in URLs, without encoding.
    pub title: String,
    /// Display name.
    pub name: String,
    /// Identity of its file.
    pub identity: Identity,
    /// How it is sent.
    pub form: Form,
    /// Duration.
    pub duration: Nanos,
    /// The tracks available over RTP, in the order of the description. Never empty.
    pub tracks: Vec<FilmTrack>,
    /// Description of each of `tracks`.
    pub media: Vec<SdpMedia>,
    /// The server's handle.
    pub handle: F,
}

/// How a film is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Each track separately.
    #[default]
    Tracks,
    /// The file's transport stream, unchanged.
    TransportStream,
}

/// A track that is available over RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilmTrack {
    /// The N of its URL, which ends in `track=N`: its position in the file, from 1.
    pub number: u32,
    /// RTP payload type.
    pub payload_type: u8,
    /// RTP payload type of retransmissions (RFC 4588), different from the track's own.
    pub rtx_type: u8,
    /// Clock rate of its RTP timestamps in Hz.
    pub clock_rate: u32,
}

/// Why a film is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilmError {
    /// No film has this name.
    Unknown(String),
    /// It may become available later.
    NotReady(String),
    /// It cannot be sent over RTSP.
    Unplayable(String),
    /// It should be watched at another server, where it has this address, without a query.
    Elsewhere(String),
    /// It exists, but reading it fails.
    Failed(String),
}

/// The identity of a file, as descriptions state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Identifies the description together with `version`.
    pub id: u64,
    /// Increases when the file changes.
    pub version: u64,
}

impl<F> Film<F> {
    /// Creates the film `title` from `file`, with the tracks that can be sent over RTP.
    ///
    /// # Errors
    /// Fails if no track can be sent.
    pub fn new(
        title: &str,
        file: &Title,
        identity: Identity,
        form: Form,
        options: PayloadOptions,
        handle: F,
    ) -> Result<Film<F>, FilmError> {
        let (mut tracks, mut media, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        let mut payload_types = FIRST_DYNAMIC..=LAST_DYNAMIC;
        for (number, track) in (1u32..).zip(&file.tracks) {
            match Payload::new(track, options) {
                Ok(payload) => {
                    let Some(dynamic) = payload_types.next() else {
                        break;
                    };
                    tracks.push(FilmTrack {
                        number,
                        payload_type: payload.static_type().unwrap_or(dynamic),
                        rtx_type: dynamic ^ 16,
                        clock_rate: payload.clock_rate(),
                    });
                    media.push(payload.sdp().clone());
                }
                Err(unsupported) => reasons.push(unsupported.reason),
            }
        }
        if tracks.is_empty() {
            let reasons = reasons.join("; ");
            return Err(FilmError::Unplayable(format!(
                "film '{title}' does not play over RTSP: {reasons}"
            )));
        }
        let file_name = title.rsplit('/').next().unwrap_or(title);
        Ok(Film {
            title: title.to_owned(),
            name: file.name.as_deref().unwrap_or(file_name).to_owned(),
            identity,
            form,
            duration: file.duration,
            tracks,
            media,
            handle,
        })
    }

    /// Returns the URL of a track, relative to the film's.
    pub fn control(&self, track: u32) -> String {
        match self.form {
            Form::Tracks => format!("track={track}"),
            Form::TransportStream => format!("track={track}?{AS_TS}"),
        }
    }

    /// Returns the session description (SDP) for a client that connected to the server at `server`,
    /// with its tracks offered in this profile.
    pub fn sdp(&self, server: IpAddr, profile: Profile) -> String {
        let controls: Vec<String> = self
            .tracks
            .iter()
            .map(|track| self.control(track.number))
            .collect();
        let sections = self.tracks.iter().zip(&self.media).zip(&controls);
        let sections: Vec<Section<'_>> = sections
            .map(|((track, media), control)| Section {
                media,
                payload_type: track.payload_type,
                control,
                rtx: Some(track.rtx_type),
            })
            .collect();
        Description {
            id: self.identity.id,
            version: self.identity.version,
            server,
            name: &self.name,
            tool: SERVER,
            duration: self.duration,
            profile,
            sections: &sections,
        }
        .to_text()
    }
}
