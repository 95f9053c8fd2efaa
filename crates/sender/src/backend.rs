//! How a turn's packets get to the kernel.
//!
//! A backend takes everything that is due in a turn at once, sends what it can and notes in each
//! message what became of it; it keeps nothing when it returns. So the bytes it is given need only
//! live for the call, and one that submits to a ring (io_uring) reaps its completions before it
//! returns, as sends to UDP sockets complete at once. Messages of streams that leave through an fq queue
//! carry their departure time, whichever backend sends them (`departure.rs`).

use reelway_sys::udp::{Batch, Segmentation, UdpSocket};
use reelway_sys::uring::{self, Ring};

use crate::config::BackendChoice;

/// A way to the kernel. One thread has it.
pub(crate) trait Backend: Send {
    /// Its name, for logs and metrics.
    fn name(&self) -> &'static str;

    /// Whether runs of packets are cut by the kernel.
    fn segmentation(&self) -> Segmentation;

    /// Sends a turn's packets through the thread's sockets.
    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]);
}

/// `sendmmsg` of runs that the kernel cuts (GSO).
pub(crate) struct Gso;

impl Backend for Gso {
    fn name(&self) -> &'static str {
        "gso"
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::Kernel
    }

    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]) {
        batch.send(sockets);
    }
}

/// `sendmmsg` of single packets.
pub(crate) struct Plain;

impl Backend for Plain {
    fn name(&self) -> &'static str {
        "sendmmsg"
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::None
    }

    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]) {
        batch.send(sockets);
    }
}

/// The same through an io_uring of the thread's own.
pub(crate) struct Uring(Option<Ring>);

impl Backend for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn segmentation(&self) -> Segmentation {
        Segmentation::Kernel
    }

    fn send(&mut self, batch: Batch<'_, '_>, sockets: &[UdpSocket]) {
        let Some(ring) = &mut self.0 else {
            return batch.send(sockets);
        };
        if let Err(error) = batch.send_by_ring(ring, sockets) {
            tracing::warn!("io_uring failed; a sender thread continues with sendmmsg: {error}");
            self.0 = None;
        }
    }
}

/// What the machine offers: the error says why not.
pub(crate) struct Offers {
    ring: Result<(), String>,
    cuts: Result<(), String>,
}

impl Offers {
    /// Tries what the machine offers for such sockets.
    pub fn probe(sockets: &[UdpSocket]) -> Offers {
        let cuts = sockets.iter().try_for_each(UdpSocket::cuts_runs);
        Offers {
            ring: Ring::probe().map_err(|error| uring::why_not(&error)),
            cuts: cuts.map_err(|error| format!("the kernel does not cut runs of packets: {error}")),
        }
    }

    /// The way that is taken (never [`BackendChoice::Auto`]), and why, in words.
    pub fn choose(&self, wish: BackendChoice) -> (BackendChoice, String) {
        use BackendChoice::{Auto, Gso, IoUring, Sendmmsg};
        let order: &[BackendChoice] = match wish {
            Auto => &AUTO,
            IoUring => &[IoUring, Gso, Sendmmsg],
            Gso => &[Gso, Sendmmsg],
            Sendmmsg => &[Sendmmsg],
        };
        let mut missing = Vec::new();
        for way in order {
            let offer = match way {
                IoUring => self.ring.as_ref().and(self.cuts.as_ref()),
                Gso => self.cuts.as_ref(),
                Auto | Sendmmsg => Ok(&()),
            };
            match offer {
                Ok(()) => {
                    let wished = match wish {
                        Auto => "chosen by itself".to_owned(),
                        wish => format!("\"{wish}\" was asked for"),
                    };
                    missing.insert(0, wished);
                    return (*way, missing.join("; "));
                }
                Err(why) => missing.push(format!("{way}: {why}")),
            }
        }
        (Sendmmsg, missing.join("; "))
    }
}

/// What `auto` tries, the cheapest first. Between the rings and `sendmmsg` there is little: sends to UDP
/// sockets complete at once, so that a ring saves nothing that a turn's one call does not, and its
/// bookkeeping costs. Measured over veth, 1,000 streams of 3 Mb/s, CPU of the sender thread a packet, median
/// of paired runs: at burst 8 1048 ns with `sendmmsg` and 1066 ns with io_uring, at whole frames 772 and
/// 756 ns.
const AUTO: [BackendChoice; 2] = [BackendChoice::Gso, BackendChoice::Sendmmsg];

/// The chosen way, for a thread with these sockets. A ring that cannot be had after all (one a thread)
/// is done without.
pub(crate) fn open(way: BackendChoice, sockets: &[UdpSocket]) -> Box<dyn Backend> {
    match way {
        BackendChoice::Sendmmsg => Box::new(Plain),
        BackendChoice::Gso => Box::new(Gso),
        BackendChoice::Auto | BackendChoice::IoUring => match Ring::new(sockets) {
            Ok(ring) => Box::new(Uring(Some(ring))),
            Err(error) => {
                let why = uring::why_not(&error);
                tracing::warn!("a sender thread has no io_uring, it sends by sendmmsg: {why}");
                Box::new(Gso)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackendChoice::{Auto, Gso, IoUring, Sendmmsg};

    fn offers(ring: bool, cuts: bool) -> Offers {
        let offer = |there: bool, why: &str| there.then_some(()).ok_or_else(|| why.to_owned());
        Offers {
            ring: offer(ring, "forbidden"),
            cuts: offer(cuts, "too old"),
        }
    }

    #[test]
    fn what_is_missing_leads_to_the_next_way_and_is_said() {
        let choose = |ring, cuts, wish| offers(ring, cuts).choose(wish);
        assert_eq!(choose(true, true, IoUring).0, IoUring);
        assert_eq!(choose(true, true, Gso).0, Gso);
        assert_eq!(choose(true, true, Sendmmsg).0, Sendmmsg);
        let (way, why) = choose(false, true, IoUring);
        assert_eq!(
            (way, &*why),
            (Gso, "\"io_uring\" was asked for; io_uring: forbidden")
        );
        for wish in [Auto, IoUring, Gso] {
            let (way, why) = choose(false, false, wish);
            assert!(
                way == Sendmmsg && why.contains("gso: too old"),
                "{wish}: {why}"
            );
        }
    }

    #[test]
    fn every_way_is_named_as_it_is_read() {
        for (choice, name) in BackendChoice::NAMES {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        let error = "uring".parse::<BackendChoice>().unwrap_err();
        assert!(error.contains("\"io_uring\""), "{error}");
    }
}
