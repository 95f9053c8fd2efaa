//! A turn: the packets that are due to many viewers at the same moment, sent together.

use std::io::IoSlice;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};

use super::{Destination, UdpSocket};

/// The maximum number of packets in a run: the kernel's limit (`UDP_MAX_SEGMENTS`, Linux < 6.9).
pub const MAX_RUN_PACKETS: usize = 64;
/// The maximum size of a run in bytes: the UDP payload of an IPv4 datagram (IPv6 allows more).
pub const MAX_RUN_BYTES: usize = 65_507;
/// The maximum number of messages per system call (`UIO_MAXIOV`).
const MAX_CALL: usize = 1024;

/// How runs of packets are segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// By the kernel: a run is one datagram with a segment size.
    Kernel,
    /// Not at all: each packet is a datagram.
    None,
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Not offered to the kernel yet.
    Waiting,
    /// This many packets were taken; the others found no room and may be offered again.
    Packets(u16),
    /// The kernel refuses the message with this error number. The first packets were taken.
    Failed {
        /// Packets taken before.
        packets: u16,
        /// `errno`.
        error: i32,
    },
}

/// A run of packets to one viewer, all as long as the first except the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The index of its socket among those given to `Turn::send`.
    pub socket: u8,
    /// Whether the kernel may segment the run; otherwise packets go one by one.
    pub segmentation: Segmentation,
    /// The caller's identifier for it.
    pub tag: u64,
    /// Its outcome.
    pub sent: Sent,
    /// The kernel refused to segment the run, so its packets were offered one by one: this viewer's
    /// next runs should use [`Segmentation::None`] at once.
    pub cut_refused: bool,
    /// When the packets should leave, in `CLOCK_MONOTONIC` ns; 0: at once. Only held by fq queues,
    /// for sockets with [`UdpSocket::hold_packets`].
    pub departs: u64,
    /// The turn's packets from the first up to (not including) the second.
    packets: (u32, u32),
    /// Bytes of a packet.
    segment: u16,
}

impl Message {
    /// Number of packets.
    pub fn packets(&self) -> usize {
        (self.packets.1 - self.packets.0) as usize
    }
}

/// Reusable memory for turns: a turn with no more packets than an earlier one allocates nothing.
#[derive(Default)]
pub struct Turn {
    slices: Vec<IoSlice<'static>>,
    packets: Vec<Packet>,
    messages: Vec<Message>,
    destinations: Vec<*const Destination>,
    headers: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
    /// For each header, its message and number of packets.
    origins: Vec<(u32, u16)>,
    calls: u64,
}

// SAFETY: its raw pointers are gone (the lists are empty) whenever no `Batch` borrows it, and a
// `Batch` borrows everything to which its pointers refer for its whole life.
unsafe impl Send for Turn {}

#[derive(Clone, Copy)]
struct Packet {
    /// The end of its slices (exclusive).
    end: u32,
    bytes: u32,
}

/// Control messages: the source address; the segment size and the departure time (24 bytes each).
type Control = [u64; super::address::ORIGIN_WORDS + 6];

/// A turn that is being filled: everything put in is borrowed until it is sent.
pub struct Batch<'m, 'd> {
    turn: &'m mut Turn,
    slices: ManuallyDrop<Vec<IoSlice<'d>>>,
    first: u32,
}

impl Turn {
    /// A turn that allocates nothing for up to `packets` packets, each of a header and a payload.
    pub fn with_room(packets: usize) -> Turn {
        Turn {
            slices: Vec::with_capacity(2 * packets),
            packets: Vec::with_capacity(packets),
            messages: Vec::with_capacity(packets),
            destinations: Vec::with_capacity(packets),
            headers: Vec::with_capacity(packets),
            controls: Vec::with_capacity(packets),
            origins: Vec::with_capacity(packets),
            calls: 0,
        }
    }

