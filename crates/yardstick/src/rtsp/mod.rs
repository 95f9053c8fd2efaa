//! A viewer over RTSP.

pub(crate) mod connection;
pub(crate) mod description;
mod options;
mod start;
mod track;

use std::time::Duration;

use tokio::time::{self, MissedTickBehavior};

use self::connection::{Connection, Described, Incoming};
pub use self::options::Options;
pub use self::start::start_times;
use self::track::{ReceivedTrack, readable};
use crate::burst::BurstMeter;
use crate::course::Course;
use crate::pipe::{Fed, Pipe};
use crate::playback::{self, OnlinePlayer, Playback};
use crate::progress::Now;
use crate::reference::{Reference, ReferenceTrack};
use crate::reports::{self, Reports};
use crate::socket::{Inbox, Received};
use crate::story::Story;
use crate::trouble::Trouble;
use crate::verdict::Finding;

/// Silence after which a film at its end counts as ended, for servers that send no BYE.
const END: Duration = Duration::from_secs(1);
/// Maximum distance of the last access unit from the film's end, in nanoseconds.
const NEAR_END: i64 = 1_000_000_000;
/// Time between keepalives; every server's timeout is longer.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// The results of a viewer, and the error that ended playback early.
#[derive(Debug, Default)]
pub struct Watched {
    /// The measurements.
    pub story: Story,
    /// Why playback ended early.
    pub trouble: Option<Trouble>,
    /// What a player was fed, or why it was not.
    pub fed: Option<Result<Fed, String>>,
}

/// Plays a film and returns the measurements.
///
/// # Errors
/// The server cannot be reached, refuses, or breaks off. Only [`watch`] returns the measurements up
/// to then.
pub async fn play(
    url: &str,
    options: &Options,
    reference: Option<&Reference>,
) -> Result<Story, Trouble> {
    let watched = watch(url, options, reference).await;
    watched.trouble.map_or(Ok(watched.story), Err)
}

/// Plays a film and returns the measurements, however it ended.
pub async fn watch(url: &str, options: &Options, reference: Option<&Reference>) -> Watched {
    let mut watched = Watched::default();
    match begin(url, options, reference).await {
        Ok(begun) => {
            let Begun {
                mut connection,
                mut viewer,
                base,
                asked,
                from,
                to,
            } = begun;
            watched.trouble = viewer
                .watch(&mut connection, &base, options, to)
                .await
                .err();
            if watched.trouble.is_none() {
                // If the server does not answer TEARDOWN, it has still served the film.
                let _ = connection.request("TEARDOWN", &base, &[]).await;
            }
            viewer.finish();
            let pipe = viewer.pipe.take();
            watched.story = viewer.story(asked, from, to, options.depth);
            if let Some(pipe) = pipe {
                let fed = tokio::task::spawn_blocking(|| pipe.finish()).await;
                watched.fed = Some(match fed {
                    Ok(fed) => fed.map_err(|why| why.to_string()),
                    Err(why) => Err(why.to_string()),
                });
            }
        }
        Err(trouble) => watched.trouble = Some(trouble),
    }
    watched
}

/// A film that is playing.
struct Begun<'a> {
    connection: Connection,
    viewer: Viewer<'a>,
    base: String,
    asked: u64,
    from: i64,
    to: Option<i64>,
}

async fn begin<'a>(
    url: &str,
    options: &Options,
    reference: Option<&'a Reference>,
) -> Result<Begun<'a>, Trouble> {
    let Described {
        mut connection,
        base,
        sdp,
    } = Connection::describe(url).await?;
    let media = description::parse(&sdp, &base)?;
    let mut tracks = Vec::new();
    for (number, media) in media.iter().enumerate() {
        tracks.push(ReceivedTrack::set_up(&mut connection, media, number as u8, options).await?);
    }
    let pipe = match &options.pipe {
        Some(command) => Some(Pipe::start(command, &media)?),
        None => None,
    };
    let range = format!("Range: npt={:.3}-", options.from);
    let asked = reelway_clock::real();
    let answer = connection.request("PLAY", &base, &[&range]).await?;
    let from = answer
        .header("range")
        .and_then(description::npt_start)
        .unwrap_or(0);
    let info = answer.header("rtp-info").unwrap_or_default();
    for track in &mut tracks {
        let (seq, rtp_time) = description::rtp_info(info, &track.control);
        track.meter.announce(seq, rtp_time, from);
    }
    let mut player = OnlinePlayer::new(options.depth);
    player.begin(from);
    let viewer = Viewer {
        tracks,
        bursts: BurstMeter::new(options.burst),
        pipe,
        player,
        reference,
        first: None,
        last: reelway_clock::real().nanos(),
    };
    Ok(Begun {
        connection,
        viewer,
        base,
        asked: asked.nanos(),
        from,
        to: description::end(&sdp),
    })
}

