//! Reading the counter, and the processor's properties of it.

#[cfg(target_arch = "aarch64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::{asm, x86_64};

/// The counter, read at an unspecified moment around this place in the program: the processor may
/// execute the read before earlier instructions or after later ones. For intervals within one
/// thread.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: `rdtsc` reads a register; `readable` says whether that is permitted.
    unsafe { x86_64::_rdtsc() }
}

/// The counter, read after all earlier instructions are done. Counter values that another thread
/// published and this thread has seen were read before this one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter_ordered() -> u64 {
    counter_ordered_halves().whole()
}

/// Like [`counter_ordered`], in the halves in which the processor returns it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter_ordered_halves() -> Halves {
    let (low, high): (u32, u32);
    // SAFETY: as above. `lfence` waits for all earlier loads (Intel SDM 2B; on AMD the kernel
    // makes it wait, MSR C001_1029), and `rdtsc` does not start before it is done. The block is
    // not `nomem`, so the compiler moves no load or store over it either.
    unsafe {
        asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    Halves { low, high }
}

/// Like [`counter`], in the halves in which the processor returns it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter_halves() -> Halves {
    let (low, high): (u32, u32);
    // SAFETY: as above.
    unsafe {
        asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    Halves { low, high }
}

/// Like [`counter_ordered`], in halves.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter_ordered_halves() -> Halves {
    Halves::from(counter_ordered())
}

/// Like [`counter`], in halves.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter_halves() -> Halves {
    Halves::from(counter())
}

/// A count as x86-64 returns it. Code that needs only the lower half (the difference of two near
/// counts) has it two instructions earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halves {
    /// The lower 32 bits.
    pub low: u32,
    /// The upper 32 bits.
    pub high: u32,
}

impl Halves {
    /// The whole count.
    #[inline(always)]
    pub fn whole(self) -> u64 {
        (u64::from(self.high) << 32) | u64::from(self.low)
    }
}

impl From<u64> for Halves {
    #[inline(always)]
    fn from(count: u64) -> Halves {
        Halves {
            low: count as u32,
            high: (count >> 32) as u32,
        }
    }
}

/// The counter, read at an unspecified moment around this place in the program. For intervals
/// within one thread.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter() -> u64 {
    let count: u64;
    // SAFETY: reads a register that Linux makes accessible to user space.
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// The counter, read after all earlier instructions are done.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn counter_ordered() -> u64 {
    let count: u64;
    // SAFETY: as above; `isb` keeps the read from being executed early (Arm ARM, D13.8.10).
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// Whether this thread may read the counter: `prctl(PR_SET_TSC)` can make `rdtsc` a fault.
pub fn readable() -> bool {
    const PR_GET_TSC: usize = 25;
    const PR_TSC_ENABLE: i32 = 1;
    let mut state: i32 = 0;
    // SAFETY: the kernel writes an int to `state`. AArch64 before Linux 6.12 returns EINVAL: there
    // the counter is always readable.
    let answer = unsafe {
        super::raw::syscall6(
            libc::SYS_prctl,
            [PR_GET_TSC, &raw mut state as usize, 0, 0, 0, 0],
        )
    };
    answer != 0 || state == PR_TSC_ENABLE
}

/// Whether the counter runs at one rate in all power states (x86-64: CPUID 8000_0007, EDX bit 8).
#[cfg(target_arch = "x86_64")]
pub fn invariant() -> bool {
    x86_64::__cpuid(0x8000_0000).eax >= 0x8000_0007
        && x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Whether the counter runs at one rate in all power states: guaranteed by the architecture.
#[cfg(target_arch = "aarch64")]
pub fn invariant() -> bool {
    true
}

/// Whether a hypervisor lies between the kernel and the processor (CPUID 1, ECX bit 31).
#[cfg(target_arch = "x86_64")]
pub fn hypervisor() -> bool {
    x86_64::__cpuid(1).ecx & (1 << 31) != 0
}

/// Whether a hypervisor lies between the kernel and the processor: AArch64 does not report this.
#[cfg(target_arch = "aarch64")]
pub fn hypervisor() -> bool {
    false
}

/// Counts per second, if the processor reports them (CPUID 15h; 4000_0010h under KVM and VMware).
/// Good enough for a plausibility check only: the actual rate is determined by the kernel's clock.
#[cfg(target_arch = "x86_64")]
pub fn frequency_hint() -> Option<u64> {
    let highest = x86_64::__cpuid(0).eax;
    if highest >= 0x15 {
        let leaf = x86_64::__cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
        }
    }
    if hypervisor() && x86_64::__cpuid(0x4000_0000).eax >= 0x4000_0010 {
        let khz = x86_64::__cpuid(0x4000_0010).eax;
        return (khz != 0).then(|| u64::from(khz) * 1000);
    }
    None
}

/// Counts per second (`CNTFRQ_EL0`).
#[cfg(target_arch = "aarch64")]
pub fn frequency_hint() -> Option<u64> {
    let hertz: u64;
    // SAFETY: reads a register that Linux makes accessible to user space.
    unsafe {
        asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags));
    }
    (hertz != 0).then_some(hertz)
}
