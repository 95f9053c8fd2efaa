//! A stream of the sender, as the hub moves it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_rtsp::seam::{FirstPacket, PlayInfo};
use reelway_sender::{PlayInfo as SenderInfo, StreamError, StreamHandle, TrackInfo};
use reelway_supervise as supervise;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    /// Presentation time now being sent.
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

/// A stream of the sender. It is over when its handle is dropped.
pub(crate) struct FilmStream {
    handle: Mutex<Option<Arc<StreamHandle>>>,
    /// How far it had come when it was stopped.
    last: Mutex<Sent>,
    /// What it is sent by from the next time on that it is let go.
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

    /// Sends it by this schedule when it is let go next; `None`: as the sender does by itself.
    pub fn book(&self, schedule: Option<Arc<Schedule>>) {
        *supervise::whole(self.booked.lock()) = schedule;
    }

    /// Lets it flow: after it was made, moved or resumed, when the answer has been queued.
    pub fn go(&self) {
        let booked = supervise::whole(self.booked.lock()).take();
        if let Some(handle) = self.handle() {
            if booked.is_some() {
                handle.send_by(booked);
            }
            handle.go();
        }
    }

    /// Moves it to the sync sample at or before `start`, where it waits for [`FilmStream::go`].
    pub async fn seek(&self, start: Nanos, end: Nanos) -> Result<PlayInfo, String> {
        moved(self.still()?.seek(start, Some(end)).await)
    }

    /// Prepares it to go on where it stands, to the end it had; it waits for [`FilmStream::go`].
    pub async fn resume(&self) -> Result<PlayInfo, String> {
        moved(self.still()?.resume().await)
    }

    /// Holds it: nothing is sent after that. Says where it stands.
    pub async fn pause(&self) -> Result<Nanos, String> {
        Ok(self.still()?.pause().await)
    }

    /// Takes RTCP of its viewer that came interleaved in the connection.
    pub fn rtcp(&self, data: &[u8]) {
        if let Some(handle) = self.handle() {
            handle.rtcp(data);
        }
    }

    /// Ends it with an RTCP BYE, which says why if the viewer did not ask for it. Nothing of it is sent afterwards.
    pub fn stop(&self, why: Option<&str>) {
        let handle = supervise::whole(self.handle.lock()).take();
        if let Some(handle) = handle {
            if let Some(why) = why {
                handle.say_why(why);
            }
            *supervise::whole(self.last.lock()) = sent(&handle);
        }
    }

    /// Where it stands and what it has sent.
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

/// How it begins, in the machine's values.
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
