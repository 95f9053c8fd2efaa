//! The functions that set the clocks: passed on to libc, after which the clock reads the kernel's
//! again at once. (A change by another program is noticed within a millisecond.)

use std::ffi::CStr;

use libc::{c_int, c_void, clockid_t, timespec, timeval, timex, timezone};
use reelway_clock::process;
use reelway_sys::tsc::Timespec;

/// libc's function with this name; null if there is none.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a C string. Searches the libraries after this one.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Defines a function that passes its arguments on to libc's function of the same name.
macro_rules! passed_on {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for libc's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            const NAME: &CStr = match CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes()
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            let function = next(NAME);
            if function.is_null() {
                return crate::errno::libc_answer(-libc::ENOSYS);
            }
            // SAFETY: libc's function of this name has this signature.
            let function = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(
                    function,
                )
            };
            // SAFETY: guaranteed by the caller.
            let answer = unsafe { function($($argument),*) };
            process::real_was_set();
            answer
        }
    };
}

passed_on! {
    /// `clock_settime(2)`.
    clock_settime(clock: clockid_t, time: *const timespec)
}
passed_on! {
    /// `settimeofday(2)`.
    settimeofday(time: *const timeval, zone: *const timezone)
}
passed_on! {
    /// `adjtimex(2)`, which can step the time (`ADJ_SETOFFSET`).
    adjtimex(change: *mut timex)
}
passed_on! {
    /// `clock_adjtime(2)`.
    clock_adjtime(clock: clockid_t, change: *mut timex)
}
passed_on! {
    /// `ntp_adjtime(3)`.
    ntp_adjtime(change: *mut timex)
}

/// libc's `timespec_get`, for bases that this library does not know.
pub fn next_timespec_get(place: *mut Timespec, base: c_int) -> c_int {
    let function = next(c"timespec_get");
    if function.is_null() {
        return 0;
    }
    // SAFETY: libc's function of this name has this signature; its caller guarantees the address.
    unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Timespec, c_int) -> c_int>(
            function,
        )(place, base)
    }
}
