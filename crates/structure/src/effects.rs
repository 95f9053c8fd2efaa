//! Uses of the machine: which code outside tests reads its clock, sleeps, starts threads, takes
//! locks, or has channels or sockets; and how often tests sleep.
//!
//! Code counts if it names such a thing, through any import: it is enough that a file says `Mutex`.
//! Code that calls a one-line function that names such a thing counts too.

use std::collections::BTreeMap;

use crate::collect::{Mention, Role};
use crate::resolve::Target;
use crate::tree::Tree;

/// A kind of use of the machine.
#[derive(Debug)]
pub struct EffectKind {
    /// Its name, and that of its list in `lists/`.
    pub name: &'static str,
    /// The paths that name it: these, and all below them.
    paths: &'static [&'static str],
}

/// The kinds that have a list of their own.
pub const KINDS: &[EffectKind] = &[
    EffectKind {
        name: "clock",
        paths: &[
            "std::time::Instant::now",
            "std::time::Instant::elapsed",
            "std::time::SystemTime::now",
            "std::time::SystemTime::elapsed",
            "tokio::time::Instant::now",
            "tokio::time::Instant::elapsed",
            "libc::clock_gettime",
            "libc::gettimeofday",
            "reelway_clock::KernelClock",
            "reelway_clock::boot",
            "reelway_clock::coarse",
            "reelway_clock::now",
            "reelway_clock::now_unordered",
            "reelway_clock::now_with_error",
            "reelway_clock::process",
            "reelway_clock::reactor",
            "reelway_clock::real",
            "reelway_clock::turn",
            "reelway_sys::time",
            "reelway_sys::tsc",
        ],
    },
    SLEEP,
    EffectKind {
        name: "thread",
        paths: &[
            "std::thread::Builder",
            "std::thread::scope",
            "std::thread::spawn",
            "tokio::main",
            "tokio::runtime",
            "tokio::spawn",
            "tokio::task::JoinSet",
            "tokio::task::spawn",
            "tokio::task::spawn_blocking",
            "tokio::task::spawn_local",
            "reelway_supervise::keep",
            "reelway_supervise::run",
            "reelway_supervise::thread",
        ],
    },
    EffectKind {
        name: "lock",
        paths: &[
            "std::sync::Barrier",
            "std::sync::Condvar",
            "std::sync::Mutex",
            "std::sync::MutexGuard",
            "std::sync::RwLock",
            "tokio::sync::Barrier",
            "tokio::sync::Mutex",
            "tokio::sync::RwLock",
            "tokio::sync::Semaphore",
            "reelway_supervise::essential",
            "reelway_supervise::lock",
            "reelway_supervise::reset",
            "reelway_supervise::whole",
        ],
    },
    EffectKind {
        name: "channel",
        paths: &[
            "crossbeam_channel",
            "std::sync::mpsc",
            "tokio::sync::Notify",
            "tokio::sync::broadcast",
            "tokio::sync::mpsc",
            "tokio::sync::oneshot",
            "tokio::sync::watch",
        ],
    },
    EffectKind {
        name: "socket",
        paths: &[
            "axum::serve",
            "hyper",
            "hyper_util",
            "libc::recvmsg",
            "libc::sendmsg",
            "libc::socket",
            "neli",
            "object_store",
            "reqwest",
            "socket2",
            "std::net::TcpListener",
            "std::net::TcpStream",
            "std::net::ToSocketAddrs",
            "std::net::UdpSocket",
            "std::os::unix::net",
            "tokio::net",
            "reelway_sys::netlink",
            "reelway_sys::tcp",
            "reelway_sys::udp",
            "reelway_sys::uring",
        ],
    },
];

