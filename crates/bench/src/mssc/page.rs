//! The page of the experiment: every number on it is what the run measured.

use std::fmt::Write;

use super::args::Args;
use super::paper::{IDEAL, IDLE, OVERLOADED, Table};
use super::results::Results;
use super::task::Way;
use super::{count, film, reel, toy};

/// Lines for the terminal.
pub fn summary(results: &Results) -> Vec<String> {
    let mut out = Vec::new();
    for row in &results.sessions {
        let (low, high) = row.range();
        let state = if row.overloaded { "overloaded" } else { "idle" };
        out.push(format!(
            "  {state:<10} {:<44} {low:.4} – {high:.4} s, p99.9 {:.2} ms late, greatest {:.2}, {:.1} µs of CPU a packet",
            row.name(),
            row.late.p999,
            row.late.max,
            row.sender.cpu_ns as f64 / 1e3 / row.sender.packets.max(1) as f64
        ));
    }
    for cost in results.films.iter().flat_map(|films| &films.costs) {
        out.push(format!(
            "  {:<44} {:>6.0} ns a packet, {:.2} times cheaper than read + sendto",
            cost.way.describe(),
            cost.ns.1,
            cost.times_cheaper.1
        ));
    }
    out
}

/// What is said behind the command.
pub fn note(results: &Results, args: &Args) -> String {
    let look = if args.quick {
        "**A quick look, not figures.** "
    } else {
        ""
    };
    format!("{look}{}", results.disturbance)
}

/// What the page shows below its figures.
pub fn page<'a>(results: &Results, args: &Args, charts: impl Iterator<Item = &'a str>) -> String {
    let charts: Vec<&str> = charts.collect();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "The paper: *The Design and Implementation of the Multimedia End-to-End Server I/O System based on Linux* \
         (2001). One system call makes the kernel read a stored stream, build its RTP packets and send them while \
         the application sleeps. Reelway's form of it is one call, `Sender::play`.\n"
    );
    if !results.sessions.is_empty() {
        sessions(&mut out, results, args);
        for chart in charts.iter().filter(|name| name.starts_with("figure")) {
            let _ = writeln!(out, "![{chart}](mssc/{chart})\n");
        }
        claim(&mut out, results);
    }
    if let Some(films) = &results.films {
        film_traffic(&mut out, films);
        for chart in charts.iter().filter(|name| !name.starts_with("figure")) {
            let _ = writeln!(out, "![{chart}](mssc/{chart})\n");
        }
        received(&mut out, films);
    }
    table_5(&mut out, results);
    out
}

fn sessions(out: &mut String, results: &Results, args: &Args) {
    let packets = args.packets;
    let _ = writeln!(
        out,
        "## Ten sessions: the paper's Tables 3 and 4\n\n\
         Ten sessions at once, {packets} packets of 32 bytes each, one every 30 ms, from a file read at its position; \
         server and load on one core, the receiver on the other. Seconds from the first packet to the last, by the \
         kernel's time of arrival. Every packet at its time would be {:.3} s; the paper's sessions had 1000 packets, \
         ideally {IDEAL} s. Lateness is at the receiver, against the session's own schedule: a way that sleeps \
         relative to \"now\" falls further behind with every packet.\n",
        IDEAL / 999.0 * f64::from(packets.saturating_sub(1))
    );
    for (table, overloaded) in [(&IDLE, false), (&OVERLOADED, true)] {
        one_table(out, table, overloaded, &results.sessions);
        if overloaded {
            let _ = writeln!(out, "The load: {}.\n", results.load.join("; "));
        }
    }
    let is_ticks = |row: &&toy::Row| row.way == Way::Ticks && !row.overloaded;
    let ticks = results
        .sessions
        .iter()
        .find(is_ticks)
        .map_or(0.0, |row| row.range().0);
    let _ = writeln!(
        out,
        "Timers of 10 ms, as Linux 2.2 had them, make {ticks:.2} s of {packets} packets on the idle machine, {:.1} ms a \
         packet; the paper's conventional sessions took {:.1} ms. There 30 ms were three ticks and one more, because the \
         running one had begun. So the paper's gain of 12–14% is timer rounding, not copies. Where nothing is said, \
         Reelway's sending threads have the priority that they give themselves (nice {}, where the system lets them), \
         the others that of every process; real-time is `SCHED_FIFO` for the whole process. CPU of Reelway here \
         holds all that its process does in the time, planning and reports included.\n",
        ticks * 1e3 / f64::from(packets.saturating_sub(1).max(1)),
        (IDLE.conventional.0 + IDLE.conventional.1) / 2.0,
        reelway_sender::SenderConfig::default().nice
    );
}

