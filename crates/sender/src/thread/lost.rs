//! Retransmits packets that receivers miss, one by one, as they are few.

use reelway_playout::Lost;
use reelway_sys::udp::Sent;

use super::body::{Thread, now};
use crate::packets::fill_again;

impl Thread {
    /// Retransmits what receivers miss, after everything that is due.
    pub(super) fn send_lost(&mut self) {
        while let Some(lost) = self.lane.next_lost(now()) {
            let bytes = self.send_again(&lost);
            self.lane.resent(&lost, bytes, now());
            self.show(lost.place);
        }
        self.act();
    }

    /// Retransmits a packet. Returns its RTP bytes; `None` if the kernel has no room for it.
    fn send_again(&mut self, lost: &Lost) -> Option<u32> {
        let stream = self.lane.stream(lost.place)?;
        let mut batch = self.turn.begin();
        let mut cells = &mut *self.cells.0;
        let bytes = fill_again(stream, (lost.track, lost.at), &mut cells, &mut batch)?;
        batch.send(&self.given.sockets);
        match self.turn.messages().first()?.sent {
            Sent::Packets(packets) => (packets > 0).then_some(bytes),
            // The kernel refused it, so it is lost again.
            Sent::Failed { .. } => Some(bytes),
            Sent::Waiting => None,
        }
    }
}