struct Viewer<'a> {
    tracks: Vec<ReceivedTrack>,
    bursts: BurstMeter,
    pipe: Option<Pipe>,
    /// A player that is fed during playback, for progress reports.
    player: OnlinePlayer,
    reference: Option<&'a Reference>,
    /// Arrival of the first and the latest packet in ns since 1970.
    first: Option<u64>,
    last: u64,
}

/// The next event.
enum Event {
    Rtp(usize, Received),
    Rtcp(usize, Received),
    Frame(u8, Vec<u8>),
    Closed,
    Tick,
}

impl<'a> Viewer<'a> {
    /// Returns what a player has shown so far. (Only the final verdict considers whether something
    /// newer was there when a unit came late.)
    fn shown_until_now(&mut self) -> Playback {
        for track in &mut self.tracks {
            let fresh = track.meter.arrivals.get(track.told..).unwrap_or_default();
            for unit in fresh {
                self.player.came(unit.first);
                self.player.arrived(unit);
            }
            track.told += fresh.len();
        }
        self.player.shown().clone()
    }

    /// Receives until the film's end, the requested duration, or a timeout.
    async fn watch(
        &mut self,
        connection: &mut Connection,
        url: &str,
        options: &Options,
        to: Option<i64>,
    ) -> Result<(), Trouble> {
        let start = reelway_clock::real().nanos();
        let (mut inbox, mut control) = (Inbox::new(), Inbox::new());
        let mut ticks = time::interval(Duration::from_millis(100));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut alive = start;
        loop {
            match self
                .next(connection, &mut ticks, &mut inbox, &mut control)
                .await?
            {
                Event::Rtp(track, received) => {
                    self.take(track, inbox.datagrams(&received), received.at);
                    if let Some(from) = received.from {
                        let packets = inbox.datagrams(&received).count() as u64;
                        self.tracks[track].meter.sent_by(from, packets);
                    }
                }
                Event::Rtcp(track, received) => control
                    .datagrams(&received)
                    .for_each(|report| self.tracks[track].meter.report(report)),
                Event::Frame(channel, frame) => {
                    let (track, is_rtcp) = (usize::from(channel / 2), channel % 2 == 1);
                    if track < self.tracks.len() && is_rtcp {
                        self.tracks[track].meter.report(&frame);
                    } else if track < self.tracks.len() {
                        let at = reelway_clock::real().nanos();
                        self.take(track, std::iter::once(&frame[..]), at);
                    }
                }
                Event::Closed if self.ended() || self.at_end(to) => return Ok(()),
                Event::Closed => {
                    return Err(Trouble::Protocol("the server closed the connection".into()));
                }
                Event::Tick => {
                    let now = reelway_clock::real().nanos();
                    self.tracks.iter_mut().for_each(ReceivedTrack::ask);
                    let stories = self.tracks.iter().map(|track| &track.meter.story);
                    let (came, lost) = stories.fold((0, 0), |(came, lost), story| {
                        (came + story.packets, lost + story.lost)
                    });
                    options.progress.is_at(Now {
                        media: self.newest(),
                        came,
                        lost,
                        playback: self.shown_until_now(),
                    });
                    if self.ended()
                        || options.duration.is_some_and(|duration| {
                            now.saturating_sub(start) >= duration.as_nanos() as u64
                        })
                    {
                        return Ok(());
                    }
                    let silent = now.saturating_sub(self.last);
                    if silent > END.as_nanos() as u64 && self.at_end(to) {
                        return Ok(());
                    }
                    if silent > options.patience.as_nanos() as u64 {
                        return Err(Trouble::Silence(options.patience.as_secs()));
                    }
                    if now.saturating_sub(alive) > KEEPALIVE.as_nanos() as u64 {
                        alive = now;
                        connection.send("OPTIONS", url, &[]).await?;
                    }
                }
            }
        }
    }

