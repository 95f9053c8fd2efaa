//! The kernel's clock, by `clock_gettime`.

use reelway_sys::tsc;
use reelway_time::{Boot, Monotonic, Real};

/// The kernel's clock: a vDSO call if the machine has one, else a system call.
#[derive(Debug, Default, Clone, Copy)]
pub struct KernelClock;

impl KernelClock {
    /// The kernel's clock; it has no state.
    pub const fn new() -> KernelClock {
        KernelClock
    }

    /// `CLOCK_MONOTONIC`.
    pub fn now(&self) -> Monotonic {
        Monotonic::from_nanos(tsc::kernel_nanos(tsc::MONOTONIC))
    }

    /// `CLOCK_REALTIME`.
    pub fn real(&self) -> Real {
        Real::from_nanos(tsc::kernel_nanos(tsc::REALTIME))
    }

    /// `CLOCK_BOOTTIME`.
    pub fn boot(&self) -> Boot {
        Boot::from_nanos(tsc::kernel_nanos(tsc::BOOTTIME))
    }
}
