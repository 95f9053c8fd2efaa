//! A virtual viewer's RTSP control connection. The media arrives over UDP at a [`Receiver`], or in
//! this connection, from where it is passed on to it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time;

use super::plan::{Deed, USUAL, Visit};
use super::receiver::{Receiver, Sampled, Way, own_pair};
use super::viewing::{Live, PlayAnswer, ViewerResult};
use crate::packet::parse;
use crate::reports;
use crate::rtsp::connection::{Answer, Connection, Described, Incoming};
use crate::rtsp::description::{self, Media};
use crate::trouble::Trouble;

/// Time between keepalives; every server's timeout is longer.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Maximum time between two checks.
const LOOK: Duration = Duration::from_millis(500);
/// Silence after which a film at its end counts as ended, for servers that send no BYE.
const END: Duration = Duration::from_secs(1);
/// Maximum distance of the last access unit from the film's end, in nanoseconds.
const NEAR_END: i64 = 1_000_000_000;
/// The scale that viewers request for fast play.
const FAST: f64 = 4.0;

/// State shared by all viewers.
#[derive(Debug)]
pub(super) struct Shared {
    pub receivers: Vec<Receiver>,
    pub depth: Duration,
    pub patience: Duration,
    /// Whether media arrives in the control connection.
    pub tcp: bool,
    /// Whether the run is over and everybody leaves.
    pub over: AtomicBool,
    /// Whether a server did not announce its SSRCs, so that each viewer uses sockets of their own.
    pub own: AtomicBool,
    /// Start of the run in ns since 1970.
    pub began: u64,
    /// What viewers over HTTP have received.
    pub over_http: Mutex<Sampled>,
}

impl Shared {
    /// Returns the seconds since the start of the run.
    pub fn at(&self) -> f64 {
        reelway_clock::real().nanos().saturating_sub(self.began) as f64 / 1e9
    }

    /// Counts a segment that a viewer over HTTP got.
    pub fn note_segment(&self, bytes: u64, late: Duration) {
        if let Ok(mut all) = self.over_http.lock() {
            all.packets += 1;
            all.bytes += bytes;
            all.late.add(late);
        }
    }
}

/// The results of a viewer.
#[derive(Debug, Default)]
pub(super) struct ViewerReport {
    pub seen: ViewerResult,
    pub trouble: Option<Trouble>,
    /// By how many nanoseconds the server ended the film too early.
    pub short: Option<i64>,
    pub events: Vec<(f64, String)>,
}

/// Maximum number of events per viewer.
const MOST_EVENTS: usize = 100;

/// Plays a film as the visit says.
pub(super) async fn watch(
    visit: &Visit,
    url: &str,
    source: Option<IpAddr>,
    shared: &Shared,
) -> ViewerReport {
    let receiver = &shared.receivers[visit.number % shared.receivers.len()];
    let mut report = ViewerReport::default();
    let mut viewer = match begin(visit.number, url, source, shared, receiver).await {
        Ok(viewer) => viewer,
        Err(trouble) => {
            report.seen = receiver.end(visit.number).await;
            report.trouble = Some(trouble);
            return report;
        }
    };
    report.trouble = viewer.watch(visit, &mut report.events).await.err();
    report.short = viewer.short();
    if report.trouble.is_none() {
        // If the server does not answer TEARDOWN, it has still served the film.
        let _ = viewer
            .connection
            .request("TEARDOWN", &viewer.base, &[])
            .await;
    }
    report.seen = receiver.end(visit.number).await;
    report
}

struct Viewer<'a> {
    number: usize,
    connection: Connection,
    base: String,
    controls: Vec<String>,
    /// The film's end in nanoseconds.
    to: Option<i64>,
    receiver: &'a Receiver,
    shared: &'a Shared,
    live: Arc<Live>,
    /// Whether the viewer has played fast; if so, RTP timestamps no longer show the film's time.
    was_fast: bool,
}

async fn begin<'a>(
    number: usize,
    url: &str,
    source: Option<IpAddr>,
    shared: &'a Shared,
    receiver: &'a Receiver,
) -> Result<Viewer<'a>, Trouble> {
    let mut own = shared.own.load(Ordering::Relaxed);
    loop {
        if let Some(mut viewer) = set_up(number, url, source, own, shared, receiver).await? {
            viewer.play(&["Range: npt=0.000-"], 0).await?;
            return Ok(viewer);
        }
        own = true;
    }
}

