//! What a turn sends: packets put together out of headers and pinned film bytes, reports, and what
//! becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_hint as prefetch;
use reelway_playout::{StreamError, TURN};
use reelway_rtp::{Header, Piece, rtcp};
use reelway_sys::udp::{Batch, MAX_RUN_BYTES, MAX_RUN_PACKETS, Segmentation, Sent, UdpSocket};

use crate::active::{Active, Due, Path, Track};
use crate::plans::Unit;
use crate::shared::add;
use crate::stream::State;
use crate::thread::{Thread, now};
use crate::writer::WriterError;

/// Bytes before the payload that a packet needs of its own: a frame header of RTSP's interleaving, the
/// RTP header, a short payload header.
pub(crate) const CELL: usize = 32;
/// Bytes of interleaving: `$`, channel, length (RFC 2326 section 10.12).
const FRAMING: usize = 4;
/// Packets put together at most before they are handed to the kernel.
const CELLS: usize = 1024;
/// Packets that are handed over as soon as there are so many: their bytes, which were fetched for the kernel, must
/// still be in the processor's second cache when it copies them.
const ENOUGH: usize = 256;
/// Packets offered to a TCP connection at a time.
pub(crate) const TCP_PACKETS: u32 = 64;
/// Frames of a TCP stream sent in a turn at most, so that one that catches up does not hold up others.
const TCP_FRAMES: usize = 4;

/// Memory for the headers of a turn's packets.
pub(crate) struct Cells(pub Box<[[u8; CELL]]>);

impl Default for Cells {
    fn default() -> Self {
        Cells(vec![[0; CELL]; CELLS].into_boxed_slice())
    }
}

/// A slice that is being sent.
pub(crate) struct Job {
    place: u32,
    due: Due,
    taken: u32,
    refused: u32,
    no_room: bool,
}

/// Sends sender reports: the RTCP sockets, and memory for a packet.
pub(crate) struct Reporter {
    pub sockets: Arc<Vec<UdpSocket>>,
    pub cname: String,
    packet: Vec<u8>,
}

impl Reporter {
    pub fn new(sockets: Arc<Vec<UdpSocket>>, cname: String) -> Reporter {
        Reporter {
            sockets,
            cname,
            packet: Vec::with_capacity(256),
        }
    }

    /// Sends a report for every track, with BYE and the reason for it (none: empty) if it ends here.
    pub fn report(&mut self, stream: &mut Active, bye: Option<&str>) {
        // One reading of both clocks for all tracks.
        let (now, ntp) = both_clocks();
        let mut failed = None;
        for track in &stream.tracks {
            let rtp_time = stream.rtp_now(track, now);
            let report = rtcp::SenderReport {
                ssrc: track.ssrc,
                ntp,
                rtp_time,
                packets: track.packets,
                bytes: track.octets,
            };
            failed = failed.or(self.send(track, &report, bye).err());
            // What is sent again is a source of its own, with the timestamps of this one (RFC 4588
            // section 4); it is there once something was.
            if let Some(resend) = track.resend.as_ref().filter(|resend| resend.packets > 0) {
                let report = rtcp::SenderReport {
                    ssrc: resend.ssrc,
                    ntp,
                    rtp_time,
                    packets: resend.packets,
                    bytes: resend.octets,
                };
                failed = failed.or(self.send(track, &report, bye).err());
            }
        }
        if let Some(error) = failed.filter(|_| bye.is_none() && stream.state == State::Playing) {
            stream.fail(StreamError(error.to_string()));
        }
    }

    /// Sends a report the way of a track's reports.
    fn send(
        &mut self,
        track: &Track,
        report: &rtcp::SenderReport,
        bye: Option<&str>,
    ) -> Result<(), WriterError> {
        self.packet.clear();
        self.packet.extend_from_slice(&[b'$', 0, 0, 0]);
        rtcp::write(report, &self.cname, bye, &mut self.packet);
        match &track.path {
            // A report that finds no room is made up for by the next one.
            Path::Udp(udp) => {
                if let Some(socket) = self.sockets.get(udp.rtcp_socket) {
                    let _ = socket.send(&self.packet[FRAMING..], &udp.rtcp);
                }
                Ok(())
            }
            Path::Tcp { conn, rtcp, .. } => {
                let bytes = (self.packet.len() - FRAMING) as u16;
                self.packet[1] = *rtcp;
                self.packet[2..FRAMING].copy_from_slice(&bytes.to_be_bytes());
                conn.write(&self.packet).map(drop)
            }
        }
    }
}

