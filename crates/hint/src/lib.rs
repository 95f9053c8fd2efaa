//! Hints to the processor: memory that will be read soon is fetched into its cache while something else is done.
//!
//! A walk through the memory of many viewers waits about a hundred nanoseconds for each cache line, one after the other
//! where a line says where the next one is. Requested beforehand, many lines arrive at once. A prefetch never fails and
//! changes nothing but how long the reading takes, so pure crates may use it; on processors without it nothing happens.

/// Bytes that a processor fetches at a time.
pub const LINE: usize = 64;

/// Fetches the lines in which `value` lies; what it points to is not.
#[inline]
pub fn value<T>(value: &T) {
    lines(std::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Fetches the first `bytes` of `value`, or all of it if it is not as long.
#[inline]
pub fn head<T>(value: &T, bytes: usize) {
    lines(std::ptr::from_ref(value).cast(), bytes.min(size_of::<T>()));
}

/// Fetches the lines in which `values` lie.
#[inline]
pub fn slice<T>(values: &[T]) {
    lines(values.as_ptr().cast(), size_of_val(values));
}

/// Fetches `bytes` that only the kernel will read, into the processor's larger caches: the nearest one has no room
/// for the bytes of many packets.
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
    // SAFETY: a hint, which faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_far(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a hint, which faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn fetch_far(line: *const u8) {
    // SAFETY: a hint, which faults at no address.
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
    // SAFETY: a hint, which faults at no address.
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
