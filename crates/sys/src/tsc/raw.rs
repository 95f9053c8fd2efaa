//! Raw system calls: they bypass libc, and so have no `errno`, no cancellation points and no way
//! back into a preload library.

use std::arch::asm;
use std::ffi::CStr;

use super::abi::{Timespec, Timeval};

/// Makes a system call with up to six arguments; returns the kernel's result, `-errno` on failure.
///
/// # Safety
/// As for the call itself: pointers must be valid for it, or the kernel writes where it should not.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn syscall6(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel's calling convention (syscall(2)): rcx and r11 are overwritten.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Makes a system call with up to six arguments; returns the kernel's result, `-errno` on failure.
///
/// # Safety
/// As for the call itself: pointers must be valid for it, or the kernel writes where it should not.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn syscall6(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel's calling convention (syscall(2)).
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// `clock_gettime` by the system call, never the vDSO: 0 or `-errno`. The kernel checks the address
/// and returns `-EFAULT` (−14) for a bad one.
///
/// # Safety
/// `time` may be any address at which nothing is lost if a `timespec` is written there.
#[inline(never)]
pub unsafe fn clock_gettime_into(clock: i32, time: *mut Timespec) -> i32 {
    // SAFETY: the kernel checks the address; the caller guarantees that it may be overwritten.
    unsafe {
        syscall6(
            libc::SYS_clock_gettime,
            [clock as usize, time as usize, 0, 0, 0, 0],
        ) as i32
    }
}

/// `gettimeofday` by the system call, never the vDSO: 0 or `-errno`; bad addresses as above.
///
/// # Safety
/// `time` and `zone` may be null or any address at which nothing is lost if the kernel's
/// `timeval` or `timezone` is written there.
#[inline(never)]
pub unsafe fn gettimeofday_into(time: *mut Timeval, zone: *mut [i32; 2]) -> i32 {
    // SAFETY: the kernel checks the addresses; the caller guarantees that they may be overwritten.
    unsafe {
        syscall6(
            libc::SYS_gettimeofday,
            [time as usize, zone as usize, 0, 0, 0, 0],
        ) as i32
    }
}

/// The system call for calibration: `None` if the kernel does not know the clock.
pub(super) fn clock_gettime(clock: i32) -> Option<Timespec> {
    let mut time = Timespec::default();
    // SAFETY: `time` is ours.
    (unsafe { clock_gettime_into(clock, &mut time) } == 0).then_some(time)
}

/// Reads the start of a small file (of `/sys` or `/proc`) into `buffer`, without allocating.
pub fn read_small_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    const O_CLOEXEC: usize = libc::O_CLOEXEC as usize;
    // SAFETY: a C string, and a descriptor that is closed below.
    unsafe {
        let file = syscall6(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                O_CLOEXEC,
                0,
                0,
                0,
            ],
        );
        if file < 0 {
            return None;
        }
        let count = syscall6(
            libc::SYS_read,
            [
                file as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
                0,
            ],
        );
        syscall6(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        buffer.get(..usize::try_from(count).ok()?)
    }
}

/// Returns the target of a symbolic link (of `/proc`), without allocating.
pub fn read_link<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: a C string and a buffer with its length.
    let count = unsafe {
        syscall6(
            libc::SYS_readlinkat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
            ],
        )
    };
    buffer.get(..usize::try_from(count).ok()?)
}

/// Writes to standard error in one call, and ignores failure.
pub fn write_stderr(text: &[u8]) {
    // SAFETY: a buffer with its length.
    unsafe {
        syscall6(
            libc::SYS_write,
            [2, text.as_ptr() as usize, text.len(), 0, 0, 0],
        )
    };
}

/// The value of an environment variable, copied into `buffer` and truncated to its length. Does not
/// allocate, but like `getenv` must not run concurrently with a change of the environment: for a
/// program's start.
pub fn environment<'b>(name: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: a C string in; a C string of the environment, or null, out.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value).to_bytes()
    };
    let length = value.len().min(buffer.len());
    buffer[..length].copy_from_slice(&value[..length]);
    Some(&buffer[..length])
}

/// Appends to a file in one call, creating it if necessary, and ignores failure.
pub fn append(path: &CStr, text: &[u8]) {
    const FLAGS: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: a C string, a descriptor that is closed below, and a buffer with its length.
    unsafe {
        let file = syscall6(
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                FLAGS as usize,
                0o644,
                0,
                0,
            ],
        );
        if file >= 0 {
            syscall6(
                libc::SYS_write,
                [file as usize, text.as_ptr() as usize, text.len(), 0, 0, 0],
            );
            syscall6(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        }
    }
}