/// Nanoseconds of the monotonic clock and the wall clock's NTP time of the same moment: players work out
/// presentation times from the pair. A thread held up between the readings tries again.
fn both_clocks() -> (u64, u64) {
    /// Most nanoseconds between the readings: a fraction of a timestamp's tick.
    const CLOSE: u64 = 2_000;
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = now();
        let ntp = reelway_clock::real().ntp();
        let apart = now() - before;
        if apart < best.0 {
            best = (apart, before + apart / 2, ntp);
        }
        if apart < CLOSE {
            break;
        }
    }
    (best.1, best.2)
}

/// Said once: the viewers do not notice, but it costs.
static SAID_NO_GSO: AtomicBool = AtomicBool::new(false);

impl Thread {
    /// Sends what these streams may send now.
    pub fn send_together(&mut self, places: &[(u64, u32)], began: u64) {
        self.prefetch(places, began + TURN);
        let now = now();
        self.jobs.clear();
        let mut due = Vec::new();
        std::mem::swap(&mut due, &mut self.dues);
        for (_, place) in places {
            let Some(stream) = self.streams[*place as usize].as_mut() else {
                continue;
            };
            if stream.look_after(now) {
                add(&self.counters.shifts, 1);
            }
            if stream.is_over(now) {
                self.reporter.report(stream, Some(""));
                stream.said_bye(true);
                continue;
            }
            if stream.is_tcp() {
                let horizon = stream.horizon(began);
                self.send_tcp(*place, horizon);
                continue;
            }
            stream.due(now, stream.horizon(began), &mut due);
            let job = |due| Job {
                place: *place,
                due,
                taken: 0,
                refused: 0,
                no_room: false,
            };
            self.jobs.extend(due.drain(..).map(job));
        }
        self.dues = due;
        self.send_jobs();
        for (_, place) in places {
            let Some(stream) = self.streams[*place as usize].as_mut() else {
                continue;
            };
            if stream.takes_report(now) {
                self.reporter.report(stream, None);
            }
        }
    }

    /// Fetches what sending these streams' packets will read: step by step for all of them, as one stream's
    /// memory is found one piece behind the other, but many streams' do not depend on each other.
    fn prefetch(&self, places: &[(u64, u32)], horizon: u64) {
        for step in 0..Active::STEPS {
            for (_, place) in places {
                if let Some(stream) = self.streams[*place as usize].as_deref() {
                    stream.prefetch(step, horizon);
                }
            }
        }
    }

    /// Hands the jobs' packets to the kernel and notes what became of them.
    fn send_jobs(&mut self) {
        let mut first = 0;
        while first < self.jobs.len() {
            let mut packets = 0;
            let fits = |job: &&Job| {
                packets += (job.due.end - job.due.first) as usize;
                packets <= ENOUGH
            };
            let count = self.jobs[first..].iter().take_while(fits).count().max(1);
            self.send_some(first..first + count);
            first += count;
        }
    }

