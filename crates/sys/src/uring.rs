//! Whether rings (io_uring) are available on this machine.

use std::io;

use io_uring::{IoUring, opcode};

/// Makes a ring and uses it once. This runs on a thread of its own: when a ring is closed, the
/// kernel interrupts the waits of every thread that used it.
///
/// # Errors
///
/// The kernel's error; [`why_not`] describes it.
pub fn probe() -> io::Result<()> {
    std::thread::scope(|scope| scope.spawn(try_out).join())
        .unwrap_or_else(|_| Err(io::Error::other("the trial panicked")))
}

fn try_out() -> io::Result<()> {
    let mut ring = new(1)?;
    let nothing = opcode::Nop::new().build();
    // SAFETY: an operation that touches no memory.
    unsafe { ring.submission().push(&nothing) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    match ring.completion().next() {
        Some(done) if done.result() >= 0 => Ok(()),
        Some(done) => Err(io::Error::from_raw_os_error(-done.result())),
        None => Err(io::Error::other("an operation did not complete")),
    }
}

/// A ring for the calling thread, which completes only while that thread waits for it (Linux 6.1).
pub(crate) fn new(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .build(entries)
}

/// Describes to the operator why no ring is available.
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

    /// Makes `io_uring_setup` fail with `errno` in the calling thread, as a container's seccomp
    /// filter does.
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
                why_not(&probe().unwrap_err())
            });
            let said = said.join().unwrap();
            assert!(
                said.contains(words) || said.contains("io_uring_disabled"),
                "{said}"
            );
        }
    }
}