    /// Begins to fill the turn.
    pub fn begin<'m, 'd>(&'m mut self) -> Batch<'m, 'd> {
        self.clear();
        let mut slices = ManuallyDrop::new(std::mem::take(&mut self.slices));
        // SAFETY: the list is empty, so that no slice changes its lifetime; the type's layout does
        // not depend on it, and the allocation moves from one vector to the other.
        let slices = unsafe {
            Vec::from_raw_parts(
                slices.as_mut_ptr().cast::<IoSlice<'d>>(),
                0,
                slices.capacity(),
            )
        };
        Batch {
            turn: self,
            slices: ManuallyDrop::new(slices),
            first: 0,
        }
    }

    /// The messages of the last turn sent, with their outcomes.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// System calls made so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    fn clear(&mut self) {
        self.slices.clear();
        self.packets.clear();
        self.messages.clear();
        self.destinations.clear();
        self.headers.clear();
        self.controls.clear();
        self.origins.clear();
    }
}

impl<'d> Batch<'_, 'd> {
    /// Adds bytes to the current packet.
    pub fn slice(&mut self, bytes: &'d [u8]) {
        self.slices.push(IoSlice::new(bytes));
    }

    /// Ends the current packet.
    pub fn end_packet(&mut self) {
        let first = self.turn.packets.last().map_or(0, |packet| packet.end) as usize;
        let bytes = self.slices[first..]
            .iter()
            .map(|slice| slice.len() as u32)
            .sum();
        self.turn.packets.push(Packet {
            end: self.slices.len() as u32,
            bytes,
        });
    }

    /// Packets ended so far.
    pub fn packets(&self) -> usize {
        self.turn.packets.len()
    }

    /// The slices of the packets `range`, counted from the batch's first packet: for senders that
    /// write them to a connection themselves.
    pub fn slices_of(&self, range: std::ops::Range<usize>) -> &[IoSlice<'d>] {
        let behind = |packet: usize| {
            if packet == 0 {
                0
            } else {
                self.turn.packets[packet - 1].end as usize
            }
        };
        &self.slices[behind(range.start)..behind(range.end)]
    }

    /// Size of a packet in bytes.
    pub fn bytes_of(&self, packet: usize) -> usize {
        self.turn.packets[packet].bytes as usize
    }

    /// Ends the message: the packets ended since the last message go to `to` through the socket
    /// with the index `socket`.
    ///
    /// For segmentation by the kernel, the packets must be of equal length except the last, which
    /// may be shorter, and within [`MAX_RUN_PACKETS`] and [`MAX_RUN_BYTES`]; otherwise they go
    /// packet by packet.
    pub fn end_message(
        &mut self,
        socket: u8,
        to: &'d Destination,
        segmentation: Segmentation,
        departs: u64,
        tag: u64,
    ) {
        let packets = (self.first, self.turn.packets.len() as u32);
        self.first = packets.1;
        let run = &self.turn.packets[packets.0 as usize..packets.1 as usize];
        let Some((first, last)) = run.first().zip(run.last()) else {
            return;
        };
        let fits = run.len() <= MAX_RUN_PACKETS
            && run
                .iter()
                .map(|packet| packet.bytes as usize)
                .sum::<usize>()
                <= MAX_RUN_BYTES
            && run[..run.len() - 1]
                .iter()
                .all(|packet| packet.bytes == first.bytes)
            && last.bytes <= first.bytes
            && first.bytes <= u32::from(u16::MAX);
        self.turn.messages.push(Message {
            socket,
            segmentation: if fits {
                segmentation
            } else {
                Segmentation::None
            },
            tag,
            sent: Sent::Waiting,
            cut_refused: false,
            departs,
            packets,
            segment: first.bytes as u16,
        });
        self.turn.destinations.push(to);
    }

    /// Sends the gathered messages. Their outcomes are then in [`Turn::messages`].
    pub fn send(mut self, sockets: &[UdpSocket]) {
        self.build_headers();
        let mut at = 0;
        let all = self.turn.headers.len();
        while at < all {
            at = self.send_from(at, all, sockets);
        }
    }

    /// Fills the kernel's message headers: one for each run, or one for each packet.
    fn build_headers(&mut self) {
        for number in 0..self.turn.messages.len() {
            let message = self.turn.messages[number];
            let (first, end) = message.packets;
            let step = if message.segmentation == Segmentation::Kernel {
                end - first
            } else {
                1
            };
            let mut packet = first;
            while packet < end {
                self.push_header(number as u32, packet..packet + step);
                packet += step;
            }
        }
        self.point_to_controls(0);
    }

    fn push_header(&mut self, number: u32, packets: std::ops::Range<u32>) {
        let turn = &mut *self.turn;
        // SAFETY: pushed by `end_message` from a reference that lives as long as this batch.
        let to = unsafe { &*turn.destinations[number as usize] };
        let start = if packets.start == 0 {
            0
        } else {
            turn.packets[packets.start as usize - 1].end
        };
        let slices = start as usize..turn.packets[packets.end as usize - 1].end as usize;
        let count = packets.len() as u16;
        let Message {
            segment, departs, ..
        } = turn.messages[number as usize];
        let segment = (count > 1).then_some(segment);
        let mut header = header(to, &self.slices[slices]);
        header.msg_hdr.msg_controllen = (to.origin_bytes
            + if count > 1 { CONTROL_SPACE } else { 0 }
            + if departs > 0 { CONTROL_SPACE } else { 0 })
            as _;
        turn.headers.push(header);
        turn.controls.push(control(to, segment, departs));
        turn.origins.push((number, count));
    }

    /// Sets the pointers to the control messages, which may move until no more are pushed.
    fn point_to_controls(&mut self, from: usize) {
        for (header, control) in self.turn.headers[from..]
            .iter_mut()
            .zip(&mut self.turn.controls[from..])
        {
            if header.msg_hdr.msg_controllen > 0 {
                header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            }
        }
    }

    /// Offers the packets of a run that the kernel refused to segment one by one, at once, so that
    /// they leave before those behind them.
    fn send_uncut(&mut self, number: u32, sockets: &[UdpSocket]) {
        let (first, end) = self.turn.messages[number as usize].packets;
        self.turn.messages[number as usize].cut_refused = true;
        self.turn.messages[number as usize].segmentation = Segmentation::None;
        let from = self.turn.headers.len();
        for packet in first..end {
            self.push_header(number, packet..packet + 1);
        }
        // The lists may have moved.
        self.point_to_controls(0);
        let all = self.turn.headers.len();
        let mut at = from;
        while at < all {
            at = self.send_from(at, all, sockets);
        }
        self.turn.headers.truncate(from);
        self.turn.controls.truncate(from);
        self.turn.origins.truncate(from);
    }

    /// Offers the kernel the headers `at..all` as far as they go through one socket; returns the
    /// first that is still to be offered.
    fn send_from(&mut self, at: usize, all: usize, sockets: &[UdpSocket]) -> usize {
        let turn = &mut *self.turn;
        let socket_of =
            |turn: &Turn, header: usize| turn.messages[turn.origins[header].0 as usize].socket;
        let socket = socket_of(turn, at);
        let most = all.min(at + MAX_CALL);
        let end = (at..most)
            .find(|header| socket_of(turn, *header) != socket)
            .unwrap_or(most);
        let Some(fd) = sockets.get(usize::from(socket)) else {
            (at..end).for_each(|header| turn.note_failure(header, libc::EBADF));
            return end;
        };
        turn.calls += 1;
        // SAFETY: the headers point to slices, names and control messages that this batch borrows or
        // owns until it is gone; the kernel reads them and writes `msg_len`.
        let result = unsafe {
            libc::sendmmsg(
                fd.as_fd().as_raw_fd(),
                turn.headers[at..end].as_mut_ptr(),
                (end - at) as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if result > 0 {
            let taken = at + result as usize;
            (at..taken).for_each(|header| turn.note_success(header));
            return taken;
        }
        let (number, packets) = turn.origins[at];
        match std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
        {
            libc::EINTR => at,
            // No room: there is none for the messages behind it either.
            libc::EAGAIN | libc::ENOBUFS => {
                (at..end).for_each(|header| turn.note_no_room(header));
                end
            }
            // The errors for a run on a device without checksum offload, or with a smaller MTU.
            libc::EIO | libc::EMSGSIZE | libc::EINVAL if packets > 1 => {
                self.send_uncut(number, sockets);
                at + 1
            }
            error => {
                turn.note_failure(at, error);
                // The other packets of the same message, sent one by one, fail too.
                (at + 1..end)
                    .find(|header| turn.origins[*header].0 != number)
                    .unwrap_or(end)
            }
        }
    }
}

impl Turn {
    fn note_success(&mut self, header: usize) {
        let (message, packets) = self.origins[header];
        let sent = &mut self.messages[message as usize].sent;
        *sent = match *sent {
            Sent::Waiting => Sent::Packets(packets),
            Sent::Packets(before) => Sent::Packets(before + packets),
            failed => failed,
        };
    }

    fn note_no_room(&mut self, header: usize) {
        let sent = &mut self.messages[self.origins[header].0 as usize].sent;
        if *sent == Sent::Waiting {
            *sent = Sent::Packets(0);
        }
    }

    fn note_failure(&mut self, header: usize, error: i32) {
        let sent = &mut self.messages[self.origins[header].0 as usize].sent;
        let packets = match *sent {
            Sent::Packets(packets) | Sent::Failed { packets, .. } => packets,
            Sent::Waiting => 0,
        };
        *sent = Sent::Failed { packets, error };
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        self.slices.clear();
        // SAFETY: the list is empty, so that no slice changes its lifetime; it is not used again.
        let mut slices = unsafe { ManuallyDrop::new(ManuallyDrop::take(&mut self.slices)) };
        // SAFETY: as in `Turn::begin`: the allocation returns to where it came from.
        self.turn.slices = unsafe {
            Vec::from_raw_parts(
                slices.as_mut_ptr().cast::<IoSlice<'static>>(),
                0,
                slices.capacity(),
            )
        };
        self.turn.headers.clear();
        self.turn.destinations.clear();
    }
}

fn header(to: &Destination, slices: &[IoSlice<'_>]) -> libc::mmsghdr {
    // SAFETY: all-zero is a valid mmsghdr.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = to.name.as_ptr().cast_mut().cast();
    header.msg_hdr.msg_namelen = to.name_bytes;
    // IoSlice has the layout of iovec on Unix (guaranteed by std).
    header.msg_hdr.msg_iov = slices.as_ptr().cast_mut().cast();
    header.msg_hdr.msg_iovlen = slices.len() as _;
    header
}

/// `CMSG_SPACE(2)`.
const CONTROL_SPACE: usize = 24;

fn control(to: &Destination, segment: Option<u16>, departs: u64) -> Control {
    let mut out = [0u64; super::address::ORIGIN_WORDS + 6];
    let mut words = to.origin_bytes / 8;
    out[..words].copy_from_slice(&to.origin[..words]);
    // A cmsghdr: its length (of the 16-byte header and the value), level and kind; then the value.
    let mut put = |bytes: usize, level: libc::c_int, kind: libc::c_int, value: [u8; 8]| {
        out[words] = 16 + bytes as u64;
        let mut both = [0; 8];
        both[..4].copy_from_slice(&level.to_ne_bytes());
        both[4..].copy_from_slice(&kind.to_ne_bytes());
        out[words + 1] = u64::from_ne_bytes(both);
        out[words + 2] = u64::from_ne_bytes(value);
        words += CONTROL_SPACE / 8;
    };
    if let Some(segment) = segment {
        let mut value = [0; 8];
        value[..2].copy_from_slice(&segment.to_ne_bytes());
        put(2, libc::SOL_UDP, libc::UDP_SEGMENT, value);
    }
    if departs > 0 {
        put(
            8,
            libc::SOL_SOCKET,
            super::socket::SCM_TXTIME,
            departs.to_ne_bytes(),
        );
    }
    out
}

const _: () = assert!(
    size_of::<libc::cmsghdr>() == 16,
    "control messages are laid out for 64-bit Linux"
);