    fn send_some(&mut self, range: std::ops::Range<usize>) {
        let mut batch = self.turn.begin();
        let mut cells = &mut *self.cells.0;
        for number in range.clone() {
            let job = &self.jobs[number];
            let Some(stream) = self.streams[job.place as usize].as_deref() else {
                continue;
            };
            let segmentation = if stream.gso {
                self.backend.segmentation()
            } else {
                Segmentation::None
            };
            fill_udp(
                stream,
                &job.due,
                &mut cells,
                &mut batch,
                segmentation,
                number as u64,
            );
        }
        let calls = self.turn_calls;
        self.backend.send(batch, &self.sockets);
        self.turn_calls = self.turn.calls();
        let after = now();
        add(&self.counters.calls, self.turn_calls - calls);
        add(&self.counters.runs, self.turn.messages().len() as u64);
        for message in self.turn.messages() {
            let Some(job) = self.jobs.get_mut(message.tag as usize) else {
                continue;
            };
            let all = message.packets() as u32;
            let (taken, failed) = match message.sent {
                Sent::Waiting => (0, false),
                Sent::Packets(packets) => (u32::from(packets), false),
                Sent::Failed { packets, .. } => (u32::from(packets), true),
            };
            // What follows a packet that found no room waits with it, so that the order stays.
            if !job.no_room {
                job.taken += taken;
                job.refused += if failed { all - taken } else { 0 };
                job.no_room = !failed && taken < all;
            }
            if message.cut_refused {
                self.refused_cut.push(job.place);
            }
        }
        for number in range {
            let Some(stream) = self.streams[self.jobs[number].place as usize].as_deref_mut() else {
                continue;
            };
            let Job {
                due,
                taken,
                refused,
                no_room,
                ..
            } = &self.jobs[number];
            note(stream, &self.counters, due, *taken, *refused, after);
            if *no_room {
                add(
                    &self.counters.retried,
                    u64::from(due.end - due.first - taken - refused),
                );
                stream.retry_at = (after / TURN + 1) * TURN;
            }
        }
        while let Some(place) = self.refused_cut.pop() {
            if let Some(stream) = self.streams[place as usize].as_deref_mut() {
                stream.gso = false;
            }
            if !SAID_NO_GSO.swap(true, Ordering::Relaxed) {
                tracing::info!(
                    "the kernel does not cut runs of packets (GSO) on the way to some viewers: they are sent one by one there"
                );
            }
        }
    }

    /// Sends what a TCP stream may send now.
    fn send_tcp(&mut self, place: u32, horizon: u64) {
        for _ in 0..TCP_FRAMES {
            let Some(stream) = self.streams[place as usize].as_deref() else {
                return;
            };
            let now = now();
            if stream.state != State::Playing || now < stream.retry_at || now < stream.not_before {
                return;
            }
            if stream.has_let_go() {
                if let Some(stream) = self.streams[place as usize].as_deref_mut() {
                    stream.look_at_connection(now);
                }
                return;
            }
            let slices = (0..stream.tracks.len()).filter_map(|track| Some(stream.slice(track)?.0));
            let Some(mut due) = slices
                .filter(|due| stream.released(due.at) < horizon)
                .min_by_key(|due| due.at)
            else {
                return;
            };
            let Some(unit) = stream.unit_of(due.track) else {
                return;
            };
            // TCP paces itself: the frame goes as a whole.
            let rest = unit.packets.len() as u32 - due.first;
            due.end = due.first + rest.min(TCP_PACKETS);
            let half = unit.duration.max(0) as u64 / 2;
            let mut batch = self.turn.begin();
            let mut cells = &mut *self.cells.0;
            fill_tcp(stream, &unit, &due, &mut cells, &mut batch);
            let Path::Tcp { conn, .. } = &stream.tracks[due.track].path else {
                return;
            };
            let written = conn.write_packets(&batch);
            drop(batch);
            let after = crate::thread::now();
            add(&self.counters.calls, 1);
            add(&self.counters.runs, 1);
            let Some(stream) = self.streams[place as usize].as_deref_mut() else {
                return;
            };
            let taken = match written {
                Ok(taken) => taken as u32,
                Err(error) => return stream.fail(StreamError(error.to_string())),
            };
            let whole = taken == rest;
            // Behind: the next frame follows after half of this one's time.
            if whole && due.at + 2 * TURN < after {
                stream.not_before = after + half.min(50_000_000);
            }
            note(stream, &self.counters, &due, taken, 0, after);
            if taken < due.end - due.first {
                stream.is_full(taken, after);
            } else if whole {
                stream.took_all();
            }
            // The next frame waits for room on its links.
            if stream.link.is_some() {
                return;
            }
        }
    }
}

fn note(
    stream: &mut Active,
    counters: &crate::thread::Counters,
    due: &Due,
    taken: u32,
    refused: u32,
    after: u64,
) {
    let bytes = stream.gone(due, taken, refused, after);
    let left = after.max(due.departs);
    counters.late.note(left.saturating_sub(due.at), taken);
    add(&counters.packets, u64::from(taken));
    add(&counters.bytes, bytes);
    add(&counters.refused, u64::from(refused));
}

/// The header of a packet of a viewer.
fn header(track: &Track, unit: &Unit<'_>, number: u32, nth: u32) -> [u8; Header::BYTES] {
    Header {
        payload_type: track.payload_type,
        marker: unit.packets[number as usize].marker,
        seq: track.seq.wrapping_add(nth as u16),
        timestamp: track.rtp_base.wrapping_add(unit.rtp_time),
        ssrc: track.ssrc,
    }
    .to_bytes()
}