fn one_table(out: &mut String, table: &Table, overloaded: bool, rows: &[toy::Row]) {
    let state = if overloaded { "overloaded" } else { "idle" };
    let range = |(low, high): (f64, f64)| format!("{low:.4} – {high:.4}");
    let _ = writeln!(
        out,
        "### {} ({state})\n\n\
         | | seconds a session | late p50 | p99 | p99.9 | greatest, ms | at the sender p99.9, ms | CPU µs a packet | switches a packet | lost |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n\
         | *paper: conventional* | *{}* | | | | | | | | |\n\
         | *paper: MSSC* | *{}* | | | | | | | | |",
        table.place,
        range(table.conventional),
        range(table.mssc)
    );
    for row in rows.iter().filter(|row| row.overloaded == overloaded) {
        let packets = row.sender.packets.max(1) as f64;
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} + {:.2} | {} |",
            row.name(),
            range(row.range()),
            row.late.p50,
            row.late.p99,
            row.late.p999,
            row.late.max,
            row.sender.late.p999,
            row.sender.cpu_ns as f64 / 1e3 / packets,
            row.sender.voluntary as f64 / packets,
            row.sender.involuntary as f64 / packets,
            row.lost
        );
    }
    out.push_str("\nSwitches: voluntary + involuntary, of all threads.\n\n");
}

/// Copies of a payload byte by the processor, by reasoning.
pub fn copies(way: &Way) -> (&'static str, &'static str) {
    match way {
        Way::Sendfile => (
            "0",
            "pages of the page cache are referred to; the 12 bytes of header are copied",
        ),
        Way::Reelway { .. } => (
            "1",
            "pinned block to packet; the disk writes into the block without the processor, once for all viewers",
        ),
        _ => ("2", "page cache to the process, process to packet"),
    }
}

fn claim(out: &mut String, results: &Results) {
    out.push_str(
        "## The paper's claim, counted\n\n\
         System calls a packet by `strace -c -f`, the difference between runs of two lengths; context switches \
         from the idle runs above; copies of a payload byte by the processor, by reasoning.\n\n\
         | | copies | system calls a packet | of these | switches a packet |\n|---|---:|---:|---|---:|\n",
    );
    for calls in &results.calls {
        let row = results
            .sessions
            .iter()
            .find(|row| !row.overloaded && row.way == calls.way);
        let switches = row.map_or(0.0, |row| {
            (row.sender.voluntary + row.sender.involuntary) as f64
                / row.sender.packets.max(1) as f64
        });
        let names: Vec<String> = calls
            .calls
            .iter()
            .map(|(name, count)| format!("{name} {count:.2}"))
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} ({}) | {:.2} | {} | {switches:.2} |",
            calls.way.describe(),
            copies(&calls.way).0,
            copies(&calls.way).1,
            calls.total,
            names.join(", ")
        );
    }
    out.push('\n');
}

