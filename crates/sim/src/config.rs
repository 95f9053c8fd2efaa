//! The configuration, the rules and the outcome of a run.

use std::fmt;
use std::time::Duration;

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of viewers.
    pub viewers: u32,
    /// Seconds in which viewers arrive and watch; then the remaining ones leave.
    pub seconds: u64,
    /// Whether faults are injected, in every second seed.
    pub faults: bool,
    /// Whether the lines of the trace are kept.
    pub trace: bool,
    /// A deliberate error of the model, with which tests see the checks fail.
    pub wrong: Option<Wrong>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            viewers: 10,
            seconds: 120,
            faults: true,
            trace: false,
            wrong: None,
        }
    }
}

/// Errors that the model can make, to show that a check finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// One in four viewers who leave keeps a block pinned.
    PinLeaked,
    /// One in four viewers who leave stays booked.
    BookingKept,
    /// One answer in fifty is delivered twice.
    AnsweredTwice,
    /// Viewers hold a group's blocks until the next group has ended too.
    HeldTooLong,
    /// The disk has an eighth of the speed that is booked, and does not report it.
    SlowDisk,
    /// The limited link carries half of what is booked, and does not report it.
    SlowLink,
    /// One read in fifty brings the block of another film.
    OtherBlock,
    /// A byte in each block of a view changes after the block was compared.
    OtherByte,
    /// Memory for copies of blocks is reused while sockets still have it.
    FilledAgain,
}

/// The rules that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every request to the pool and every RTSP request is answered exactly once.
    AnsweredOnce,
    /// A block that is given to a viewer is the one that was requested, and its memory is in use
    /// for no other film.
    RightBlock,
    /// A request for blocks fails only if a read of its film has failed.
    Readable,
    /// Requests wait for room only while there is none.
    RoomIsGiven,
    /// No pinned page is evicted, and no read overwrites it.
    PinnedStays,
    /// The packets of a group are due within its time, and carry its bytes in order, from the
    /// group's blocks.
    Planned,
    /// A viewer pins no more than is booked for their position in the film, or for a
    /// quarter second later.
    WithinBooking,
    /// No admitted viewer waits for blocks beyond their deadline, or over HTTP for film,
    /// without a cause.
    OnTime,
    /// Packets leave at their times; frames are left out and timetables moved only if a group came
    /// late or a fault explains it.
    SentOnTime,
    /// Each packet of a film, from the viewer's beginning to its end, leaves once and in order,
    /// with consecutive sequence numbers, or belongs to a frame that was left out.
    InOrder,
    /// The first packet after PLAY has the sequence number that RTP-Info gave, and no packet comes
    /// before PLAY or after PAUSE.
    AsTold,
    /// Within a millisecond a viewer is sent at most as many packets as the burst rule allows.
    Burst,
    /// What is handed to a limited link never exceeds its queue.
    WithinLink,
    /// A packet is sent again once for each request, and retransmissions are a small part
    /// of all packets.
    SentAgain,
    /// If viewers who seek and resume are judged again, nothing is booked beyond its limit.
    WithinLimit,
    /// The windows of a segment over HTTP contain its bytes, once and in order.
    Fetched,
    /// HTTP viewers are sent no more than is booked for them.
    Paced,
    /// What HTTP viewers are sent passes a limited link about as fast as intended.
    Carried,
    /// Answers over HTTP together pin no more than allowed.
    WithinBudget,
    /// What a connection was given without a copy stays unchanged until it is read.
    GivenStays,
    /// An HTTP viewer is known as long as they play, and unknown after they were given up.
    Known,
    /// For films in files, the index contains the known content, blocks of views hold it, and
    /// viewers receive it.
    AsPutIn,
    /// After all viewers have left, nothing is pinned, read or waited for.
    PinsReturn,
    /// Sessions of silent viewers end; after all have left, nothing is booked, and no future second
    /// has a load.
    BookingsReturn,
}

impl Rule {
    /// Returns the rule in words.
    pub fn name(self) -> &'static str {
        match self {
            Rule::AnsweredOnce => "every request is answered exactly once",
            Rule::RightBlock => "viewers are given the blocks that they requested",
            Rule::Readable => "requests fail only if a read has failed",
            Rule::RoomIsGiven => "requests wait for room only while there is none",
            Rule::PinnedStays => "no pinned block is evicted",
            Rule::Planned => "packets carry the bytes of their group's blocks",
            Rule::WithinBooking => "viewers pin no more than is booked for them",
            Rule::OnTime => "no admitted viewer waits without a cause",
            Rule::SentOnTime => "packets leave on time",
            Rule::InOrder => "each packet leaves once and in order",
            Rule::AsTold => "packets match RTP-Info, and are sent only while playing",
            Rule::Burst => "no burst exceeds its limit",
            Rule::WithinLink => "a limited link's queue stays short",
            Rule::SentAgain => "only requested packets are retransmitted",
            Rule::WithinLimit => "nothing is booked beyond its limit",
            Rule::Fetched => "the windows of a segment contain its bytes",
            Rule::Paced => "no more is sent over HTTP than is booked",
            Rule::Carried => "a limited link carries what is sent over HTTP",
            Rule::WithinBudget => "no more is pinned over HTTP than is allowed",
            Rule::GivenStays => "memory given to a connection stays unchanged",
            Rule::Known => "viewers who play over HTTP are known",
            Rule::AsPutIn => "viewers get the content that was put into a file",
            Rule::PinsReturn => "all pins are released",
            Rule::BookingsReturn => "all bookings are released",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it occurred, since the beginning of the run.
    pub at: Duration,
    /// The rule that does not hold.
    pub rule: Rule,
    /// A description of what happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { at, rule, what } = self;
        write!(f, "after {:.6} s: {rule}: {what}", at.as_secs_f64())
    }
}

