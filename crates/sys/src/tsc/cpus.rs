//! Pinning a thread to a processor: the counters of all processors are tested against each other
//! before they are trusted.

use super::raw::syscall6;

/// A set of processors.
#[derive(Clone)]
pub struct CpuSet(libc::cpu_set_t);

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl CpuSet {
    /// The processors on which this thread may run; `None` if there are more than 1024.
    pub fn of_this_thread() -> Option<CpuSet> {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        // SAFETY: all zeros is an empty set; the kernel fills it within its size, and returns the
        // number of bytes filled.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let place = &raw mut set as usize;
            let answer = syscall6(libc::SYS_sched_getaffinity, [0, SIZE, place, 0, 0, 0]);
            (answer > 0).then_some(CpuSet(set))
        }
    }

    /// The set of one processor.
    pub fn one(cpu: usize) -> CpuSet {
        // SAFETY: all zeros is an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: within the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        CpuSet(set)
    }

    /// The processors' numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        // SAFETY: within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
    }

    /// Binds this thread to the set; returns false if the kernel refuses.
    pub fn bind_this_thread(&self) -> bool {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        let place = &raw const self.0 as usize;
        // SAFETY: a set with its size.
        unsafe { syscall6(libc::SYS_sched_setaffinity, [0, SIZE, place, 0, 0, 0]) == 0 }
    }
}
