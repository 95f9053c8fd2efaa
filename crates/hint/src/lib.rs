//! Prefetch hints: memory that will be read soon is fetched into the processor's cache
//! in the meantime.
//!
//! A walk through the memory of many viewers waits about a hundred nanoseconds for each cache line,
//! one after another where each line has the address of the next. Requested beforehand, many lines
//! arrive at once. A prefetch never fails and affects only how long the read takes, so pure crates
//! may use it; on processors without it nothing happens.

/// The size of a cache line, bytes.
pub const LINE: usize = 64;

/// Fetches the lines of `value`, but not what it points to.
#[inline]
pub fn value<T>(value: &T) {
    lines(std::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Fetches the first `bytes` of `value`, or all of it if it is shorter.
#[inline]
pub fn head<T>(value: &T, bytes: usize) {
    lines(std::ptr::from_ref(value).cast(), bytes.min(size_of::<T>()));
}

/// Fetches the lines of `values`.
#[inline]
pub fn slice<T>(values: &[T]) {
    lines(values.as_ptr().cast(), size_of_val(values));
}

/// Fetches `bytes`, which only the kernel will read, into the processor's larger caches: the
/// nearest one has no room for the bytes of many packets.
#[inline]
pub fn bulk(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        fetch_far(line.as_ptr());
    }
}

#[inline]
fn lines(first: *const u8, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let within = first as usize % LINE;
    for line in 0..(within + bytes).div_ceil(LINE) {
        fetch(first.wrapping_sub(within).wrapping_add(line * LINE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is only a hint, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_far(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch is only a hint, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn fetch_far(line: *const u8) {
    // SAFETY: a prefetch is only a hint, and faults at no address.
    unsafe {
        std::arch::asm!(
            "prfm pldl2keep, [{line}]",
            line = in(reg) line,
            options(nostack, readonly, preserves_flags)
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn fetch(line: *const u8) {
    // SAFETY: a prefetch is only a hint, and faults at no address.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) line,
            options(nostack, readonly, preserves_flags)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn fetch(_line: *const u8) {}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn fetch_far(_line: *const u8) {}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_fetched_stays_as_it_is_whatever_its_size() {
        let words: Vec<u64> = (0..1000).collect();
        for end in [0, 1, 8, 9, 1000] {
            super::slice(&words[..end]);
        }
        super::bulk(&[7; 129]);
        super::bulk(&[]);
        super::value(&words);
        super::value(&());
        super::head(&[7u8; 300], 1);
        assert!(words.iter().copied().eq(0..1000));
    }
}
