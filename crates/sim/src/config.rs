//! What is run, and what comes of it.

use std::fmt;
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Viewers who come.
    pub viewers: u32,
    /// Seconds in which they come and watch; then those who are still there leave.
    pub seconds: u64,
    /// Whether faults are injected, in every second seed.
    pub faults: bool,
    /// Whether lines are kept to be read.
    pub trace: bool,
    /// Something is done wrong on purpose, so that tests can see the checks fail.
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

/// What the model can be made to do wrong, to show that a check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// One in four viewers who leave keeps a block pinned.
    PinLeaked,
    /// One in four viewers who leave stays booked.
    BookingKept,
    /// One answer in fifty is given twice.
    AnsweredTwice,
    /// Viewers hold a group's blocks until the next group has ended too.
    HeldTooLong,
    /// The disk has an eighth of the speed that is booked, and says nothing.
    SlowDisk,
    /// The limited link carries half of what is booked, and says nothing.
    SlowLink,
    /// One read in fifty brings the block of another film.
    OtherBlock,
    /// A byte in each block of a view is another one, once it was compared.
    OtherByte,
    /// Memory for copies of blocks is filled again while sockets still have it.
    FilledAgain,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every request to the pool is answered once, and so is every request over RTSP.
    AnsweredOnce,
    /// A block that is given to a viewer is the one that was asked for, and nobody has it for another film.
    RightBlock,
    /// A request for blocks fails only if a read of its film has.
    Readable,
    /// Nothing pinned is evicted or read into.
    PinnedStays,
    /// The packets of a group are due within its time, and carry its bytes in order, out of the blocks under it.
    Planned,
    /// A viewer pins no more than is booked for their place in the film, or for a quarter second later.
    WithinBooking,
    /// Nobody who was admitted waits for blocks past their due time, or over HTTP for film, without a cause.
    OnTime,
    /// Packets leave at their times, frames are left out and timetables moved on only where a group came late or a fault
    /// explains it.
    SentOnTime,
    /// Each packet of a film, from where a viewer begins to its end, leaves once and in order, with sequence numbers that follow
    /// one another, or is one of a frame that was left out.
    InOrder,
    /// The first packet since PLAY has the number that RTP-Info said, and nothing comes before PLAY and after PAUSE.
    AsTold,
    /// Within a millisecond a viewer is sent as many packets as the burst rule allows, at most.
    Burst,
    /// What is handed to a limited link never fills more than its queue.
    WithinLink,
    /// A packet is sent again once for each time that it was asked for, and all of them are a small part of what is sent.
    SentAgain,
    /// Where viewers who seek and resume are judged again, nothing is booked beyond its limit.
    WithinLimit,
    /// The windows of a segment over HTTP are its bytes, once and in order.
    Fetched,
    /// Viewers over HTTP are sent no more than is booked for them.
    Paced,
    /// What viewers over HTTP are sent gets through a limited link about as fast as it is meant to.
    Carried,
    /// Answers over HTTP pin no more together than they may.
    WithinBudget,
    /// What a connection was given without a copy stays as it is until it is read.
    GivenStays,
    /// A viewer over HTTP is known as long as they play, and not when they were given up.
    Known,
    /// Of films in files, the index has what was put in, blocks of views hold it, and viewers get it.
    AsPutIn,
    /// When all have left, nothing is pinned, read or waited for.
    PinsReturn,
    /// Sessions end whose viewers are silent; when all have left, nobody is booked, and no second to come has a load.
    BookingsReturn,
}

