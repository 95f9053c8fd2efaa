//! Converting kernel results to libc's form.

use std::ffi::c_int;

/// Returns the kernel's result as libc does: 0, or −1 with `errno` set.
#[cold]
pub fn libc_answer(answer: i32) -> c_int {
    if answer < 0 {
        // SAFETY: the calling thread's own `errno`.
        unsafe { *libc::__errno_location() = -answer };
        -1
    } else {
        answer
    }
}
