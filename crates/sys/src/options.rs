//! Socket options.

use std::io;
use std::os::fd::AsRawFd;

use crate::check;

/// Sets an option whose value is a plain kernel structure or number.
pub(crate) fn set<T: Copy>(
    socket: impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: `value` is only read, with its size given; the kernel refuses a size that does not
    // fit the option.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(i64::from(result)).map(drop)
}