/// Puts the payload of a packet behind its `used` bytes of header in `cell`: a short payload header is
/// copied there, everything else is pointed to.
pub(crate) fn payload<'d>(
    unit: &Unit<'d>,
    number: u32,
    cell: &'d mut [u8; CELL],
    from: usize,
    used: usize,
    batch: &mut Batch<'_, 'd>,
) {
    let packet = &unit.packets[number as usize];
    if let Some((head, film)) = packet.run() {
        let end = used + head.len();
        cell[used..end].copy_from_slice(head);
        batch.slice(&cell[from..end]);
        for slice in unit.bytes.bytes.0.slices(film) {
            // What the kernel will copy comes while other packets are put together.
            prefetch::bulk(slice);
            batch.slice(slice);
        }
        return batch.end_packet();
    }
    let mut pieces = unit.plan.pieces_of(packet);
    let mut used = used;
    if let Some((first, rest)) = pieces.split_first() {
        let inline = unit.plan.inline_of(first);
        if !inline.is_empty() && used + inline.len() <= CELL {
            cell[used..used + inline.len()].copy_from_slice(inline);
            used += inline.len();
            pieces = rest;
        }
    }
    batch.slice(&cell[from..used]);
    for piece in pieces {
        match *piece {
            Piece::Inline { .. } => batch.slice(unit.plan.inline_of(piece)),
            Piece::Film { offset, len } => {
                for slice in unit.bytes.bytes.0.slices(offset..offset + u64::from(len)) {
                    batch.slice(slice);
                }
            }
        }
    }
    batch.end_packet();
}

/// A cell of its own for a packet.
pub(crate) fn next_cell<'d>(cells: &mut &'d mut [[u8; CELL]]) -> Option<&'d mut [u8; CELL]> {
    let (cell, rest) = std::mem::take(cells).split_first_mut()?;
    *cells = rest;
    Some(cell)
}

/// Puts a slice of a stream into the batch, in runs that the kernel can cut: equally long packets, of
/// which the last may be shorter.
fn fill_udp<'d>(
    stream: &'d Active,
    due: &Due,
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
    segmentation: Segmentation,
    tag: u64,
) {
    let (Some(unit), Some(track)) = (stream.unit_of(due.track), stream.tracks.get(due.track))
    else {
        return;
    };
    let Path::Udp(udp) = &track.path else {
        return;
    };
    let (mut run, mut first_len, mut last_len) = (0, 0, 0);
    for number in due.first..due.end {
        let len = unit.packets[number as usize].len;
        let full = run == MAX_RUN_PACKETS
            || (run + 1) * (usize::from(first_len) + Header::BYTES) > MAX_RUN_BYTES;
        if run > 0 && (len > first_len || last_len < first_len || full) {
            batch.end_message(udp.socket, &udp.rtp, segmentation, due.departs, tag);
            run = 0;
        }
        let Some(cell) = next_cell(cells) else { break };
        let bytes = header(track, &unit, number, number - due.first);
        cell[..Header::BYTES].copy_from_slice(&bytes);
        payload(&unit, number, cell, 0, Header::BYTES, batch);
        if run == 0 {
            first_len = len;
        }
        last_len = len;
        run += 1;
    }
    if run > 0 {
        batch.end_message(udp.socket, &udp.rtp, segmentation, due.departs, tag);
    }
}

/// Puts packets of a stream into the batch as frames of RTSP's interleaving.
fn fill_tcp<'d>(
    stream: &'d Active,
    unit: &Unit<'d>,
    due: &Due,
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
) {
    let Some(track) = stream.tracks.get(due.track) else {
        return;
    };
    let Path::Tcp { rtp, .. } = &track.path else {
        return;
    };
    for number in due.first..due.end {
        let Some(cell) = next_cell(cells) else { return };
        let bytes = Header::BYTES as u16 + unit.packets[number as usize].len;
        cell[0] = b'$';
        cell[1] = *rtp;
        cell[2..FRAMING].copy_from_slice(&bytes.to_be_bytes());
        let header = header(track, unit, number, number - due.first);
        cell[FRAMING..FRAMING + Header::BYTES].copy_from_slice(&header);
        payload(unit, number, cell, 0, FRAMING + Header::BYTES, batch);
    }
}
