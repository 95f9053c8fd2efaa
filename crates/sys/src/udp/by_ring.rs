//! A turn's packets through a ring.

use std::io;

use super::{Batch, UdpSocket};
use crate::uring::{Ring, Submission};

impl Batch<'_, '_> {
    /// Sends what was gathered through `ring`, which was made for `sockets`; what became of it is in
    /// [`super::Turn::messages`] then, as after [`Batch::send`]. Messages of the same tag that follow
    /// each other are linked: should one find no room, those behind it do not overtake it.
    ///
    /// # Errors
    ///
    /// The ring takes nothing any more. Everything was sent all the same, without it; it is not to be
    /// used again.
    pub fn send_by_ring(mut self, ring: &mut Ring, sockets: &[UdpSocket]) -> io::Result<()> {
        self.build_headers();
        let mut at = 0;
        let all = self.turn.headers.len();
        while at < all {
            let end = self.chunk(at, all);
            if end - at > Ring::MOST {
                // A chain that does not fit is not broken up.
                at = self.send_until(at, end, sockets);
                continue;
            }
            self.turn.calls += 1;
            let mut results = std::mem::take(&mut self.turn.results);
            results.clear();
            results.resize(end - at, 0);
            let submissions = (at..end).map(|header| Submission {
                socket: self.turn.messages[self.turn.origins[header].0 as usize].socket,
                message: &raw const self.turn.headers[header].msg_hdr,
                linked: header + 1 < end && self.tag(header) == self.tag(header + 1),
            });
            // SAFETY: the headers point to slices, names and control messages that this batch borrows
            // or owns; it and the headers stay where they are through the call.
            let outcome = unsafe { ring.send(submissions, &mut results) };
            if outcome.is_ok() {
                self.take_results(at, end, &results, sockets);
            }
            self.turn.results = results;
            if let Err(error) = outcome {
                self.send_until(at, all, sockets);
                return Err(error);
            }
            at = end;
        }
        Ok(())
    }

    fn tag(&self, header: usize) -> u64 {
        self.turn.messages[self.turn.origins[header].0 as usize].tag
    }

    /// Behind the last header of the same tag as `at`.
    fn chain_end(&self, at: usize, all: usize) -> usize {
        let tag = self.tag(at);
        (at + 1..all)
            .find(|header| self.tag(*header) != tag)
            .unwrap_or(all)
    }

    /// As many whole chains from `at` on as a ring takes at once; the first one at least.
    fn chunk(&self, at: usize, all: usize) -> usize {
        let mut end = self.chain_end(at, all);
        while end < all {
            let next = self.chain_end(end, all);
            if next - at > Ring::MOST {
                break;
            }
            end = next;
        }
        end
    }

    /// Sends the headers `at..end` without a ring.
    fn send_until(&mut self, mut at: usize, end: usize, sockets: &[UdpSocket]) -> usize {
        while at < end {
            at = self.send_from(at, end, sockets);
        }
        end
    }

    fn take_results(&mut self, first: usize, end: usize, results: &[i32], sockets: &[UdpSocket]) {
        let mut at = first;
        while at < end {
            let (number, packets) = self.turn.origins[at];
            match -results[at - first] {
                ..=0 => self.turn.note_success(at),
                // Those behind it in the chain were not tried.
                libc::EAGAIN | libc::ENOBUFS => {
                    let chain_end = self.chain_end(at, end);
                    (at..chain_end).for_each(|header| self.turn.note_no_room(header));
                    at = chain_end;
                    continue;
                }
                // One before it was refused for good, which does not concern it.
                libc::ECANCELED => {
                    at = self.send_until(at, self.chain_end(at, end), sockets);
                    continue;
                }
                // What a device without checksum offload, or with a smaller MTU, says to a run.
                libc::EIO | libc::EMSGSIZE | libc::EINVAL if packets > 1 => {
                    self.send_uncut(number, sockets);
                }
                error => {
                    self.turn.note_failure(at, error);
                    // The other packets of a run that goes one by one share its fate.
                    at = (at + 1..end)
                        .find(|header| self.turn.origins[*header].0 != number)
                        .unwrap_or(end);
                    continue;
                }
            }
            at += 1;
        }
    }
}
