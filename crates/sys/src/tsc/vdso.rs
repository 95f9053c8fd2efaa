//! The kernel's clock functions in the vDSO, found in its symbol table (vdso(7); the kernel's
//! `Documentation/ABI/stable/vdso`: "parse it like any ELF shared object").

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::abi::{REALTIME_COARSE, Timespec, Timeval};
use super::raw;

type ClockGettime = unsafe extern "C" fn(i32, *mut Timespec) -> i32;
type Gettimeofday = unsafe extern "C" fn(*mut Timeval, *mut [i32; 2]) -> i32;
type Time = unsafe extern "C" fn(*mut i64) -> i64;

#[cfg(target_arch = "x86_64")]
const NAMES: [&CStr; 3] = [
    c"__vdso_clock_gettime",
    c"__vdso_gettimeofday",
    c"__vdso_time",
];
// AArch64 has no `time` in the vDSO: libc reads the coarse clock instead.
#[cfg(target_arch = "aarch64")]
const NAMES: [&CStr; 3] = [
    c"__kernel_clock_gettime",
    c"__kernel_gettimeofday",
    c"__kernel_time",
];

/// An address that has not been looked up yet.
const UNKNOWN: usize = 0;
/// Looked up and missing. Never a code address.
const ABSENT: usize = 1;

/// Addresses of the functions in `NAMES`. A forked child maps the vDSO at the same place.
static FOUND: [AtomicUsize; 3] = [const { AtomicUsize::new(UNKNOWN) }; 3];

#[inline]
fn function(index: usize) -> Option<usize> {
    let known = FOUND[index].load(Ordering::Relaxed);
    let address = if known == UNKNOWN {
        look_up(index)
    } else {
        known
    };
    (address != ABSENT).then_some(address)
}

#[cold]
fn look_up(index: usize) -> usize {
    // SAFETY: the address is that of the kernel's own vDSO image, or `None`.
    let address = unsafe { base().and_then(|base| symbol(base, NAMES[index])) }.unwrap_or(ABSENT);
    FOUND[index].store(address, Ordering::Relaxed);
    address
}

/// The address at which the kernel has mapped the vDSO.
fn base() -> Option<usize> {
    // SAFETY: reads the auxiliary vector. glibc sets `errno` if the entry is missing; it is
    // restored, because a caller of libc's clock functions must not see it change.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let base = libc::getauxval(libc::AT_SYSINFO_EHDR) as usize;
        *errno = before;
        (base != 0).then_some(base)
    }
}

/// Whether the kernel's clock can be read through the vDSO. (It may still enter the kernel from
/// there, if the clock source cannot be read from user space.)
pub fn has_vdso() -> bool {
    function(0).is_some()
}

/// `clock_gettime` through the vDSO, or by the system call if there is no vDSO: 0 or `-errno`.
///
/// # Safety
/// `time` must be valid for the write: the vDSO does not check it.
#[inline]
pub unsafe fn vdso_clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    match function(0) {
        // SAFETY: the kernel's function of this signature; the caller guarantees `time`.
        Some(address) => unsafe {
            std::mem::transmute::<usize, ClockGettime>(address)(clock, time)
        },
        // SAFETY: guaranteed by the caller.
        None => unsafe { raw::clock_gettime_into(clock, time) },
    }
}

/// `gettimeofday` through the vDSO, or by the system call if there is no vDSO: 0 or `-errno`.
///
/// # Safety
/// `time` and `zone` must each be null or valid for the write: the vDSO does not check them.
#[inline]
pub unsafe fn vdso_gettimeofday(time: *mut Timeval, zone: *mut [i32; 2]) -> i32 {
    match function(1) {
        // SAFETY: the kernel's function of this signature; the caller guarantees the addresses.
        Some(address) => unsafe { std::mem::transmute::<usize, Gettimeofday>(address)(time, zone) },
        // SAFETY: guaranteed by the caller.
        None => unsafe { raw::gettimeofday_into(time, zone) },
    }
}

/// `time` as in libc: the second of the last tick, which may lag `CLOCK_REALTIME` by a tick.
#[inline]
pub fn vdso_time() -> i64 {
    match function(2) {
        // SAFETY: the kernel's function of this signature; null is allowed.
        Some(address) => unsafe {
            std::mem::transmute::<usize, Time>(address)(std::ptr::null_mut())
        },
        None => kernel_time(REALTIME_COARSE).map_or(0, |time| time.sec),
    }
}

/// The kernel's time; `None` if the kernel does not know the clock.
#[inline]
pub fn kernel_time(clock: i32) -> Option<Timespec> {
    let Some(address) = function(0) else {
        return raw::clock_gettime(clock);
    };
    let mut time = Timespec::default();
    // SAFETY: the kernel's function of this signature, and `time` is ours.
    let answer = unsafe { std::mem::transmute::<usize, ClockGettime>(address)(clock, &mut time) };
    (answer == 0).then_some(time)
}

