//! The kernel's clock, by `clock_gettime`.

use reelway_sys::tsc;
use reelway_time::{Boot, Monotonic, Real};

use crate::clock::Clock;

/// The kernel's clock: a vDSO call where the machine has one, else a system call.
#[derive(Debug, Default, Clone, Copy)]
pub struct KernelClock;

impl KernelClock {
    /// The kernel's clock; it has no state.
    pub const fn new() -> KernelClock {
        KernelClock
    }
}

impl Clock for KernelClock {
    fn now(&self) -> Monotonic {
        Monotonic::from_nanos(tsc::kernel_nanos(tsc::MONOTONIC))
    }

    fn real(&self) -> Real {
        Real::from_nanos(tsc::kernel_nanos(tsc::REALTIME))
    }

    fn boot(&self) -> Boot {
        Boot::from_nanos(tsc::kernel_nanos(tsc::BOOTTIME))
    }
}
