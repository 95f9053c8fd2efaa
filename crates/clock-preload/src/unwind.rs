//! The symbols that the standard library needs from `libgcc_s.so`, so that this library does not
//! depend on it.
//!
//! Loading a second library would cost every program more startup time than this library itself,
//! and small containers lack it. The library is built to abort on a panic, so nothing ever unwinds;
//! only the panic message requests a backtrace, and gets an empty one. The names are hidden: the
//! program's own unwinder is not affected.

use std::arch::global_asm;

/// Symbols that are never called, with one instruction that ends the program if they are.
macro_rules! never {
    ($trap:literal: $($name:literal),*) => {
        global_asm!(
            $(concat!(".hidden ", $name), concat!(".globl ", $name), concat!($name, ":"),)*
            $trap,
        );
    };
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".hidden _Unwind_Backtrace",
    ".globl _Unwind_Backtrace",
    "_Unwind_Backtrace:",
    // _URC_END_OF_STACK
    "mov eax, 5",
    "ret",
);
#[cfg(target_arch = "x86_64")]
never!("ud2":
    "_Unwind_GetDataRelBase", "_Unwind_GetIP", "_Unwind_GetIPInfo",
    "_Unwind_GetLanguageSpecificData", "_Unwind_GetRegionStart", "_Unwind_GetTextRelBase",
    "_Unwind_Resume", "_Unwind_SetGR", "_Unwind_SetIP", "_Unwind_RaiseException",
    "_Unwind_DeleteException", "_Unwind_GetCFA", "_Unwind_FindEnclosingFunction");

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".hidden _Unwind_Backtrace",
    ".globl _Unwind_Backtrace",
    "_Unwind_Backtrace:",
    // _URC_END_OF_STACK
    "mov w0, #5",
    "ret",
);
#[cfg(target_arch = "aarch64")]
never!("brk #1":
    "_Unwind_GetDataRelBase", "_Unwind_GetIP", "_Unwind_GetIPInfo",
    "_Unwind_GetLanguageSpecificData", "_Unwind_GetRegionStart", "_Unwind_GetTextRelBase",
    "_Unwind_Resume", "_Unwind_SetGR", "_Unwind_SetIP", "_Unwind_RaiseException",
    "_Unwind_DeleteException", "_Unwind_GetCFA", "_Unwind_FindEnclosingFunction");