fn film_traffic(out: &mut String, films: &film::Films) {
    let _ = writeln!(
        out,
        "## Film traffic\n\n\
         Streams of 4 Mb/s in packets of 1328 bytes, from {} films at places all over them, through {}; UDP is dropped \
         where it arrives, so that the sender is measured, down to the other end of the cable. CPU is user and \
         system time of the sending process, all threads, on one core. The conventional way gets everything it can \
         use: one thread, films in the page cache, absolute times, slices as Reelway's. A veth takes runs of packets \
         uncut, as a network card that cuts them (UDP segmentation offload) does.\n\n\
         | {} streams | CPU ns a packet | times cheaper than read + sendto | packets a call |\n|---|---:|---:|---:|",
        10, films.place, films.compared
    );
    cost_rows(out, &films.costs);
    if !films.without_offload.is_empty() {
        out.push_str(
            "\nThe same where the device does not cut, so that the kernel does it (`gso_max_segs 1`):\n\n\
             | | CPU ns a packet | times cheaper than read + sendto | packets a call |\n|---|---:|---:|---:|\n",
        );
        cost_rows(out, &films.without_offload);
    }
    if !films.calls.is_empty() {
        out.push_str("\nSystem calls of all threads a stream-second (`perf stat -e raw_syscalls:sys_enter`):\n\n| | calls a stream-second |\n|---|---:|\n");
        for (way, calls) in &films.calls {
            let _ = writeln!(out, "| {} | {calls:.2} |", way.describe());
        }
    }
    if !films.profile.is_empty() {
        let _ = writeln!(
            out,
            "\nWhere the time of {} goes, {} streams (`perf record -e cpu-clock`; [k]: in the kernel, [.]: in the process):\n\n\
             | share | |\n|---:|---|",
            reel::chosen(8).describe(),
            films.compared
        );
        for (share, symbol) in &films.profile {
            let _ = writeln!(out, "| {share:.1}% | `{symbol}` |");
        }
    }
    out.push_str(
        "\n### More and more streams\n\n\
         | | streams | core % | CPU ms a stream-second | late p50 | p99 | p99.9 | greatest, ms | refused | descriptors |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in films.sweep.iter().chain(&films.near_70).chain(&films.tries) {
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} |",
            row.way.describe(),
            row.streams,
            row.busy() * 100.0,
            row.busy() * 1e3 / f64::from(row.streams),
            row.sender.late.p50,
            row.sender.late.p99,
            row.sender.late.p999,
            row.sender.late.max,
            row.sender.refused,
            row.sender.descriptors
        );
    }
    out.push_str("\nLateness by the sender, while it is measured (for Reelway the bound of a class, up to a quarter too large). Behind the sweep stand the most streams that leave 30% of the core free, and then five tries of 3,000.\n\n");
}

fn cost_rows(out: &mut String, costs: &[film::Cost]) {
    for cost in costs {
        let ((low, median, high), (least, times, most)) = (cost.ns, cost.times_cheaper);
        let calls = cost
            .packets_a_call
            .map_or(String::new(), |packets| format!("{packets:.1}"));
        let _ = writeln!(
            out,
            "| {} | {median:.0} ({low:.0} – {high:.0}) | {times:.2} ({least:.2} – {most:.2}) | {calls} |",
            cost.way.describe()
        );
    }
}

fn received(out: &mut String, films: &film::Films) {
    if films.received.is_empty() {
        return;
    }
    out.push_str(
        "### With receivers\n\n\
         Received on the other core through one socket; delivery to it takes the sender's time.\n\n\
         | | streams | CPU ns a packet | lost | frames late p50 | p99 | p99.9 | greatest, ms | packets in a millisecond p99 | most |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in &films.received {
        let Some(seen) = &row.received else { continue };
        let frames = !matches!(row.way, Way::Relative);
        let late = |value: f64| {
            if frames {
                format!("{value:.2}")
            } else {
                String::new()
            }
        };
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {} | {} | {} | {} | {} | {} | {} |",
            row.way.describe(),
            row.streams,
            row.cost(),
            seen.lost,
            late(seen.late.p50),
            late(seen.late.p99),
            late(seen.late.p999),
            late(seen.late.max),
            seen.burst_p99,
            seen.burst_max
        );
    }
    out.push('\n');
}