/// Performs everything before PLAY. Returns `None` if the streams cannot be distinguished from
/// others, so that they need sockets of their own.
async fn set_up<'a>(
    number: usize,
    url: &str,
    source: Option<IpAddr>,
    own: bool,
    shared: &'a Shared,
    receiver: &'a Receiver,
) -> Result<Option<Viewer<'a>>, Trouble> {
    let Described {
        mut connection,
        base,
        sdp,
    } = Connection::describe_from(url, source).await?;
    let media: Vec<Media> = description::parse(&sdp, &base)?;
    let to = description::end(&sdp);
    let (mut ssrcs, mut pairs) = (Vec::new(), Vec::new());
    for (number, media) in media.iter().enumerate() {
        let transport = if shared.tcp {
            let channel = number * 2;
            let channels = format!("interleaved={channel}-{}", channel + 1);
            format!("Transport: RTP/AVP/TCP;unicast;{channels}")
        } else {
            let port = if own {
                let pair = own_pair()?;
                let port = pair.0.local_addr()?.port();
                pairs.push(pair);
                port
            } else {
                receiver.port()
            };
            format!("Transport: RTP/AVP;unicast;client_port={port}-{}", port + 1)
        };
        let answer = connection
            .request("SETUP", &media.control, &[&transport])
            .await?;
        let ssrc = answer
            .header("transport")
            .and_then(|transport| description::transport_field(transport, "ssrc"))
            .and_then(|ssrc| u32::from_str_radix(ssrc.trim(), 16).ok());
        ssrcs.extend(ssrc);
    }
    let named = ssrcs.len() == media.len();
    let own = own || shared.tcp;
    let way = if shared.tcp {
        Way::HandedIn
    } else if own {
        Way::Own(pairs)
    } else {
        Way::Shared(ssrcs)
    };
    let live = Arc::new(Live::default());
    let clocks = media
        .iter()
        .map(|media| (media.is_video, media.clock_rate))
        .collect();
    if !own {
        if !named {
            shared.own.store(true, Ordering::Relaxed);
        }
        // If another stream happens to have the same SSRC, this one needs sockets of its own, too.
        if !named
            || !receiver
                .add(number, clocks, way, shared.depth, Arc::clone(&live))
                .await
        {
            let _ = connection.request("TEARDOWN", &base, &[]).await;
            return Ok(None);
        }
    } else {
        receiver
            .add(number, clocks, way, shared.depth, Arc::clone(&live))
            .await;
    }
    Ok(Some(Viewer {
        number,
        connection,
        base,
        controls: media.into_iter().map(|media| media.control).collect(),
        to,
        receiver,
        shared,
        live,
        was_fast: false,
    }))
}

