//! The kernel's clock numbers and time structures.

/// The kernel's number of `CLOCK_REALTIME`.
pub const REALTIME: i32 = 0;
/// The kernel's number of `CLOCK_MONOTONIC`.
pub const MONOTONIC: i32 = 1;
/// The kernel's number of `CLOCK_MONOTONIC_RAW`.
pub const MONOTONIC_RAW: i32 = 4;
/// The kernel's number of `CLOCK_REALTIME_COARSE`.
pub const REALTIME_COARSE: i32 = 5;
/// The kernel's number of `CLOCK_MONOTONIC_COARSE`.
pub const MONOTONIC_COARSE: i32 = 6;
/// The kernel's number of `CLOCK_BOOTTIME`.
pub const BOOTTIME: i32 = 7;

/// `struct timespec` of a 64-bit Linux, as the kernel writes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timespec {
    /// Seconds since the clock's zero.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: i64,
}

/// `struct timeval` of a 64-bit Linux.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeval {
    /// Seconds since the clock's zero.
    pub sec: i64,
    /// Microseconds, 0 to 999,999.
    pub usec: i64,
}
