//! Delays of starting a film and of seeking.

use std::time::Duration;

use tokio::time;

use super::connection::{Connection, Described};
use super::description;
use super::options::{Options, SILENCE};
use super::track::{ReceivedTrack, readable};
use crate::packet::parse;
use crate::socket::Inbox;
use crate::trouble::Trouble;

/// Plays from each of `places` (seconds) in turn within one session, over UDP. Returns for each the
/// time from the PLAY request to the first packet of the new place. The first is a start, the
/// others are seeks.
pub async fn start_times(url: &str, places: &[f64]) -> Result<Vec<Duration>, Trouble> {
    let Described {
        mut connection,
        base,
        sdp,
    } = Connection::describe(url).await?;
    let mut tracks = Vec::new();
    let media = description::parse(&sdp, &base)?;
    for (number, media) in media.iter().enumerate() {
        tracks.push(
            ReceivedTrack::set_up(&mut connection, media, number as u8, &Options::default())
                .await?,
        );
    }
    let mut inbox = Inbox::new();
    let mut times = Vec::with_capacity(places.len());
    for place in places {
        let asked = reelway_clock::real().nanos();
        let answer = connection
            .request("PLAY", &base, &[&format!("Range: npt={place:.3}-")])
            .await?;
        let info = answer.header("rtp-info").unwrap_or_default();
        let first: Vec<Option<u16>> = tracks
            .iter()
            .map(|track| description::rtp_info(info, &track.control).0)
            .collect();
        let wait = async {
            loop {
                for (track, seq) in tracks.iter().zip(&first) {
                    let Some(sockets) = &track.sockets else {
                        continue;
                    };
                    // Drains reports, which would otherwise end each wait at once.
                    while inbox.receive_ready(&sockets.rtcp).is_ok() {}
                    let Ok(received) = inbox.receive_ready(&sockets.rtp) else {
                        continue;
                    };
                    let arrived = inbox.datagrams(&received).next().and_then(parse);
                    if arrived.is_some_and(|(header, _)| Some(header.seq) == *seq) {
                        return received.at;
                    }
                }
                readable(&tracks).await;
            }
        };
        let at = time::timeout(SILENCE, wait)
            .await
            .map_err(|_| Trouble::Silence(SILENCE.as_secs()))?;
        times.push(Duration::from_nanos(at.saturating_sub(asked)));
    }
    let _ = connection.request("TEARDOWN", &base, &[]).await;
    Ok(times)
}
