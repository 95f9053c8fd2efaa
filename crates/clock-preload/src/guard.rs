//! Stores that return EFAULT for any bad address, as the system call does.
//!
//! Enabled by `REELWAY_CLOCK_EFAULT=guard`. Otherwise, an unmapped address in the program's half
//! ends the program, as it does with the vDSO. With the guard, the words are stored by instructions
//! that a handler of SIGSEGV and SIGBUS knows: after a fault there, it continues at their end, with
//! EFAULT as the result. Faults elsewhere go to the program's own handler: `sigaction` and `signal`
//! for these two signals are recorded here, and our handler stays in front.
//!
//! Limit: while a thread blocks SIGSEGV, the kernel ends the program at any fault.

use std::arch::global_asm;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, sighandler_t, siginfo_t, ucontext_t};

// Arguments: the address, and one or two words. Returns 0, or -EFAULT from the handler.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".hidden reelway_guard_store",
    ".globl reelway_guard_store",
    ".hidden reelway_guard_store_one",
    ".globl reelway_guard_store_one",
    ".hidden reelway_guard_begin",
    ".globl reelway_guard_begin",
    ".hidden reelway_guard_end",
    ".globl reelway_guard_end",
    ".hidden reelway_guard_fault",
    ".globl reelway_guard_fault",
    "reelway_guard_begin:",
    "reelway_guard_store:",
    "mov qword ptr [rdi], rsi",
    "mov qword ptr [rdi + 8], rdx",
    "xor eax, eax",
    "ret",
    "reelway_guard_store_one:",
    "mov qword ptr [rdi], rsi",
    "xor eax, eax",
    "ret",
    "reelway_guard_end:",
    "reelway_guard_fault:",
    "mov eax, -14",
    "ret",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".hidden reelway_guard_store",
    ".globl reelway_guard_store",
    ".hidden reelway_guard_store_one",
    ".globl reelway_guard_store_one",
    ".hidden reelway_guard_begin",
    ".globl reelway_guard_begin",
    ".hidden reelway_guard_end",
    ".globl reelway_guard_end",
    ".hidden reelway_guard_fault",
    ".globl reelway_guard_fault",
    "reelway_guard_begin:",
    "reelway_guard_store:",
    "str x1, [x0]",
    "str x2, [x0, #8]",
    "mov w0, #0",
    "ret",
    "reelway_guard_store_one:",
    "str x1, [x0]",
    "mov w0, #0",
    "ret",
    "reelway_guard_end:",
    "reelway_guard_fault:",
    "mov w0, #-14",
    "ret",
);

unsafe extern "C" {
    fn reelway_guard_store(place: *mut u64, first: u64, second: u64) -> c_int;
    fn reelway_guard_store_one(place: *mut u64, word: u64) -> c_int;
    safe fn reelway_guard_begin();
    safe fn reelway_guard_end();
    safe fn reelway_guard_fault();
    /// glibc's `sigaction` under a name that programs do not use.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    /// glibc's `signal` under a name that programs seldom use.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

/// Stores two words; returns 0 or `-EFAULT`.
///
/// # Safety
/// The memory at `place` is overwritten.
pub unsafe fn store(place: *mut u64, words: *const [u64; 2]) -> i32 {
    // SAFETY: the words are the caller's; the handler deals with a fault at the address.
    unsafe {
        let [first, second] = *words;
        reelway_guard_store(place, first, second)
    }
}

/// Stores one word; returns 0 or `-EFAULT`.
///
/// # Safety
/// The memory at `place` is overwritten.
pub unsafe fn store_one(place: *mut u64, word: u64) -> i32 {
    // SAFETY: the handler deals with a fault at the address.
    unsafe { reelway_guard_store_one(place, word) }
}

/// Whether our handler is in front.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The program's own actions for SIGSEGV and SIGBUS. Written by `sigaction` and read by the
/// handler, as in the kernel: a program that changes its action while it faults gets one or the
/// other.
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicUsize,
    mask: UnsafeCell<libc::sigset_t>,
}

// SAFETY: the mask is only returned to the program that sets it, and its races are the program's
// own.
unsafe impl Sync for Wanted {}

static WANTED: [Wanted; 2] = [const {
    Wanted {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicUsize::new(0),
        // SAFETY: an empty set.
        mask: UnsafeCell::new(unsafe { std::mem::zeroed() }),
    }
}; 2];

fn wanted(signal: c_int) -> Option<&'static Wanted> {
    match signal {
        libc::SIGSEGV => Some(&WANTED[0]),
        libc::SIGBUS => Some(&WANTED[1]),
        _ => None,
    }
}