const SLEEP: EffectKind = EffectKind {
    name: "sleep",
    paths: &[
        "std::thread::park",
        "std::thread::park_timeout",
        "std::thread::sleep",
        "std::thread::sleep_ms",
        "std::thread::sleep_until",
        "tokio::time::interval",
        "tokio::time::interval_at",
        "tokio::time::sleep",
        "tokio::time::sleep_until",
        "tokio::time::timeout",
        "tokio::time::timeout_at",
        "libc::clock_nanosleep",
        "libc::nanosleep",
        "libc::usleep",
        "reelway_sys::wake",
    ],
};

/// Sleeps that do not count in a test: they wait until something happens, and some limit how long.
const UNTIL_EVENT: &[&str] = &[
    "std::thread::park",
    "tokio::time::timeout",
    "tokio::time::timeout_at",
    "reelway_sys::wake",
];

/// Further uses that are forbidden in pure crates. There is no list of them, as they are fine
/// elsewhere.
pub const NEVER_PURE: EffectKind = EffectKind {
    name: "files, processes and random numbers",
    paths: &[
        "std::env",
        "std::fs",
        "std::io::stdin",
        "std::process",
        "tokio",
        "getrandom",
        "rand",
        "libc",
        "reelway_sys",
    ],
};

/// Tables whose order differs between processes. The few pure crates that name them are on a list.
pub const UNORDERED: EffectKind = EffectKind {
    name: "unordered",
    paths: &[
        "std::collections::HashMap",
        "std::collections::HashSet",
        "std::collections::hash_map",
        "std::collections::hash_set",
        "std::hash::DefaultHasher",
        "std::hash::RandomState",
        "hashbrown",
    ],
};

/// Calls that count as sleeps in a test if they are in a loop, which then polls.
const POLLS: &[&str] = &[
    "std::hint::spin_loop",
    "std::thread::yield_now",
    "tokio::task::yield_now",
];

/// The files whose code outside tests uses the machine in this way, each with the first line that
/// does and the path that it names.
pub fn uses(tree: &Tree, kind: &EffectKind) -> BTreeMap<String, (usize, String)> {
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (module, mention) in mentions(tree) {
        if mention.test || !names(tree, module, mention, kind.paths) {
            continue;
        }
        let path = tree.files[tree.modules[module].file].path.clone();
        let place = (mention.line, mention.path.to_string());
        let kept = found.entry(path).or_insert_with(|| place.clone());
        *kept = place.min(kept.clone());
    }
    found
}

/// How often the test code of each file sleeps: calls that sleep, and calls in loops that poll.
pub fn sleeps(tree: &Tree) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (module, mention) in mentions(tree) {
        let is_call = matches!(mention.role, Role::Code | Role::Macro);
        if !mention.test || !is_call {
            continue;
        }
        let is = |paths| names(tree, module, mention, paths);
        if is(SLEEP.paths) && !is(UNTIL_EVENT) || mention.in_loop && is(POLLS) {
            let path = tree.files[tree.modules[module].file].path.clone();
            *found.entry(path).or_default() += 1;
        }
    }
    found
}

fn mentions(tree: &Tree) -> impl Iterator<Item = (usize, &Mention)> {
    let modules = tree.modules.iter().enumerate();
    modules.flat_map(|(number, module)| module.mentions.iter().map(move |it| (number, it)))
}

/// Whether the path may mean one of these, or something below one.
fn names(tree: &Tree, module: usize, mention: &Mention, paths: &[&str]) -> bool {
    let targets = tree.resolve(module, &mention.path, mention.role, mention.test);
    targets.iter().any(|target| {
        let path = match target {
            Target::Outside(path) => path,
            // A re-export of such a function is not a call.
            Target::Behind(path) if mention.role == Role::Code => path,
            _ => return false,
        };
        let path = path.join("::");
        // `core` contains a part of `std`.
        let path = path.replacen("core::", "std::", usize::from(path.starts_with("core::")));
        paths
            .iter()
            .any(|of| is_below(&path, of) || mention.role == Role::Glob && is_below(of, &path))
    })
}

/// Whether `path` is `of` or below it.
fn is_below(path: &str, of: &str) -> bool {
    path.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
