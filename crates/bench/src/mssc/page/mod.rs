//! The page of the experiment; every number on it is measured. Its texts are the files beside this
//! one.

use super::args::Args;
use super::paper::{IDEAL, IDLE, OVERLOADED, Table};
use super::results::Results;
use super::task::Way;
use super::{count, film, reel, toy};
use crate::template::{Template, row, rows};

const INTRO: Template<0> = Template::new(include_str!("intro.md"), []);
const SESSIONS: Template<10> = Template::new(
    include_str!("sessions.md"),
    [
        "packets",
        "all",
        "ideal",
        "idle",
        "overloaded",
        "load",
        "ticks",
        "tick",
        "conventional",
        "nice",
    ],
);
const TABLE: Template<5> = Template::new(
    include_str!("table.md"),
    ["place", "state", "conventional", "mssc", "sessions"],
);
const CLAIM: Template<1> = Template::new(include_str!("claim.md"), ["ways"]);
const TRAFFIC: Template<3> =
    Template::new(include_str!("traffic.md"), ["place", "streams", "costs"]);
const WITHOUT_OFFLOAD: Template<1> = Template::new(include_str!("without-offload.md"), ["costs"]);
const CALLS: Template<1> = Template::new(include_str!("calls.md"), ["ways"]);
const PROFILE: Template<3> =
    Template::new(include_str!("profile.md"), ["way", "streams", "symbols"]);
const SWEEP: Template<1> = Template::new(include_str!("sweep.md"), ["tries"]);
const RECEIVED: Template<1> = Template::new(include_str!("received.md"), ["ways"]);
const TABLE_5: Template<1> = Template::new(include_str!("table-5.md"), ["lines"]);
const POOL: Template<2> = Template::new(include_str!("pool.md"), ["cache", "gain"]);

/// Returns lines for the terminal.
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

/// Returns the note after the command.
pub fn note(results: &Results, args: &Args) -> String {
    let look = if args.quick {
        "**A quick look, not figures.** "
    } else {
        ""
    };
    format!("{look}{}", results.disturbance)
}

/// Returns the part of the page below its figures.
pub fn page<'a>(results: &Results, args: &Args, charts: impl Iterator<Item = &'a str>) -> String {
    let (of_sessions, of_films): (Vec<&str>, Vec<&str>) =
        charts.partition(|name| name.starts_with("figure"));
    let shown = |charts: Vec<&str>| -> String {
        let images = charts
            .into_iter()
            .map(|chart| format!("![{chart}](mssc/{chart})\n\n"));
        images.collect()
    };
    let mut out = INTRO.fill([]);
    if !results.sessions.is_empty() {
        out += &sessions(results, args);
        out += &shown(of_sessions);
        out += &CLAIM.fill([rows(
            results.calls.iter().map(|calls| claim(calls, results)),
        )]);
    }
    if let Some(films) = &results.films {
        out += &film_traffic(films);
        out += &shown(of_films);
        if !films.received.is_empty() {
            out += &RECEIVED.fill([rows(films.received.iter().filter_map(received))]);
        }
    }
    out += &TABLE_5.fill([rows(table_5(results))]);
    out + &pool(results)
}

fn sessions(results: &Results, args: &Args) -> String {
    let packets = args.packets;
    let spaces = f64::from(packets.saturating_sub(1));
    let is_ticks = |of: &&toy::Row| of.way == Way::Ticks && !of.overloaded;
    let ticks = results.sessions.iter().find(is_ticks);
    let ticks = ticks.map_or(0.0, |of| of.range().0);
    let conventional = (IDLE.conventional.0 + IDLE.conventional.1) / 2.0;
    SESSIONS.fill([
        packets.to_string(),
        format!("{:.3}", IDEAL / 999.0 * spaces),
        IDEAL.to_string(),
        table(&IDLE, false, &results.sessions),
        table(&OVERLOADED, true, &results.sessions),
        results.load.join("; "),
        format!("{ticks:.2}"),
        format!("{:.1}", ticks * 1e3 / spaces.max(1.0)),
        format!("{conventional:.1}"),
        reelway_sender::SenderConfig::default().nice.to_string(),
    ])
}

fn table(of: &Table, overloaded: bool, sessions: &[toy::Row]) -> String {
    let state = if overloaded { "overloaded" } else { "idle" };
    let shown = sessions.iter().filter(|of| of.overloaded == overloaded);
    let text = TABLE.fill([
        of.place.to_string(),
        state.to_owned(),
        range(of.conventional),
        range(of.mssc),
        rows(shown.map(session)),
    ]);
    text.trim_end().to_owned()
}