impl Viewer<'_> {
    /// Sends PLAY, and starts to judge from the place in the answer (by default `from`, in
    /// nanoseconds).
    async fn play(&mut self, headers: &[&str], from: i64) -> Result<Answer, Trouble> {
        let asked = reelway_clock::real().nanos();
        let answer = self.connection.request("PLAY", &self.base, headers).await?;
        let info = answer.header("rtp-info").unwrap_or_default();
        let tracks = self
            .controls
            .iter()
            .map(|control| description::rtp_info(info, control))
            .collect();
        let from = answer
            .header("range")
            .and_then(description::npt_start)
            .unwrap_or(from);
        let place = PlayAnswer {
            asked,
            from,
            tracks,
        };
        self.receiver.play(self.number, place);
        // Ends the silence of a pause at once, not only when the receiver has processed the
        // command.
        let now = reelway_clock::real().nanos();
        self.live.last.fetch_max(now, Ordering::Relaxed);
        Ok(answer)
    }

    fn newest(&self) -> i64 {
        self.live.newest.load(Ordering::Relaxed)
    }

    fn is_at_end(&self) -> bool {
        self.to.is_some_and(|to| self.newest() > to - NEAR_END)
    }

    /// Returns by how many nanoseconds the server ended the film too early, if it did.
    fn short(&self) -> Option<i64> {
        let ended = self.live.bye.load(Ordering::Relaxed);
        let short = self.to? - self.newest();
        (ended && !self.was_fast && short > NEAR_END + 500_000_000).then_some(short)
    }

    async fn watch(
        &mut self,
        visit: &Visit,
        events: &mut Vec<(f64, String)>,
    ) -> Result<(), Trouble> {
        let began = reelway_clock::now();
        let mut alive = began;
        let scale = match (visit.watch, self.to) {
            // If only the film limits the visit, all actions must fit into the film.
            (None, Some(to)) => (to as f64 / 1e9 / USUAL.as_secs_f64()).min(1.0),
            _ => 1.0,
        };
        let mut deeds = visit
            .deeds
            .iter()
            .map(|(at, deed)| (at.mul_f64(scale), deed.scaled(scale)));
        let mut next = deeds.next();
        loop {
            let now = reelway_clock::now();
            let passed = now.since(began);
            if visit.watch.is_some_and(|watch| passed >= watch)
                || self.shared.over.load(Ordering::Relaxed)
                || self.live.bye.load(Ordering::Relaxed)
            {
                return Ok(());
            }
            let last = self.live.last.load(Ordering::Relaxed);
            if last > 0 {
                let silent = reelway_clock::real().nanos().saturating_sub(last);
                if silent > END.as_nanos() as u64 && self.is_at_end() {
                    return Ok(());
                }
                if silent > self.shared.patience.as_nanos() as u64 {
                    return Err(Trouble::Silence(self.shared.patience.as_secs()));
                }
            }
            if now.since(alive) > KEEPALIVE {
                alive = now;
                self.connection.send("OPTIONS", &self.base, &[]).await?;
            }
            if let Some((at, deed)) = next
                && passed >= at
            {
                next = deeds.next();
                self.does(deed, events).await?;
                continue;
            }
            let mut wait = LOOK;
            for due in [visit.watch, next.map(|next| next.0)].into_iter().flatten() {
                wait = wait.min(due.saturating_sub(passed) + Duration::from_millis(1));
            }
            tokio::select! {
                () = time::sleep(wait) => {}
                incoming = self.connection.incoming() => match incoming? {
                    Incoming::Closed if self.is_at_end() => return Ok(()),
                    Incoming::Closed => {
                        return Err(Trouble::Protocol("the server closed the connection".into()));
                    }
                    incoming => self.take(incoming),
                },
            }
        }
    }

    async fn does(&mut self, deed: Deed, events: &mut Vec<(f64, String)>) -> Result<(), Trouble> {
        let mut note = |shared: &Shared, words: String| {
            if events.len() < MOST_EVENTS {
                events.push((shared.at(), words));
            }
        };
        let seek = match deed {
            Deed::Seek(share) => match self.to {
                Some(to) => Some(to as f64 / 1e9 * share),
                // The film's length is not known.
                None => return Ok(()),
            },
            _ => None,
        };
        let from = self.newest();
        self.receiver.hold(self.number);
        self.connection.request("PAUSE", &self.base, &[]).await?;
        match deed {
            Deed::Pause(long) => {
                note(
                    self.shared,
                    format!("pauses for {:.1} s", long.as_secs_f64()),
                );
                self.sleep(long).await?;
                self.play(&[], from).await?;
                note(self.shared, "goes on".to_owned());
            }
            Deed::Seek(_) => {
                let to = seek.unwrap_or(0.0);
                let range = format!("Range: npt={to:.3}-");
                self.play(&[&range], (to * 1e9) as i64).await?;
                note(self.shared, format!("seeks to {to:.1} s"));
            }
            Deed::Fast(long) => {
                let scale = format!("Scale: {FAST:.1}");
                let said = match self.play(&[&scale], from).await {
                    Ok(answer) => answer
                        .header("scale")
                        .and_then(|scale| scale.trim().parse::<f64>().ok())
                        // GStreamer's server plays fast, but does not report it.
                        .unwrap_or(FAST),
                    Err(Trouble::Refused { status, .. }) => {
                        note(self.shared, format!("fast play is refused: {status}"));
                        self.play(&[], from).await?;
                        return Ok(());
                    }
                    Err(trouble) => return Err(trouble),
                };
                if said <= 1.0 {
                    note(
                        self.shared,
                        "asks for fast play; the server plays at the film's pace".to_owned(),
                    );
                    return Ok(());
                }
                note(self.shared, format!("plays fast ({said} times)"));
                self.was_fast = true;
                self.sleep(long).await?;
                let from = self.newest();
                self.receiver.hold(self.number);
                self.connection.request("PAUSE", &self.base, &[]).await?;
                self.play(&["Scale: 1.0"], from).await?;
                note(self.shared, "plays at the film's pace again".to_owned());
            }
        }
        Ok(())
    }

    /// Passes on a packet from the control connection. Answers are those to keepalives.
    fn take(&self, incoming: Incoming) {
        let Incoming::Frame(channel, frame) = incoming else {
            return;
        };
        let track = usize::from(channel / 2);
        if channel % 2 == 0 {
            if let Some((header, payload)) = parse(&frame) {
                let at = reelway_clock::real().nanos();
                self.receiver
                    .packet(self.number, track, header, payload.len(), at);
            }
        } else if reports::parse(&frame).is_ok_and(|compound| compound.bye) {
            self.receiver.bye(self.number, track);
        }
    }

    /// Waits, with keepalives, and passes on packets meanwhile.
    async fn sleep(&mut self, long: Duration) -> Result<(), Trouble> {
        let began = reelway_clock::now();
        let mut alive = began;
        loop {
            let now = reelway_clock::now();
            let left = long.saturating_sub(now.since(began));
            if left.is_zero() || self.shared.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            if now.since(alive) > KEEPALIVE {
                alive = now;
                self.connection.send("OPTIONS", &self.base, &[]).await?;
            }
            tokio::select! {
                () = time::sleep(left.min(LOOK)) => {}
                incoming = self.connection.incoming() => match incoming? {
                    Incoming::Closed => {
                        return Err(Trouble::Protocol("the server closed the connection".into()));
                    }
                    incoming => self.take(incoming),
                },
            }
        }
    }
}