/// Our handler with the flags and the mask of the program's own.
fn ours(flags: c_int, mask: libc::sigset_t) -> libc::sigaction {
    const KEPT: c_int = libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;
    libc::sigaction {
        sa_sigaction: on_fault as *const () as sighandler_t,
        sa_mask: mask,
        sa_flags: (flags & KEPT) | libc::SA_SIGINFO,
        sa_restorer: None,
    }
}

/// Installs our handler. Returns false if that failed.
pub fn install() -> bool {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: an empty mask, and room for the old action.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if __sigaction(signal, &ours(libc::SA_ONSTACK, old.sa_mask), &mut old) != 0 {
                return false;
            }
            keep(signal, &old);
        }
    }
    INSTALLED.store(true, Ordering::Release);
    true
}

/// Records the program's own action.
fn keep(signal: c_int, action: &libc::sigaction) {
    if let Some(wanted) = wanted(signal) {
        // SAFETY: see `Wanted`.
        unsafe { *wanted.mask.get() = action.sa_mask };
        wanted
            .flags
            .store(action.sa_flags as usize, Ordering::Relaxed);
        wanted.handler.store(action.sa_sigaction, Ordering::Release);
    }
}

/// `sigaction(2)`: while the guard is on, the program's actions for SIGSEGV and SIGBUS are
/// recorded.
///
/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let guarded = wanted(signal).filter(|_| INSTALLED.load(Ordering::Acquire));
    let Some(wanted) = guarded else {
        // SAFETY: guaranteed by the caller.
        return unsafe { __sigaction(signal, new, old) };
    };
    let before = libc::sigaction {
        sa_sigaction: wanted.handler.load(Ordering::Acquire),
        // SAFETY: see `Wanted`.
        sa_mask: unsafe { *wanted.mask.get() },
        sa_flags: wanted.flags.load(Ordering::Relaxed) as c_int,
        sa_restorer: None,
    };
    if !new.is_null() {
        // SAFETY: guaranteed by the caller; ours is a complete action.
        unsafe {
            let new = *new;
            if __sigaction(
                signal,
                &ours(new.sa_flags, new.sa_mask),
                std::ptr::null_mut(),
            ) != 0
            {
                return -1;
            }
            keep(signal, &new);
        }
    }
    if !old.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { *old = before };
    }
    0
}

/// `signal(2)`, with the semantics of BSD and glibc.
///
/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    if wanted(number).is_none() || !INSTALLED.load(Ordering::Acquire) {
        // SAFETY: guaranteed by the caller.
        return unsafe { ssignal(number, handler) };
    }
    // SAFETY: complete actions, an empty mask.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        let mut old: libc::sigaction = std::mem::zeroed();
        match sigaction(number, &new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// The instruction that faulted, and where execution continues.
#[cfg(target_arch = "x86_64")]
fn place_of(context: &mut ucontext_t) -> &mut i64 {
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}

#[cfg(target_arch = "aarch64")]
fn place_of(context: &mut ucontext_t) -> &mut u64 {
    &mut context.uc_mcontext.pc
}

/// Our handler, in front of the program's.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO.
    unsafe {
        let place = place_of(&mut *context.cast::<ucontext_t>());
        let guarded =
            reelway_guard_begin as *const () as usize..reelway_guard_end as *const () as usize;
        // Positive: from the processor, not sent by a program.
        if (*info).si_code > 0 && guarded.contains(&(*place as usize)) {
            *place = reelway_guard_fault as *const () as usize as _;
            return;
        }
        pass_on(signal, info, context);
    }
}

/// Handles the signal by the program's own action.
///
/// # Safety
/// To be called in a handler, with the handler's arguments.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(wanted) = wanted(signal) else { return };
    let handler = wanted.handler.load(Ordering::Acquire);
    let flags = wanted.flags.load(Ordering::Relaxed) as c_int;
    // SAFETY: the action that the program gave to `sigaction` for this signal.
    unsafe {
        let from_processor = (*info).si_code > 0;
        if handler == libc::SIG_IGN && !from_processor {
            return;
        }
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // As if we had not been here: after the return, the fault occurs again and ends the
            // program; a signal that was sent is sent again.
            let default: libc::sigaction = std::mem::zeroed();
            __sigaction(signal, &default, std::ptr::null_mut());
            if !from_processor {
                libc::raise(signal);
            }
            return;
        }
        if flags & libc::SA_RESETHAND != 0 {
            wanted.handler.store(libc::SIG_DFL, Ordering::Release);
        }
        if flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(
                handler,
            )(signal, info, context);
        } else {
            std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal);
        }
    }
}
