//! The error of the yardstick's own timestamps. During a run, packets are sent to itself, and the
//! kernel's arrival timestamp, on which all judgements are based, is compared with the time of
//! sending.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use crate::histogram::Histogram;
use crate::socket::Inbox;

/// Time between two probes.
const EVERY: Duration = Duration::from_millis(20);

/// A thread that probes.
#[derive(Debug)]
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    errors: Arc<Mutex<Histogram>>,
    thread: JoinHandle<()>,
}

impl Probe {
    /// Starts the thread.
    pub fn start() -> io::Result<Probe> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(EVERY))?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let errors = Arc::new(Mutex::new(Histogram::default()));
        let (stopped, all) = (Arc::clone(&stop), Arc::clone(&errors));
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || {
                let mut inbox = Inbox::new();
                loop {
                    if let (Some(error), Ok(mut all)) = (probe(&socket, &mut inbox), all.lock()) {
                        all.add(error);
                    }
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(EVERY);
                }
            })?;
        Ok(Probe {
            stop,
            errors,
            thread,
        })
    }

    /// Stops the thread and returns the errors.
    pub fn finish(self) -> Histogram {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.errors
            .lock()
            .map_or_else(|_| Histogram::default(), |errors| errors.clone())
    }
}

/// Returns the difference between the kernel's arrival timestamp and the time of sending, including
/// the path through the kernel.
fn probe(socket: &UdpSocket, inbox: &mut Inbox) -> Option<Duration> {
    let before = reelway_clock::real().nanos();
    socket.send(&before.to_be_bytes()).ok()?;
    let received = inbox.receive(socket.as_raw_fd()).ok()?;
    // A late packet of an earlier probe does not count.
    let mine = inbox.datagrams(&received).next() == Some(&before.to_be_bytes());
    mine.then(|| Duration::from_nanos(received.at.abs_diff(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_and_counted() {
        // Even the shortest run has one probe.
        let errors = Probe::start().unwrap().finish();
        assert!(errors.count() > 0);
        // A difference of an hour would mean that the clocks differ.
        assert!(errors.percentile(0.5) < Duration::from_secs(3600));
    }
}