/// The kernel's time in nanoseconds since the clock's zero; 0 for times before it and for clocks
/// that the kernel does not know.
#[inline]
pub fn kernel_nanos(clock: i32) -> u64 {
    kernel_time(clock).map_or(0, |time| {
        u64::try_from(time.sec).map_or(0, |s| s * 1_000_000_000 + time.nsec as u64)
    })
}

/// The address of a function of the vDSO image at `base`.
///
/// # Safety
/// `base` must be the address of a mapped, relocated ELF64 shared object that stays mapped.
unsafe fn symbol(base: usize, name: &CStr) -> Option<usize> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_HASH: i64 = 4;
    const DT_STRTAB: i64 = 5;
    const DT_SYMTAB: i64 = 6;
    const DT_GNU_HASH: i64 = 0x6fff_fef5;

    // SAFETY: the layout of an ELF64 file (elf(5)), whose presence the caller guarantees.
    unsafe {
        let header = &*(base as *const libc::Elf64_Ehdr);
        if header.e_ident[..5] != *b"\x7fELF\x02" {
            return None;
        }
        let program = (base + header.e_phoff as usize) as *const libc::Elf64_Phdr;
        let program = std::slice::from_raw_parts(program, usize::from(header.e_phnum));
        let load = program.iter().find(|part| part.p_type == PT_LOAD)?;
        // The offset from file addresses to memory addresses.
        let shift = base
            .wrapping_add(load.p_offset as usize)
            .wrapping_sub(load.p_vaddr as usize);
        let dynamic = program.iter().find(|part| part.p_type == PT_DYNAMIC)?;
        let mut entry = (base + dynamic.p_offset as usize) as *const [i64; 2];

        let (mut strings, mut symbols, mut hash, mut gnu_hash) = (None, None, None, None);
        while (*entry)[0] != 0 {
            let [tag, value] = *entry;
            let address = Some(shift.wrapping_add(value as usize));
            match tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                DT_HASH => hash = address,
                DT_GNU_HASH => gnu_hash = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        let (strings, symbols) = (strings?, symbols? as *const libc::Elf64_Sym);
        let count = match (hash, gnu_hash) {
            (Some(hash), _) => *(hash as *const u32).add(1),
            (None, Some(gnu)) => gnu_symbol_count(gnu as *const u32),
            (None, None) => return None,
        };
        (0..count as usize)
            .map(|index| &*symbols.add(index))
            .find_map(|symbol| {
                let here =
                    CStr::from_ptr((strings + symbol.st_name as usize) as *const libc::c_char);
                (symbol.st_shndx != 0 && here == name)
                    .then(|| shift.wrapping_add(symbol.st_value as usize))
            })
    }
}

/// The number of symbols that a GNU hash table covers: one past the end of the last chain.
///
/// # Safety
/// `table` must be the `DT_GNU_HASH` section of a mapped ELF64 object.
unsafe fn gnu_symbol_count(table: *const u32) -> u32 {
    // SAFETY: header (buckets, first symbol, bloom words, shift), bloom filter of 64-bit words,
    // buckets, chains; the last entry of a chain has bit 0 set.
    unsafe {
        let [buckets, first, bloom_words, _] = *(table as *const [u32; 4]);
        let bucket = table.add(4 + 2 * bloom_words as usize);
        let chain = bucket.add(buckets as usize);
        let start = (0..buckets as usize)
            .map(|index| *bucket.add(index))
            .max()
            .unwrap_or(0);
        if start < first {
            return first;
        }
        let mut last = start;
        while *chain.add((last - first) as usize) & 1 == 0 {
            last += 1;
        }
        last + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_is_found_and_tells_the_time() {
        assert!(has_vdso(), "the kernel gives this process a vDSO");
        let before = raw::clock_gettime(crate::tsc::MONOTONIC).unwrap();
        let vdso = kernel_time(crate::tsc::MONOTONIC).unwrap();
        let after = raw::clock_gettime(crate::tsc::MONOTONIC).unwrap();
        let key = |time: Timespec| (time.sec, time.nsec);
        assert!(key(before) <= key(vdso) && key(vdso) <= key(after));
    }

    #[test]
    fn time_is_the_second_of_the_coarse_clock() {
        let before = kernel_time(REALTIME_COARSE).unwrap().sec;
        let time = vdso_time();
        assert!(time == before || time == before + 1);
    }

    #[test]
    fn a_name_that_is_not_there_is_not_found() {
        // SAFETY: the kernel's own image.
        assert_eq!(unsafe { symbol(base().unwrap(), c"__vdso_nothing") }, None);
    }

    #[test]
    fn an_unknown_clock_is_none() {
        assert_eq!(kernel_time(4711), None);
    }
}