    async fn next(
        &self,
        connection: &mut Connection,
        ticks: &mut time::Interval,
        inbox: &mut Inbox,
        control: &mut Inbox,
    ) -> Result<Event, Trouble> {
        // There are few tracks with two sockets each, so all are tried in turn when one is ready.
        let rtp = async {
            loop {
                for (number, track) in self.tracks.iter().enumerate() {
                    let Some(sockets) = &track.sockets else {
                        continue;
                    };
                    match inbox.receive_ready(&sockets.rtp) {
                        Ok(received) => return Ok(Event::Rtp(number, received)),
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                    match control.receive_ready(&sockets.rtcp) {
                        Ok(received) => return Ok(Event::Rtcp(number, received)),
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                readable(&self.tracks).await;
            }
        };
        tokio::select! {
            biased;
            _ = ticks.tick() => Ok(Event::Tick),
            incoming = connection.incoming() => match incoming? {
                Incoming::Frame(channel, frame) => Ok(Event::Frame(channel, frame)),
                Incoming::Answer(_) => Ok(Event::Tick),
                Incoming::Closed => Ok(Event::Closed),
            },
            event = rtp => Ok(event?),
        }
    }

    fn take<'p>(&mut self, track: usize, packets: impl Iterator<Item = &'p [u8]>, at: u64) {
        self.first.get_or_insert(at);
        self.last = at;
        let reference = self.reference_of(track);
        let mut count = 0;
        for packet in packets {
            self.tracks[track].meter.packet(packet, at, reference);
            count += 1;
        }
        self.bursts.add(at, count);
        self.feed(track);
    }

    /// Feeds the complete access units of a track to the player.
    fn feed(&mut self, track: usize) {
        let (Some(pipe), Some(kept)) = (&mut self.pipe, &mut self.tracks[track].meter.kept) else {
            return;
        };
        kept.drain(..).for_each(|unit| pipe.unit(track, &unit));
    }

    fn ended(&self) -> bool {
        self.tracks.iter().all(|track| track.meter.story.bye)
    }

    /// Whether the film's end has been reached, for servers that send no BYE.
    fn at_end(&self, to: Option<i64>) -> bool {
        to.is_some_and(|to| self.newest() > to - NEAR_END)
    }

    fn newest(&self) -> i64 {
        let tracks = self.tracks.iter();
        tracks.map(|track| track.meter.newest()).max().unwrap_or(0)
    }

    /// Returns the film's own data for a track.
    fn reference_of(&self, track: usize) -> Option<&'a ReferenceTrack> {
        let is_video = self.tracks[track].meter.story.is_video;
        let before = &self.tracks[..track];
        let nth = before
            .iter()
            .filter(|other| other.meter.story.is_video == is_video)
            .count();
        self.reference?.track(is_video, nth)
    }

    /// Processes the remaining packets at the end.
    fn finish(&mut self) {
        for track in 0..self.tracks.len() {
            let reference = self.reference_of(track);
            self.tracks[track].meter.finish(reference);
            self.feed(track);
        }
    }

    fn story(mut self, asked: u64, from: i64, to: Option<i64>, depth: Duration) -> Story {
        for track in &mut self.tracks {
            track.meter.judge();
        }
        self.bursts.finish();
        let lies = self.lies();
        let mut course = Course::default();
        for track in &mut self.tracks {
            course.add(std::mem::take(&mut track.meter.course));
        }
        let units: Vec<&[_]> = self
            .tracks
            .iter()
            .map(|track| track.meter.arrivals.as_slice())
            .collect();
        Story {
            ended: self.ended() || self.at_end(to),
            start: self
                .first
                .map(|first| Duration::from_nanos(first.saturating_sub(asked))),
            burst: self.bursts.most,
            bursts_over: self.bursts.over,
            from,
            to,
            last: self.newest(),
            playback: playback::simulate(&units, self.first.unwrap_or(asked), depth),
            lies,
            course,
            tracks: self
                .tracks
                .into_iter()
                .map(|track| track.meter.story)
                .collect(),
        }
    }

    /// Returns the findings about RTP-Info and the sender reports.
    fn lies(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let named: Vec<(&str, &Reports)> = self
            .tracks
            .iter()
            .map(|track| (track.meter.story.kind(), &track.meter.reports))
            .collect();
        for track in &self.tracks {
            findings.extend(track.meter.judge_announcement());
        }
        for (name, reports) in &named {
            findings.extend(reports.judge(name));
        }
        findings.extend(reports::together(&named));
        findings
    }
}
