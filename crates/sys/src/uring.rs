//! Sends through an io_uring: many messages are handed over, sent and reaped in one system call.
//!
//! A [`Ring`] belongs to the one thread that uses it (`IORING_SETUP_SINGLE_ISSUER`), completes only
//! while that thread waits for it (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1), and knows its sockets by
//! number (registered files). Nothing is under way in it between calls, so that what it sends from
//! need only live for a call.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{IoUring, opcode, squeue, types};

use crate::udp::UdpSocket;

/// A ring over some sockets; the thread that first sends has it for good.
pub struct Ring {
    ring: IoUring,
    sockets: usize,
    enabled: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} sockets)", self.sockets)
    }
}

/// A message to be sent.
pub(crate) struct Submission {
    /// Which of the ring's sockets.
    pub socket: u8,
    pub message: *const libc::msghdr,
    /// Whether the next one is not to be tried unless this one was taken.
    pub linked: bool,
}

impl Ring {
    /// Most messages handed over at once.
    pub(crate) const MOST: usize = 512;

    /// A ring over `sockets`.
    ///
    /// # Errors
    ///
    /// What the kernel said; [`why_not`] puts it in words.
    pub fn new(sockets: &[UdpSocket]) -> io::Result<Ring> {
        let ring = IoUring::builder()
            // Until it is enabled it belongs to no thread.
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .build(Ring::MOST as u32)?;
        let descriptors: Vec<_> = sockets
            .iter()
            .map(|socket| socket.as_fd().as_raw_fd())
            .collect();
        ring.submitter().register_files(&descriptors)?;
        Ok(Ring {
            ring,
            sockets: sockets.len(),
            enabled: false,
        })
    }

    /// Whether rings can be had here: one is made, and used once, by a thread of its own: when a ring goes,
    /// the kernel interrupts the waits of every thread that used it.
    ///
    /// # Errors
    ///
    /// What the kernel said; [`why_not`] puts it in words.
    pub fn probe() -> io::Result<()> {
        std::thread::scope(|scope| scope.spawn(Ring::try_out).join())
            .unwrap_or_else(|_| Err(io::Error::other("the trial panicked")))
    }

    fn try_out() -> io::Result<()> {
        let mut ring = Ring::new(&[UdpSocket::bind(([127, 0, 0, 1], 0).into())?])?;
        ring.enable()?;
        let nothing = opcode::Nop::new().build();
        // SAFETY: an operation that touches no memory.
        unsafe { ring.ring.submission().push(&nothing) }.map_err(io::Error::other)?;
        ring.ring.submit_and_wait(1)?;
        match ring.ring.completion().next() {
            Some(done) if done.result() >= 0 => Ok(()),
            Some(done) => Err(io::Error::from_raw_os_error(-done.result())),
            None => Err(io::Error::other("an operation did not complete")),
        }
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Sends messages, at most [`Ring::MOST`], in their order; `results` takes what `sendmsg` would
    /// return, or a negative `errno`. When this returns the kernel is done with all of them.
    ///
    /// # Errors
    ///
    /// The ring takes nothing: no message was sent, and the ring must not be used again.
    ///
    /// # Safety
    ///
    /// All messages and what they point to must stay as they are through the call.
    pub(crate) unsafe fn send(
        &mut self,
        submissions: impl Iterator<Item = Submission>,
        results: &mut [i32],
    ) -> io::Result<()> {
        self.enable()?;
        let all = results.len();
        let mut submission = self.ring.submission();
        for (number, entry) in submissions.enumerate() {
            let flags = if entry.linked {
                squeue::Flags::IO_LINK
            } else {
                squeue::Flags::empty()
            };
            // Without MSG_DONTWAIT the ring would wait for room instead of telling.
            let send = opcode::SendMsg::new(types::Fixed(entry.socket.into()), entry.message)
                .flags((libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u32)
                .build()
                .flags(flags)
                .user_data(number as u64);
            // SAFETY: what the operation points to lives until it is done, as the caller promises and
            // the loop below waits for.
            unsafe { submission.push(&send) }.map_err(io::Error::other)?;
        }
        drop(submission);
        let (mut taken, mut done) = (0, 0);
        while done < all {
            match self.ring.submit_and_wait(all - done) {
                Ok(count) => taken += count,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                    _ if taken == 0 => return Err(error),
                    // The kernel reads the caller's memory and will not say when it has: going on
                    // would let it read what was freed.
                    _ => {
                        tracing::error!("io_uring failed with sends under way: {error}");
                        std::process::abort();
                    }
                },
            }
            for completion in self.ring.completion() {
                if let Some(result) = results.get_mut(completion.user_data() as usize) {
                    *result = completion.result();
                }
                done += 1;
            }
        }
        Ok(())
    }
}

/// Why there is no ring, in words for whoever runs the machine.
pub fn why_not(error: &io::Error) -> String {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = disabled.as_deref().map_or("0", str::trim);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if disabled != "0" => {
            format!("forbidden by the setting kernel.io_uring_disabled = {disabled}")
        }
        Some(libc::EPERM | libc::EACCES) => {
            "forbidden, as container runtimes do by seccomp".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel has none, or a seccomp filter hides it".to_owned(),
        Some(libc::EINVAL) => "this kernel's is too old (Linux 6.1 is needed)".to_owned(),
        Some(libc::ENOMEM) => "no memory may be locked for it (ulimit -l)".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has `io_uring_setup` fail with `errno` in the calling thread, as a container's seccomp filter does.
    fn forbid_rings(errno: i32) {
        const SETUP: u32 = libc::SYS_io_uring_setup as u32;
        let of = |code: u32, jt, jf, k| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let filter = [
            of(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            of(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SETUP),
            of(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | errno as u32,
            ),
            of(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the filter lives through the call, which copies it; it binds this thread only.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    fn a_filter_that_forbids_rings_is_told_in_words() {
        for (errno, words) in [
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "none"),
            (libc::EINVAL, "too old"),
        ] {
            let said = std::thread::spawn(move || {
                forbid_rings(errno);
                why_not(&Ring::probe().unwrap_err())
            });
            let said = said.join().unwrap();
            assert!(
                said.contains(words) || said.contains("io_uring_disabled"),
                "{said}"
            );
        }
    }
}
