//! A sender stream, as the hub controls it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_rtsp::seam::{FirstPacket, PlayInfo};
use reelway_sender::{PlayInfo as SenderInfo, StreamError, StreamHandle, TrackInfo};
use reelway_supervise as supervise;

/// A stream's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    /// Presentation time currently being sent.
    pub position: Nanos,
    /// Bytes of RTP, headers included.
    pub bytes: u64,
    /// RTP packets.
    pub packets: u64,
    /// 99th percentile of lateness in milliseconds.
    pub late_p99_ms: f64,
    /// Greatest lateness in milliseconds.
    pub late_max_ms: f64,
    /// Frames that were left out because they would have come too late.
    pub dropped_frames: u64,
}

/// A sender stream. It ends when its handle is dropped.
pub(crate) struct FilmStream {
    handle: Mutex<Option<Arc<StreamHandle>>>,
    /// Its progress when it was stopped.
    last: Mutex<Sent>,
    /// The schedule to send by from the next [`FilmStream::go`] on.
    booked: Mutex<Option<Arc<Schedule>>>,
}

impl FilmStream {
    pub fn new(handle: StreamHandle) -> FilmStream {
        FilmStream {
            handle: Mutex::new(Some(Arc::new(handle))),
            last: Mutex::default(),
            booked: Mutex::default(),
        }
    }

    fn handle(&self) -> Option<Arc<StreamHandle>> {
        supervise::whole(self.handle.lock()).clone()
    }

    fn still(&self) -> Result<Arc<StreamHandle>, String> {
        self.handle()
            .ok_or_else(|| "the stream has ended".to_owned())
    }

    /// Sets the schedule to send by from the next [`FilmStream::go`] on; `None`: the sender's own
    /// timing.
    pub fn book(&self, schedule: Option<Arc<Schedule>>) {
        *supervise::whole(self.booked.lock()) = schedule;
    }

    /// Starts or continues sending after the stream was made, moved or resumed, once the answer is
    /// queued.
    pub fn go(&self) {
        let booked = supervise::whole(self.booked.lock()).take();
        if let Some(handle) = self.handle() {
            if booked.is_some() {
                handle.send_by(booked);
            }
            handle.go();
        }
    }

    /// Moves the stream to the sync sample at or before `start`, where it waits for
    /// [`FilmStream::go`].
    pub async fn seek(&self, start: Nanos, end: Nanos) -> Result<PlayInfo, String> {
        moved(self.still()?.seek(start, Some(end)).await)
    }

    /// Prepares the stream to continue from its position to its previous end; it waits for
    /// [`FilmStream::go`].
    pub async fn resume(&self) -> Result<PlayInfo, String> {
        moved(self.still()?.resume().await)
    }

    /// Pauses the stream: nothing is sent afterwards. Returns its position.
    pub async fn pause(&self) -> Result<Nanos, String> {
        Ok(self.still()?.pause().await)
    }

    /// Passes on RTCP that the viewer sent interleaved in the connection.
    pub fn rtcp(&self, data: &[u8]) {
        if let Some(handle) = self.handle() {
            handle.rtcp(data);
        }
    }

    /// Ends the stream with an RTCP BYE, which gives the reason if the viewer did not ask for it.
    /// Nothing is sent afterwards.
    pub fn stop(&self, why: Option<&str>) {
        let handle = supervise::whole(self.handle.lock()).take();
        if let Some(handle) = handle {
            if let Some(why) = why {
                handle.say_why(why);
            }
            *supervise::whole(self.last.lock()) = sent(&handle);
        }
    }

    /// The stream's position and what it has sent.
    pub fn progress(&self) -> Sent {
        match self.handle() {
            Some(handle) => sent(&handle),
            None => *supervise::whole(self.last.lock()),
        }
    }
}

fn moved(info: Result<SenderInfo, StreamError>) -> Result<PlayInfo, String> {
    info.map(play_info).map_err(|error| error.to_string())
}

/// Converts the beginning of a stream to the machine's types.
pub(crate) fn play_info(info: SenderInfo) -> PlayInfo {
    let first = |track: &TrackInfo| FirstPacket {
        seq: track.seq,
        rtp_time: track.rtp_time,
    };
    PlayInfo {
        start: info.start,
        tracks: info.tracks.iter().map(first).collect(),
    }
}

fn sent(handle: &StreamHandle) -> Sent {
    let progress = handle.progress();
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    Sent {
        position: progress.position,
        bytes: progress.bytes,
        packets: progress.packets,
        late_p99_ms: ms(progress.late.p99),
        late_max_ms: ms(progress.late.max),
        dropped_frames: progress.dropped,
    }
}
