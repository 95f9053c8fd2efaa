//! A viewer that requests a film over RTSP and leaves reception to a [`super::LightReceiver`].

use crate::rtsp::connection::{Connection, Described};
use crate::rtsp::description;
use crate::trouble::Trouble;

/// A track of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LightMedia {
    /// Whether it is video.
    pub is_video: bool,
    /// RTP clock rate in Hz.
    pub clock_rate: u32,
}

/// A viewer whose streams are playing.
#[derive(Debug)]
pub struct LightViewer {
    connection: Connection,
    base: String,
}

/// Returns the tracks of a film.
///
/// # Errors
/// The server cannot be reached, or does not have the film.
pub async fn describe(url: &str) -> Result<Vec<LightMedia>, Trouble> {
    let Described { base, sdp, .. } = Connection::describe(url).await?;
    let media = description::parse(&sdp, &base)?;
    Ok(media
        .iter()
        .map(|media| LightMedia {
            is_video: media.is_video,
            clock_rate: media.clock_rate,
        })
        .collect())
}

impl LightViewer {
    /// Plays a film from its beginning. Track n is sent to UDP port `ports[n]` (RTCP to the next),
    /// which other viewers may share.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    pub async fn begin(url: &str, ports: &[u16]) -> Result<LightViewer, Trouble> {
        LightViewer::begin_at(url, ports, 0.0).await
    }

    /// Plays a film from `seconds` on.
    ///
    /// # Errors
    /// The server refuses or does not answer.
    pub async fn begin_at(url: &str, ports: &[u16], seconds: f64) -> Result<LightViewer, Trouble> {
        let Described {
            mut connection,
            base,
            sdp,
        } = Connection::describe(url).await?;
        for (media, port) in description::parse(&sdp, &base)?.iter().zip(ports) {
            let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{}", port + 1);
            connection
                .request("SETUP", &media.control, &[&transport])
                .await?;
        }
        let range = format!("Range: npt={seconds:.3}-");
        connection.request("PLAY", &base, &[&range]).await?;
        Ok(LightViewer { connection, base })
    }

    /// Sends a keepalive.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn alive(&mut self) -> Result<(), Trouble> {
        self.connection
            .request("OPTIONS", &self.base, &[])
            .await
            .map(drop)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// The connection is broken, or the server does not answer.
    pub async fn end(mut self) -> Result<(), Trouble> {
        self.connection
            .request("TEARDOWN", &self.base, &[])
            .await
            .map(drop)
    }
}
