//! A track of a measuring viewer: its SETUP and its sockets.

use std::net::SocketAddr;
use std::task::Poll;

use tokio::net::UdpSocket;

use super::connection::Connection;
use super::description::{Media, transport_field};
use super::options::Options;
use crate::meter::TrackMeter;
use crate::socket;
use crate::trouble::Trouble;

/// Receive buffer of a track in bytes: a second of 16 Mb/s.
const BUFFER: usize = 2 << 20;

/// A received track.
pub(super) struct ReceivedTrack {
    pub control: String,
    pub meter: TrackMeter,
    /// Number of its access units that were passed to the player.
    pub told: usize,
    /// `None` over TCP.
    pub sockets: Option<Sockets>,
}

/// The sockets of a track.
pub(super) struct Sockets {
    pub rtp: UdpSocket,
    pub rtcp: UdpSocket,
    /// The server's address for RTCP.
    reports: Option<SocketAddr>,
}

impl ReceivedTrack {
    /// Sets up a track; `number` counts from 0.
    pub async fn set_up(
        connection: &mut Connection,
        media: &Media,
        number: u8,
        options: &Options,
    ) -> Result<ReceivedTrack, Trouble> {
        let mut meter = TrackMeter::new(
            media.is_video,
            media.clock_rate,
            media.format,
            options.compare,
            options.depth.as_nanos() as u64,
        );
        if options.pipe.is_some() {
            meter.keep(media.format);
        }
        let rtx = media.rtx.filter(|_| options.repair && !options.tcp);
        if let Some(rtx) = rtx {
            meter.repairs(rtx);
        }
        let mut track = ReceivedTrack {
            control: media.control.clone(),
            meter,
            told: 0,
            sockets: None,
        };
        if options.tcp {
            let (rtp, rtcp) = (number * 2, number * 2 + 1);
            let transport = format!("Transport: RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}");
            connection
                .request("SETUP", &track.control, &[&transport])
                .await?;
            return Ok(track);
        }
        let (rtp, rtcp) = socket::pair(connection.local()?.ip(), 0, BUFFER)?;
        let port = rtp.local_addr()?.port();
        // A participant in RTCP feedback uses the AVPF profile (RFC 4585 section 4.1).
        let profile = if rtx.is_some() { "AVPF" } else { "AVP" };
        let transport = format!(
            "Transport: RTP/{profile};unicast;client_port={port}-{}",
            port + 1
        );
        // Not connected to the server's address, as several servers may send one film.
        let answer = connection
            .request("SETUP", &track.control, &[&transport])
            .await?;
        let said = answer.header("transport").unwrap_or_default();
        let reports = transport_field(said, "server_port")
            .and_then(|ports| ports.split('-').nth(1)?.trim().parse().ok());
        let peer = connection.peer()?.ip();
        track.sockets = Some(Sockets {
            rtp: UdpSocket::from_std(rtp)?,
            rtcp: UdpSocket::from_std(rtcp)?,
            reports: reports.map(|port| SocketAddr::new(peer, port)),
        });
        Ok(track)
    }

    /// Requests lost packets, if this was agreed on.
    pub fn ask(&mut self) {
        if let (Some(nack), Some(sockets)) = (self.meter.ask(), &self.sockets)
            && let Some(to) = sockets.reports
        {
            // If this fails, the packets are requested again.
            let _ = sockets.rtcp.try_send_to(&nack, to);
        }
    }
}

/// Waits until any of the tracks' sockets has a datagram or an error.
pub(super) async fn readable(tracks: &[ReceivedTrack]) {
    let sockets = tracks.iter().filter_map(|track| track.sockets.as_ref());
    let sockets: Vec<&UdpSocket> = sockets
        .flat_map(|sockets| [&sockets.rtp, &sockets.rtcp])
        .collect();
    std::future::poll_fn(|context| {
        if sockets
            .iter()
            .any(|socket| socket.poll_recv_ready(context).is_ready())
        {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
