//! Stores that answer EFAULT for any bad address, as the system call does.
//!
//! Asked for by `REELWAY_CLOCK_EFAULT=guard`. Without it, an address in the program's half where
//! nothing is mapped ends the program, as it does with the vDSO. With it, the two words are
//! stored by instructions that a handler of SIGSEGV and SIGBUS knows: a fault there goes on at
//! their end, with the answer. Faults elsewhere go to the program's own handler: `sigaction` and
//! `signal` for these two signals are taken down here, and ours stays in front.
//!
//! Limit: while a thread blocks SIGSEGV, the kernel ends the program at any fault.

use std::arch::global_asm;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, sighandler_t, siginfo_t, ucontext_t};

// The place, and one or two words. 0, or -EFAULT from the handler.
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
    /// glibc's `sigaction` under the name that programs do not use.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    /// glibc's `signal` under the name that programs seldom use.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

/// Stores two words: 0, or `-EFAULT`.
///
/// # Safety
/// Whatever lies at `place` is lost.
pub unsafe fn store(place: *mut u64, words: *const [u64; 2]) -> i32 {
    // SAFETY: the words are the caller's; a fault at the place is answered by the handler.
    unsafe {
        let [first, second] = *words;
        reelway_guard_store(place, first, second)
    }
}

/// Stores one word: 0, or `-EFAULT`.
///
/// # Safety
/// Whatever lies at `place` is lost.
pub unsafe fn store_one(place: *mut u64, word: u64) -> i32 {
    // SAFETY: a fault at the place is answered by the handler.
    unsafe { reelway_guard_store_one(place, word) }
}

/// Whether our handler is in front.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// What the program wants done with SIGSEGV and SIGBUS. Written by `sigaction`, read by the
/// handler, as in the kernel: a program that changes it while it faults gets one or the other.
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicUsize,
    mask: UnsafeCell<libc::sigset_t>,
}

// SAFETY: the mask is only handed back to who sets it, and races as a program's own race would.
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

/// Our handler with the flags and the mask that the program wants for its own.
fn ours(flags: c_int, mask: libc::sigset_t) -> libc::sigaction {
    const KEPT: c_int = libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;
    libc::sigaction {
        sa_sigaction: on_fault as *const () as sighandler_t,
        sa_mask: mask,
        sa_flags: (flags & KEPT) | libc::SA_SIGINFO,
        sa_restorer: None,
    }
}

/// Puts our handler in front. False if that failed.
pub fn install() -> bool {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: an empty mask, and a place for the old action.
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

/// Takes down what the program wants.
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

/// `sigaction(2)`: for SIGSEGV and SIGBUS, with the guard on, what the program wants is kept.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let guarded = wanted(signal).filter(|_| INSTALLED.load(Ordering::Acquire));
    let Some(wanted) = guarded else {
        // SAFETY: as promised.
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
        // SAFETY: as promised; ours is a whole action.
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
        // SAFETY: as promised.
        unsafe { *old = before };
    }
    0
}

/// `signal(2)`, as BSD and glibc have it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: sighandler_t) -> sighandler_t {
    if wanted(number).is_none() || !INSTALLED.load(Ordering::Acquire) {
        // SAFETY: as promised.
        return unsafe { ssignal(number, handler) };
    }
    // SAFETY: whole actions, an empty mask.
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

/// Where the fault came from, and where it goes on.
#[cfg(target_arch = "x86_64")]
fn place_of(context: &mut ucontext_t) -> &mut i64 {
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}

#[cfg(target_arch = "aarch64")]
fn place_of(context: &mut ucontext_t) -> &mut u64 {
    &mut context.uc_mcontext.pc
}

/// The handler in front.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both to a handler with SA_SIGINFO.
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

/// Does with the signal what the program wants.
///
/// # Safety
/// The arguments of a handler, in a handler.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(wanted) = wanted(signal) else { return };
    let handler = wanted.handler.load(Ordering::Acquire);
    let flags = wanted.flags.load(Ordering::Relaxed) as c_int;
    // SAFETY: what the program gave to `sigaction` for this signal.
    unsafe {
        let from_processor = (*info).si_code > 0;
        if handler == libc::SIG_IGN && !from_processor {
            return;
        }
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // As if we had not been here: at its return the fault comes again and ends the
            // program; one that was sent is sent again.
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