fn range((low, high): (f64, f64)) -> String {
    format!("{low:.4} – {high:.4}")
}

fn session(of: &toy::Row) -> String {
    let packets = of.sender.packets.max(1) as f64;
    row([
        of.name().to_string(),
        range(of.range()),
        format!("{:.2}", of.late.p50),
        format!("{:.2}", of.late.p99),
        format!("{:.2}", of.late.p999),
        format!("{:.2}", of.late.max),
        format!("{:.2}", of.sender.late.p999),
        format!("{:.2}", of.sender.cpu_ns as f64 / 1e3 / packets),
        format!(
            "{:.2} + {:.2}",
            of.sender.voluntary as f64 / packets,
            of.sender.involuntary as f64 / packets
        ),
        of.lost.to_string(),
    ])
}

/// Returns how often the processor copies a payload byte, and why; derived, not measured.
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

fn claim(calls: &count::Calls, results: &Results) -> String {
    let mut idle = results.sessions.iter().filter(|of| !of.overloaded);
    let switches = idle.find(|of| of.way == calls.way).map_or(0.0, |of| {
        let switches = of.sender.voluntary + of.sender.involuntary;
        switches as f64 / of.sender.packets.max(1) as f64
    });
    let names: Vec<String> = calls
        .calls
        .iter()
        .map(|(name, count)| format!("{name} {count:.2}"))
        .collect();
    let (copied, why) = copies(&calls.way);
    row([
        calls.way.describe().to_string(),
        format!("{copied} ({why})"),
        format!("{:.2}", calls.total),
        names.join(", "),
        format!("{switches:.2}"),
    ])
}

fn film_traffic(films: &film::Films) -> String {
    let costs = |costs: &[film::Cost]| rows(costs.iter().map(cost));
    let mut out = TRAFFIC.fill([
        films.place.to_string(),
        films.compared.to_string(),
        costs(&films.costs),
    ]);
    if !films.without_offload.is_empty() {
        out += &WITHOUT_OFFLOAD.fill([costs(&films.without_offload)]);
    }
    if !films.calls.is_empty() {
        let ways = films.calls.iter();
        let ways =
            ways.map(|(way, calls)| row([way.describe().to_string(), format!("{calls:.2}")]));
        out += &CALLS.fill([rows(ways)]);
    }
    if !films.profile.is_empty() {
        let symbols = films.profile.iter();
        let symbols =
            symbols.map(|(share, symbol)| row([format!("{share:.1}%"), format!("`{symbol}`")]));
        out += &PROFILE.fill([
            reel::chosen(8).describe().to_string(),
            films.compared.to_string(),
            rows(symbols),
        ]);
    }
    let tries = films.sweep.iter().chain(&films.near_70).chain(&films.tries);
    let tries = tries.map(|of| {
        row([
            of.way.describe().to_string(),
            of.streams.to_string(),
            format!("{:.0}", of.busy() * 100.0),
            format!("{:.3}", of.busy() * 1e3 / f64::from(of.streams)),
            format!("{:.2}", of.sender.late.p50),
            format!("{:.2}", of.sender.late.p99),
            format!("{:.2}", of.sender.late.p999),
            format!("{:.2}", of.sender.late.max),
            of.sender.refused.to_string(),
            of.sender.descriptors.to_string(),
        ])
    });
    out + &SWEEP.fill([rows(tries)])
}

fn cost(of: &film::Cost) -> String {
    let ((low, median, high), (least, times, most)) = (of.ns, of.times_cheaper);
    let calls = of.packets_a_call.map(|packets| format!("{packets:.1}"));
    row([
        of.way.describe().to_string(),
        format!("{median:.0} ({low:.0} – {high:.0})"),
        format!("{times:.2} ({least:.2} – {most:.2})"),
        calls.unwrap_or_default(),
    ])
}

fn received(of: &film::Row) -> Option<String> {
    let seen = of.received.as_ref()?;
    let late = |value: f64| match of.way {
        Way::Relative => String::new(),
        _ => format!("{value:.2}"),
    };
    Some(row([
        of.way.describe().to_string(),
        of.streams.to_string(),
        format!("{:.0}", of.cost()),
        seen.lost.to_string(),
        late(seen.late.p50),
        late(seen.late.p99),
        late(seen.late.p999),
        late(seen.late.max),
        seen.burst_p99.to_string(),
        seen.burst_max.to_string(),
    ]))
}

