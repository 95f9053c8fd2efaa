//! How a turn's packets are passed to the kernel: everything due at once, by `sendmmsg`, in runs
//! that the kernel segments (GSO) if it can. Messages of streams that leave through an fq queue
//! carry their departure time (`departure.rs`).
//!
//! Rings (io_uring) are not used. Sends to UDP sockets complete at once, so a ring saves nothing
//! over a turn's single call, and its bookkeeping costs. Measured over veth with 1,000 streams of 3
//! Mb/s: the sender thread's CPU time per packet, median of paired runs, is 1048 ns with `sendmmsg`
//! and 1066 ns with a ring at burst 8, and 772 ns and 756 ns with whole frames.

use reelway_sys::udp::{Segmentation, UdpSocket};

use crate::config::BackendChoice;

/// The chosen backend, and why.
pub(crate) struct Way {
    /// Its name, for logs and metrics.
    pub name: &'static str,
    /// Whether the kernel segments runs of packets.
    pub segmentation: Segmentation,
    /// Why it was chosen, in words.
    pub why: String,
}

impl Way {
    /// Returns the requested backend, or what the machine supports for such sockets instead.
    pub fn choose(wish: BackendChoice, sockets: &[UdpSocket]) -> Way {
        let cuts = sockets.iter().try_for_each(UdpSocket::cuts_runs);
        Way::of(wish, cuts.map_err(|error| error.to_string()))
    }

    fn of(wish: BackendChoice, cuts: Result<(), String>) -> Way {
        let wished = match wish {
            BackendChoice::Auto => "chosen by itself".to_owned(),
            wish => format!("\"{wish}\" was asked for"),
        };
        let (name, segmentation, why) = match (wish, cuts) {
            (BackendChoice::Sendmmsg, _) => ("sendmmsg", Segmentation::None, wished),
            (_, Ok(())) => ("gso", Segmentation::Kernel, wished),
            (_, Err(error)) => {
                let why =
                    format!("{wished}; gso: the kernel does not cut runs of packets: {error}");
                ("sendmmsg", Segmentation::None, why)
            }
        };
        Way {
            name,
            segmentation,
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackendChoice::{Auto, Gso, Sendmmsg};

    #[test]
    fn what_is_missing_leads_to_the_next_way_and_is_said() {
        for wish in [Auto, Gso] {
            assert_eq!(Way::of(wish, Ok(())).name, "gso");
            let Way { name, why, .. } = Way::of(wish, Err("too old".to_owned()));
            assert!(
                name == "sendmmsg" && why.contains("too old"),
                "{wish}: {why}"
            );
        }
        let way = Way::of(Sendmmsg, Ok(()));
        assert_eq!(
            (way.name, &*way.why),
            ("sendmmsg", "\"sendmmsg\" was asked for")
        );
    }

    #[test]
    fn every_way_is_named_as_it_is_read() {
        for (choice, name) in BackendChoice::NAMES {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        let error = "uring".parse::<BackendChoice>().unwrap_err();
        assert!(error.contains("\"gso\""), "{error}");
    }
}
