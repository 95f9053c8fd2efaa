//! Whether the counter can be trusted, and why (not).
//!
//! The kernel tests the counter far better than a program can: on all processors at their start,
//! against other clocks ever after, with a list of broken machines. So its judgement counts: the
//! counter is used if it is the kernel's own clock source. If the kernel uses another (some virtual
//! machines, HPET after a false alarm), a user may choose to trust the counter; then it must still
//! be invariant and pass the comparison of all processors (`cross.rs`).
//!
//! Nothing here allocates: the preload library calls it in programs that are just starting.

use std::ffi::CStr;
use std::fmt;

use reelway_sys::tsc;

/// The environment variable that overrides the judgement.
pub const VARIABLE: &CStr = c"REELWAY_CLOCK";

/// The user's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The counter if it can be trusted (`auto`, or unset).
    #[default]
    Auto,
    /// The kernel's clock (`off`).
    Off,
    /// The counter although the kernel does not use it (`trust`).
    Trust,
    /// The same, even if the processor does not report it as invariant (`force`): some hypervisors
    /// hide that from their guests.
    Force,
}

impl Choice {
    /// Reads the choice from the environment; an unknown value counts as unset, and is returned.
    pub fn from_environment() -> (Choice, Option<Text>) {
        let mut buffer = [0; 16];
        match tsc::environment(VARIABLE, &mut buffer) {
            None | Some(b"" | b"auto" | b"on" | b"1") => (Choice::Auto, None),
            Some(b"off" | b"kernel" | b"0") => (Choice::Off, None),
            Some(b"trust") => (Choice::Trust, None),
            Some(b"force") => (Choice::Force, None),
            Some(other) => (Choice::Auto, Some(Text::new(other))),
        }
    }
}

/// Why the time comes from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The kernel's clock source is the counter.
    KernelUsesIt,
    /// The kernel uses another source, but a user trusts the counter.
    TrustedByHand(Text),
    /// A user has switched the counter off.
    SwitchedOff,
    /// The counter must not be read (`prctl(PR_SET_TSC)`).
    Forbidden,
    /// The processor does not guarantee that it runs at one rate.
    NotInvariant,
    /// The kernel uses another clock source.
    OtherSource(Text),
    /// The kernel's clock source cannot be read (no `/sys`).
    SourceUnknown,
    /// The process is in a time namespace of its own.
    TimeNamespace,
    /// The counters of two processors differ by this many counts.
    ProcessorsApart(u64),
}

impl Why {
    /// Whether this is a reason to use the counter.
    pub fn trusts(&self) -> bool {
        matches!(self, Why::KernelUsesIt | Why::TrustedByHand(_))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::KernelUsesIt => write!(f, "the kernel's clock source is {}", COUNTER.name()),
            Why::TrustedByHand(source) => write!(
                f,
                "the kernel's clock source is {source}, but REELWAY_CLOCK says to trust {}",
                COUNTER.name()
            ),
            Why::SwitchedOff => write!(f, "REELWAY_CLOCK=off"),
            Why::Forbidden => write!(f, "this process may not read the counter (PR_SET_TSC)"),
            Why::NotInvariant => write!(
                f,
                "the processor does not say that its counter is invariant (REELWAY_CLOCK=force \
                 does not ask)"
            ),
            Why::OtherSource(source) => write!(
                f,
                "the kernel's clock source is {source} (REELWAY_CLOCK=trust uses the counter nevertheless)"
            ),
            Why::SourceUnknown => write!(f, "cannot read {}", COUNTER.path().to_string_lossy()),
            Why::TimeNamespace => write!(f, "the process is in a time namespace"),
            Why::ProcessorsApart(counts) => {
                write!(
                    f,
                    "the counters of two processors are {counts} counts apart"
                )
            }
        }
    }
}

/// A short text in a fixed buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; 24],
    length: u8,
}

impl Text {
    /// The start of `text`, as much as fits.
    pub fn new(text: &[u8]) -> Text {
        let mut bytes = [0; 24];
        let length = text.len().min(bytes.len());
        bytes[..length].copy_from_slice(&text[..length]);
        Text {
            bytes,
            length: length as u8,
        }
    }

    /// The text, with a question mark for every byte that is not printable ASCII.
    pub fn chars(&self) -> impl Iterator<Item = char> + '_ {
        self.bytes[..usize::from(self.length)].iter().map(|&byte| {
            if byte.is_ascii_graphic() {
                char::from(byte)
            } else {
                '?'
            }
        })
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars()
            .try_for_each(|char| fmt::Write::write_char(f, char))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The counter of this architecture.
pub struct Counter;
/// The counter of this architecture.
pub const COUNTER: Counter = Counter;

impl Counter {
    /// Its name for users.
    pub const fn name(&self) -> &'static str {
        if cfg!(target_arch = "x86_64") {
            "tsc"
        } else {
            "arch_sys_counter"
        }
    }

    /// The file in which the kernel names its clock source.
    pub const fn path(&self) -> &'static CStr {
        c"/sys/devices/system/clocksource/clocksource0/current_clocksource"
    }
}

/// The inode of the time namespace in which a machine boots (Linux's `PROC_TIME_INIT_INO`).
const FIRST_TIME_NAMESPACE: &[u8] = b"time:[4026531834]";

/// Judges the counter, except for the comparison of all processors.
pub fn judge(wish: Choice) -> Why {
    if wish == Choice::Off {
        return Why::SwitchedOff;
    }
    if !tsc::readable() {
        return Why::Forbidden;
    }
    let mut buffer = [0; 64];
    // Not readable: no `/proc`, or a kernel without time namespaces. The clocks are right in any
    // namespace, because they follow what the kernel shows to this process; but a process in one of
    // its own may be moved to yet another.
    match tsc::read_link(c"/proc/self/ns/time", &mut buffer) {
        None => {}
        Some(link) if link == FIRST_TIME_NAMESPACE => {}
        Some(_) => return Why::TimeNamespace,
    }
    let source = tsc::read_small_file(COUNTER.path(), &mut buffer).map(<[u8]>::trim_ascii);
    match (source, wish) {
        // Querying the processor costs two exits to the hypervisor, and the kernel has done it
        // already.
        (Some(name), _) if name == COUNTER.name().as_bytes() => Why::KernelUsesIt,
        (_, Choice::Trust) if !tsc::invariant() => Why::NotInvariant,
        (name, Choice::Trust | Choice::Force) => {
            Why::TrustedByHand(Text::new(name.unwrap_or(b"unknown")))
        }
        (Some(name), _) => Why::OtherSource(Text::new(name)),
        (None, _) => Why::SourceUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_off() {
        assert_eq!(judge(Choice::Off), Why::SwitchedOff);
        assert!(!Why::SwitchedOff.trusts());
    }

    #[test]
    fn every_reason_reads_as_a_sentence() {
        let text = Text::new(b"hpet");
        for (why, words) in [
            (Why::KernelUsesIt, "clock source is"),
            (Why::TrustedByHand(text), "source is hpet, but"),
            (Why::OtherSource(text), "source is hpet ("),
            (Why::SourceUnknown, "/sys/"),
            (Why::ProcessorsApart(7), "7 counts apart"),
        ] {
            assert!(why.to_string().contains(words), "{why}");
        }
    }

    #[test]
    fn a_long_or_odd_name_does_no_harm() {
        let text = Text::new(b"a\nname\xffthat is longer than twenty-four bytes");
        assert_eq!(text.to_string(), "a?name?that?is?longer?th");
    }
}
