//! The library for AArch64: built for the target, and run under QEMU's user emulation, in which
//! `CNTVCT_EL0` counts the host's time and the kernel's clock is the host's.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Preloaded, build_directory, c_source, need};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Where Debian installs the target's libc.
const ROOT: &str = "/usr/aarch64-linux-gnu";

/// Whether Rust's standard library for the target is installed; `scripts/need-tests` gets it from
/// rustup.
fn has_target() -> bool {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("rustc runs");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
    let library = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET);
    library.is_dir()
}

/// The library for the target, built as for a release.
fn library() -> PathBuf {
    need(&["qemu-aarch64", "aarch64-linux-gnu-gcc"]);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--profile", "preload"])
        .args([
            "--package",
            "reelway-clock-preload",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library builds for {TARGET}");
    target
        .join(TARGET)
        .join("preload/libreelway_clock_preload.so")
}

fn program(name: &str) -> PathBuf {
    let program = build_directory().join(name);
    let status = Command::new("aarch64-linux-gnu-gcc")
        .args(["-O2", "-Wall", "-Wno-nonnull", "-pthread", "-o"])
        .arg(&program)
        .arg(c_source(name))
        .arg("-ldl")
        .status()
        .expect("the cross compiler runs");
    assert!(status.success(), "{name}.c compiles");
    program
}

#[test]
fn the_contract_holds_under_emulation_and_the_counter_is_used() {
    if !has_target() {
        return reelway_skip::skipped!("Rust's library for {TARGET} is missing");
    }
    let library = library();
    let preload = format!("LD_PRELOAD={}", library.display());
    let (contract, odd) = (program("contract"), program("odd"));
    for (program, arguments) in [
        (&contract, ["1", ""]),
        (&odd, ["signals", "1"]),
        (&odd, ["threads", "1"]),
        (&odd, ["forks", "1"]),
    ] {
        // The emulated kernel reports the host's clock source, so the counter must be forced.
        let run = Preloaded::new("qemu-aarch64")
            .env("LD_PRELOAD", "")
            .env("REELWAY_CLOCK", "force")
            .args(["-L", ROOT, "-E", &preload])
            .arg(program)
            .args(arguments.iter().filter(|argument| !argument.is_empty()));
        let (_, counts) = run.expect(Duration::from_secs(300));
        assert!(
            counts.of("clock_gettime") > 10_000,
            "{arguments:?}: {counts:?}"
        );
    }
}