/// Returns the rows of the paper's Table 5 in numbers.
fn table_5(results: &Results) -> Vec<String> {
    let ways = [Way::Sendfile, Way::Relative, reel::chosen(8)];
    let line = |name: &str, cell: &dyn Fn(&Way) -> String| {
        row(std::iter::once(name.to_owned()).chain(ways.iter().map(cell)))
    };
    let mut lines = vec![line(
        "read/write saving: copies of a payload byte",
        &|way| copies(way).0.to_owned(),
    )];
    if !results.calls.is_empty() {
        let name = "system calls a packet, ten sessions of small packets";
        lines.push(line(name, &|way| {
            // Ways of sleeping differ only in the schedule; the conventional way keeps the paper's.
            let mut counted = results.calls.iter();
            let of_way = counted.find(|calls| same_kind(&calls.way, way));
            of_way.map_or(String::new(), |calls| format!("{:.2}", calls.total))
        }));
    }
    lines.push(line("send buffers", &|way| {
        let buffers = match way {
            Way::Sendfile => "the kernel's, pointing into the page cache",
            Way::Reelway { .. } => {
                "the kernel's; packets are put together out of pinned blocks by one gathering copy"
            }
            _ => "the kernel's, and one of the process",
        };
        buffers.to_owned()
    }));
    if let Some(films) = &results.films {
        let name = "send speed: CPU ns a packet (packets a second and core)";
        lines.push(line(name, &|way| {
            let cost = films.costs.iter().find(|cost| cost.way == *way);
            cost.map_or(String::new(), |cost| {
                format!("{:.0} ({:.0} thousand)", cost.ns.1, 1e6 / cost.ns.1)
            })
        }));
    }
    lines.push(line("RTP in the path", &|way| {
        let place = match way {
            Way::Sendfile => "a call of its own for the header (`MSG_MORE`)",
            Way::Reelway { .. } => {
                "in the sender's thread: a plan made once a film, four fields a viewer"
            }
            _ => "in the process, for each packet",
        };
        place.to_owned()
    }));
    if let Some(films) = &results.films {
        let of = films.film_bytes >> 20;
        let name = format!("memory for film bytes, {of} MiB of films sent");
        lines.push(line(&name, &|way| memory(films, way)));
    }
    if !results.sources.is_empty() {
        lines.push(line("other devices: sources that work", &|way| {
            let mut all = results.sources.iter();
            let sources = all.find(|sources| same_kind(&sources.way, way));
            let sources = sources.into_iter().flat_map(|sources| &sources.sources);
            let works = sources.filter(|source| source.1).map(|source| source.0);
            works.collect::<Vec<_>>().join(", ")
        }));
    }
    lines
}

/// Describes the memory that a way uses for films.
fn memory(films: &film::Films, way: &Way) -> String {
    let is_it = |of: &&film::Memory| {
        same_kind(&of.way, way) || (*way == Way::Sendfile && of.way == Way::Relative)
    };
    match films.memory.iter().find(is_it) {
        None => String::new(),
        Some(memory) if memory.pool == 0 => format!(
            "{} MiB of page cache, as much as is sent, given back when others need it",
            memory.page_cache >> 20
        ),
        Some(memory) => format!(
            "{} MiB of pinned pool, its size whatever is sent; {} MiB of page cache",
            memory.pool >> 20,
            memory.page_cache >> 20
        ),
    }
}

/// Returns the comparison of the pool with the page cache; empty if they were not compared.
fn pool(results: &Results) -> String {
    let costs = results.films.iter().flat_map(|films| &films.costs);
    let of = |way: &Way| {
        let mut costs = costs.clone();
        costs.find(|cost| cost.way == *way).map(|cost| cost.ns.1)
    };
    let (Some(cache), Some(pool)) = (of(&Way::Batched { burst: 8 }), of(&reel::chosen(8))) else {
        return String::new();
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
    POOL.fill([format!("{cache:.0}"), gain])
}

fn same_kind(one: &Way, other: &Way) -> bool {
    match (one, other) {
        (Way::Reelway { backend: one, .. }, Way::Reelway { backend: other, .. }) => one == other,
        (one, other) => one == other,
    }
}

#[cfg(test)]
#[test]
fn the_page_has_its_slots() {
    let faults = [
        INTRO.faults(),
        SESSIONS.faults(),
        TABLE.faults(),
        CLAIM.faults(),
        TRAFFIC.faults(),
        WITHOUT_OFFLOAD.faults(),
        CALLS.faults(),
        PROFILE.faults(),
        SWEEP.faults(),
        RECEIVED.faults(),
        TABLE_5.faults(),
        POOL.faults(),
    ];
    assert_eq!(faults.concat(), [""; 0]);
}