impl Rule {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Rule::AnsweredOnce => "every request is answered once",
            Rule::RightBlock => "a block is given for one film only",
            Rule::Readable => "what can be read is given",
            Rule::PinnedStays => "nothing pinned is evicted",
            Rule::Planned => "packets carry what their group's blocks hold",
            Rule::WithinBooking => "viewers pin no more than is booked for them",
            Rule::OnTime => "no admitted viewer waits without a cause",
            Rule::SentOnTime => "packets leave at their times",
            Rule::InOrder => "each packet leaves once and in order",
            Rule::AsTold => "what comes is what RTP-Info said",
            Rule::Burst => "the burst rule holds",
            Rule::WithinLink => "a limited link's queue stays short",
            Rule::SentAgain => "only what is missed is sent again",
            Rule::WithinLimit => "nothing is booked beyond its limit",
            Rule::Fetched => "a segment's windows are its bytes",
            Rule::Paced => "over HTTP no more is sent than is booked",
            Rule::Carried => "a limited link carries what is sent over HTTP",
            Rule::WithinBudget => "over HTTP no more is pinned than may be",
            Rule::GivenStays => "what a connection was given stays as it is",
            Rule::Known => "who plays over HTTP is known",
            Rule::AsPutIn => "what was put into a file is what viewers get",
            Rule::PinsReturn => "pins return to nothing",
            Rule::BookingsReturn => "bookings return to nothing",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, since the beginning of the run.
    pub at: Duration,
    /// What does not hold.
    pub rule: Rule,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { at, rule, what } = self;
        write!(f, "after {:.6} s: {rule}: {what}", at.as_secs_f64())
    }
}

/// What happened, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events of the run.
    pub events: u64,
    /// Viewers admitted.
    pub admitted: u64,
    /// Viewers refused.
    pub refused: u64,
    /// Viewers whose sessions ended so that others could come in.
    pub sent_away: u64,
    /// Seeks.
    pub seeks: u64,
    /// Pauses.
    pub pauses: u64,
    /// Viewers who vanished while a read for them was under way.
    pub vanished: u64,
    /// Viewers whose film ended with an error, as its blocks could not be read.
    pub failed: u64,
    /// Segments that viewers over HTTP have got whole.
    pub fetched: u64,
    /// Copies of blocks that connections were given.
    pub given: u64,
    /// Viewers over HTTP of whom nothing was heard for so long that they were given up.
    pub given_up: u64,
    /// Requests that the pool answered.
    pub requests: u64,
    /// Blocks asked for that were there or on their way.
    pub hits: u64,
    /// Blocks read.
    pub reads: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Requests that found no room in the pool at first.
    pub waited_for_room: u64,
    /// Groups that viewers came to while nothing could explain a delay.
    pub strict: u64,
    /// Groups that came late for a cause.
    pub late: u64,
    /// Groups that came late as they were asked for so shortly before they were due that the disk could not be sure to read
    /// them by then: the group before is short.
    pub short_notice: u64,
    /// Groups that came late as those of newcomers went ahead of them: these are due 200 ms after they are asked for, and
    /// the group before is too short to ask much earlier.
    pub behind_newcomers: u64,
    /// Faults injected.
    pub faults: u64,
    /// How often a viewer had more blocks than are booked for the quarter second of the film, and not more than are held from
    /// there on within another.
    pub early: u64,
    /// Packets that the kernel took.
    pub packets: u64,
    /// Those of them that went to connections.
    pub written: u64,
    /// How often viewers over TCP stopped reading.
    pub stood: u64,
    /// Those who were disconnected for that.
    pub disconnected: u64,
    /// Viewers over HTTP whose film was replaced.
    pub replaced: u64,
    /// Packets that it refused.
    pub refused_packets: u64,
    /// Packets that viewers asked for again.
    pub missed: u64,
    /// Packets that were sent again.
    pub resent: u64,
    /// Frames that were left out as they were too late.
    pub left_out: u64,
    /// Blocks of views that were made.
    pub made: u64,
    /// Groups and windows of films in files that were compared with what was put in.
    pub compared: u64,
    /// Seconds of the run.
    pub seconds: u64,
    /// Those of them at whose beginning viewers pinned more blocks, each counting all of theirs, than are booked for the
    /// second: a booking is the mean of a second, and no fault explains the rest.
    pub beyond_mean: u64,
}

impl Counters {
    /// Names and values, in the order of their declaration.
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

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The same for the same seed and configuration.
    pub trace_hash: u64,
    /// What must not have happened, the first of it.
    pub violations: Vec<Violation>,
    /// What happened.
    pub counters: Counters,
    /// The lines of the run, if they are kept.
    pub trace: Vec<String>,
}
