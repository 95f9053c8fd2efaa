//! `reelway check`: what this machine offers, and what Reelway will use.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use bytesize::ByteSize;
use reelway_sender::{Sender, SenderConfig};
use reelway_store::{Store, StoreConfig};
use reelway_sys::extents::Layout;

/// Prints a line for each feature that the machine may offer.
pub fn run(films: &[PathBuf]) -> anyhow::Result<()> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let line = |what: &str, found: String| println!("  {what:<14} {found}");

    println!("Reelway {} on this machine", env!("CARGO_PKG_VERSION"));
    line(
        "kernel",
        format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    line(
        "cores",
        format!("{cores}, one sender thread on each unless sender.threads is set"),
    );
    line("time", reelway_clock::start().to_string());
    line("RTP", rtp());
    line("descriptors", descriptors());
    line("memory", memory(&read("/proc/meminfo")));
    line("locked memory", locked_memory());
    for film in films {
        line(
            "direct I/O",
            format!("{}: {}", film.display(), direct_io(film)),
        );
        line(
            "fragmentation",
            format!("{}: {}", film.display(), fragmentation(film)),
        );
    }
    Ok(())
}

/// How packets are sent: taken from a sender that is created for this, on free ports.
fn rtp() -> String {
    let config = SenderConfig {
        rtp_port: 0,
        rtcp_port: 0,
        threads: 1,
        ..SenderConfig::default()
    };
    let small = StoreConfig {
        pool_bytes: 16 << 20,
        ..StoreConfig::default()
    };
    let sender = Store::new(small)
        .map_err(|error| error.to_string())
        .and_then(|store| Sender::new(config, store).map_err(|error| error.to_string()));
    match sender {
        Ok(sender) => {
            let (backend, why) = sender.backend();
            let ring = match reelway_sys::uring::probe() {
                Ok(()) => "io_uring is available".to_owned(),
                Err(error) => format!("no io_uring: {}", reelway_sys::uring::why_not(&error)),
            };
            format!("backend {backend} ({why}); {ring}")
        }
        Err(error) => format!("cannot be sent: {error}"),
    }
}

fn descriptors() -> String {
    match reelway_sys::limits::raise_descriptors() {
        Ok(limit) => format!("{limit}; each viewer takes one, over UDP for the RTSP connection"),
        Err(error) => format!("the limit cannot be raised: {error}"),
    }
}

fn memory(meminfo: &str) -> String {
    let field = |name: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let kib = |name| ByteSize::kib(field(name)).display().iec().to_string();
    let huge = match field("HugePages_Free") {
        0 => "no huge pages reserved".to_owned(),
        pages => format!("{pages} huge pages free"),
    };
    format!(
        "{} of {} available, {huge}",
        kib("MemAvailable"),
        kib("MemTotal")
    )
}

fn locked_memory() -> String {
    match reelway_sys::limits::locked_memory() {
        u64::MAX => "without limit".to_owned(),
        limit => format!(
            "{} may be locked; a larger pool is used unlocked (raise it: ulimit -l, or LimitMEMLOCK= in a systemd unit)",
            ByteSize(limit).display().iec()
        ),
    }
}

/// Whether films can be read past the page cache: tried with the first file found.
fn direct_io(path: &PathBuf) -> String {
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = if is_file(path) {
        Some(path.clone())
    } else {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return error.to_string(),
        };
        entries.flatten().map(|entry| entry.path()).find(is_file)
    };
    let Some(file) = file else {
        return "no file to test it with".to_owned();
    };
    match reelway_sys::open_direct(&file) {
        Ok(_) => "yes".to_owned(),
        Err(_) => match fs::File::open(&file).and_then(|mut file| file.read(&mut [0])) {
            Ok(_) => "refused; read through the page cache".to_owned(),
            Err(error) => format!("{}: {error}", file.display()),
        },
    }
}

/// How films are laid out on their disk; for a directory, only the films directly in it.
fn fragmentation(path: &PathBuf) -> String {
    const MOST: usize = 10_000;
    const BLOCK: u64 = 256 << 10;
    let files = match fs::read_dir(path) {
        Ok(entries) => {
            let paths = entries.flatten().map(|entry| entry.path());
            paths
                .filter(|path| reelway_catalogue::is_film(path))
                .take(MOST)
                .collect()
        }
        Err(_) => vec![path.clone()],
    };
    let look = |path: &PathBuf| Layout::of(&fs::File::open(path).ok()?, BLOCK).ok();
    let layouts: Vec<Layout> = files.iter().filter_map(look).collect();
    if layouts.is_empty() {
        return match files.is_empty() {
            true => "no films".to_owned(),
            false => "the file system does not report it".to_owned(),
        };
    }
    let sum = |of: fn(&Layout) -> u64| layouts.iter().map(of).sum::<u64>();
    format!(
        "{} of {} films are fragmented into pieces smaller than a read; of all blocks of {} KiB, {} of {} are split",
        layouts.iter().filter(|one| one.is_fragmented()).count(),
        layouts.len(),
        BLOCK >> 10,
        sum(|one| one.split),
        sum(|one| one.blocks)
    )
}
