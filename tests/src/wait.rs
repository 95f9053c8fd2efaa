//! Waiting with a time limit.

use std::time::Duration;

use reelway_clock::Monotonic;

/// A moment by which something must have happened.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Monotonic);

impl Deadline {
    /// The moment `limit` from now.
    pub fn after(limit: Duration) -> Deadline {
        Deadline(reelway_clock::now() + limit)
    }

    /// The time that is left; zero once it is over.
    pub fn left(&self) -> Duration {
        self.0.since(reelway_clock::now())
    }

    /// Whether the moment has passed.
    pub fn over(&self) -> bool {
        self.left().is_zero()
    }
}

/// Calls `ready` every 20 ms until it returns a value or `limit` is over.
pub fn until<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Deadline::after(limit);
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if deadline.over() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number of unread bytes in the sockets at this UDP port over IPv4, as the kernel counts them.
pub fn unread(port: u16) -> u64 {
    unread_of_sockets(port).iter().sum()
}

/// Whether any process has a socket at this UDP port over IPv4. Trying to bind the port would also
/// show it, but might take it from the program for which the test waits.
pub fn has_socket(port: u16) -> bool {
    !unread_of_sockets(port).is_empty()
}

/// The number of unread bytes in each socket at a UDP port.
fn unread_of_sockets(port: u16) -> Vec<u64> {
    let table = std::fs::read_to_string("/proc/net/udp").expect("the kernel's UDP sockets");
    let sockets = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, queues) = (fields.next()?, fields.nth(2)?);
        let (_, at) = local.split_once(':')?;
        let (_, waiting) = queues.split_once(':')?;
        let of_it = u16::from_str_radix(at, 16) == Ok(port);
        of_it.then(|| u64::from_str_radix(waiting, 16).expect("a number"))
    });
    sockets.collect()
}