/// Counts of what happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events of the run.
    pub events: u64,
    /// Viewers admitted.
    pub admitted: u64,
    /// Viewers refused.
    pub refused: u64,
    /// Viewers whose sessions ended to make room for others.
    pub sent_away: u64,
    /// Seeks.
    pub seeks: u64,
    /// Pauses.
    pub pauses: u64,
    /// Viewers who disappeared while a read for them was in progress.
    pub vanished: u64,
    /// Viewers whose film ended with an error because its blocks could not be read.
    pub failed: u64,
    /// Segments that HTTP viewers received completely.
    pub fetched: u64,
    /// Copies of blocks that connections were given.
    pub given: u64,
    /// HTTP viewers who were given up after a long silence.
    pub given_up: u64,
    /// Requests that the pool answered.
    pub requests: u64,
    /// Requested blocks that were in memory or being read.
    pub hits: u64,
    /// Blocks read.
    pub reads: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Requests that found no room in the pool at first.
    pub waited_for_room: u64,
    /// Groups that viewers reached while nothing could explain a delay.
    pub strict: u64,
    /// Groups that came late with a cause.
    pub late: u64,
    /// Groups that came late because they were requested so shortly before they were due that the
    /// disk could not be sure to read them in time: the previous group is short.
    pub short_notice: u64,
    /// Groups that came late because those of newcomers went ahead of them: the latter are due
    /// 200 ms after the request, and the previous group is too short to request the next
    /// one much earlier.
    pub behind_newcomers: u64,
    /// Faults injected.
    pub faults: u64,
    /// How often a viewer had more blocks than are booked for the quarter second of the film, but
    /// no more than are held within the next one.
    pub early: u64,
    /// Packets that the kernel took.
    pub packets: u64,
    /// Packets written to connections, among these.
    pub written: u64,
    /// How often viewers over TCP stopped reading.
    pub stood: u64,
    /// Viewers who were disconnected because of that.
    pub disconnected: u64,
    /// HTTP viewers whose film was replaced.
    pub replaced: u64,
    /// Packets that the kernel refused.
    pub refused_packets: u64,
    /// Packets that viewers asked for again.
    pub missed: u64,
    /// Packets that were sent again.
    pub resent: u64,
    /// Frames that were left out because they were too late.
    pub left_out: u64,
    /// Blocks of views that were made.
    pub made: u64,
    /// Groups and windows of films in files that were compared with the known content.
    pub compared: u64,
    /// Seconds of the run.
    pub seconds: u64,
    /// Seconds at whose beginning viewers pinned more blocks, counted per viewer, than are booked
    /// for the second, without a fault to explain it: a booking is the mean of a second.
    pub beyond_mean: u64,
}

impl Counters {
    /// Returns names and values, in the order of their declaration.
    pub fn named(&self) -> [(&'static str, u64); 35] {
        [
            ("events", self.events),
            ("admitted", self.admitted),
            ("refused", self.refused),
            ("sent_away", self.sent_away),
            ("seeks", self.seeks),
            ("pauses", self.pauses),
            ("vanished", self.vanished),
            ("failed", self.failed),
            ("fetched", self.fetched),
            ("given", self.given),
            ("given_up", self.given_up),
            ("requests", self.requests),
            ("hits", self.hits),
            ("reads", self.reads),
            ("errors", self.errors),
            ("waited_for_room", self.waited_for_room),
            ("strict", self.strict),
            ("late", self.late),
            ("short_notice", self.short_notice),
            ("behind_newcomers", self.behind_newcomers),
            ("faults", self.faults),
            ("early", self.early),
            ("packets", self.packets),
            ("written", self.written),
            ("stood", self.stood),
            ("disconnected", self.disconnected),
            ("replaced", self.replaced),
            ("refused_packets", self.refused_packets),
            ("missed", self.missed),
            ("resent", self.resent),
            ("left_out", self.left_out),
            ("made", self.made),
            ("compared", self.compared),
            ("seconds", self.seconds),
            ("beyond_mean", self.beyond_mean),
        ]
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Hash of the trace; the same for the same seed and configuration.
    pub trace_hash: u64,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// Counts of what happened.
    pub counters: Counters,
    /// The lines of the run, if they are kept.
    pub trace: Vec<String>,
}