/// The paper's Table 5 in numbers.
fn table_5(out: &mut String, results: &Results) {
    let ways = [Way::Sendfile, Way::Relative, reel::chosen(8)];
    out.push_str(
        "## Table 5 in numbers\n\n\
         The paper compares MARS, conventional Linux and MSSC in words. Here MARS is stood in for by `sendfile` into \
         UDP, today's way of sending without buffers of the process's own.\n\n\
         | | as MARS | conventional | Reelway |\n|---|---|---|---|\n",
    );
    let row = |out: &mut String, name: &str, cell: &dyn Fn(&Way) -> String| {
        let cells: Vec<String> = ways.iter().map(cell).collect();
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    };
    row(out, "read/write saving: copies of a payload byte", &|way| {
        copies(way).0.to_owned()
    });
    let counted = |way: &Way| -> Option<&count::Calls> {
        // Sleeping differs by the schedule alone: the conventional way keeps the paper's.
        results
            .calls
            .iter()
            .find(|calls| same_kind(&calls.way, way))
    };
    if !results.calls.is_empty() {
        row(
            out,
            "system calls a packet, ten sessions of small packets",
            &|way| counted(way).map_or(String::new(), |calls| format!("{:.2}", calls.total)),
        );
    }
    row(out, "send buffers", &|way| match way {
        Way::Sendfile => "the kernel's, pointing into the page cache".to_owned(),
        Way::Reelway { .. } => {
            "the kernel's; packets are put together out of pinned blocks by one gathering copy"
                .to_owned()
        }
        _ => "the kernel's, and one of the process".to_owned(),
    });
    if let Some(films) = &results.films {
        row(
            out,
            "send speed: CPU ns a packet (packets a second and core)",
            &|way| {
                let cost = films.costs.iter().find(|cost| cost.way == *way);
                cost.map_or(String::new(), |cost| {
                    format!("{:.0} ({:.0} thousand)", cost.ns.1, 1e6 / cost.ns.1)
                })
            },
        );
    }
    row(out, "RTP in the path", &|way| match way {
        Way::Sendfile => "a call of its own for the header (`MSG_MORE`)".to_owned(),
        Way::Reelway { .. } => {
            "in the sender's thread: a plan made once a film, four fields a viewer".to_owned()
        }
        _ => "in the process, for each packet".to_owned(),
    });
    if let Some(films) = &results.films {
        let of = films.film_bytes >> 20;
        row(
            out,
            &format!("memory for film bytes, {of} MiB of films sent"),
            &|way| {
                let memory = films.memory.iter().find(|memory| {
                    same_kind(&memory.way, way)
                        || (*way == Way::Sendfile && memory.way == Way::Relative)
                });
                memory.map_or(String::new(), |memory| match memory.pool {
                    0 => format!(
                        "{} MiB of page cache, as much as is sent, given back when others need it",
                        memory.page_cache >> 20
                    ),
                    pool => format!(
                        "{} MiB of pinned pool, its size whatever is sent; {} MiB of page cache",
                        pool >> 20,
                        memory.page_cache >> 20
                    ),
                })
            },
        );
    }
    if !results.sources.is_empty() {
        row(out, "other devices: sources that work", &|way| {
            let Some(sources) = results
                .sources
                .iter()
                .find(|sources| same_kind(&sources.way, way))
            else {
                return String::new();
            };
            let works: Vec<&str> = sources
                .sources
                .iter()
                .filter(|source| source.1)
                .map(|source| source.0)
                .collect();
            works.join(", ")
        });
    }
    out.push('\n');
    pool(out, results);
}

/// The pool against the page cache, for and against.
fn pool(out: &mut String, results: &Results) {
    let Some(films) = &results.films else { return };
    let of = |way: &Way| {
        films
            .costs
            .iter()
            .find(|cost| cost.way == *way)
            .map(|cost| cost.ns.1)
    };
    let pooled = reel::chosen(8);
    let (Some(cache), Some(pool)) = (of(&Way::Batched { burst: 8 }), of(&pooled)) else {
        return;
    };
    let gain = if pool < cache {
        format!(
            "is {:.0} ns a packet ({:.0}%): the copy into the process",
            cache - pool,
            (cache - pool) / cache * 100.0
        )
    } else {
        format!(
            "does not show in this run: Reelway's packet costs {:.0} ns more, with timetable, plans, pacing of every stream by \
             itself, reports and statistics in it, which that loop over equal slices does not have",
            pool - cache
        )
    };
    let _ = writeln!(
        out,
        "**Where Reelway is nearer to MARS than to the paper.** The paper sends from the ordinary page cache and blames \
         MARS for buffers of its own, which grew until the machine failed. Reelway's pinned pool is such a buffer. StreamKind \
         answers the paper is that it is bounded: its size is given, nothing is allocated beside it, viewers of the same \
         film share blocks, and who finds no room waits. Against a bare loop that sends batches of 8 from the page cache \
         (`pread` and one `sendmsg` that the kernel cuts: {cache:.0} ns a packet) the gain {gain}. StreamKind it costs is that \
         the memory is Reelway's even when nobody watches, and that what cannot be read directly at a position (pipes, \
         devices) is not served.\n"
    );
}

fn same_kind(one: &Way, other: &Way) -> bool {
    match (one, other) {
        (Way::Reelway { backend: one, .. }, Way::Reelway { backend: other, .. }) => one == other,
        (one, other) => one == other,
    }
}
