//! Traffic through the director, and the instructions that it takes there, by forwarding method and
//! protocol.

use super::lab::{Run, Setup};
use super::text::{GUEST, table};
use crate::report::{Figure, Report};

const METHODS: [&str; 4] = ["direct", "ipip", "gue:6080", "nat"];
const PROTOCOLS: [&str; 3] = ["udp", "tcp", "hls"];

/// Twelve viewers of a film at the paper's full rate, on links with room for them.
fn setup(method: &str, protocol: &str, offloads: &str) -> Setup {
    Setup::default()
        .with("METHOD", method)
        .with("PROTOCOL", protocol)
        .with("OFFLOADS", offloads)
        .with("SCHEDULER", "wlc")
        // So that a viewer's RTCP reports reach the edge that sends to them.
        .with("PERSISTENCE", 300)
        .with("RATE", "100mbit")
        .with("SHARE", 90)
        .with("KBIT", 690)
        .with("FILM", 60)
        .with("FIRST", 4)
        .with("MORE", 0)
        .with("MOST", 4)
        .with("STEP", 600)
        .with("SECONDS", 60)
        // The director's work without viewers is subtracted; rare health checks keep it small.
        .with("CHECKS", 5)
}

pub fn setups() -> Vec<Setup> {
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        for method in METHODS {
            all.push(setup(method, protocol, "yes"));
        }
        for method in ["direct", "nat"] {
            all.push(setup(method, protocol, "no"));
        }
    }
    all
}

/// Returns a protocol's name for people.
fn name(protocol: &str) -> &'static str {
    match protocol {
        "udp" => "RTSP over UDP",
        "tcp" => "RTSP over TCP",
        _ => "HLS",
    }
}

/// Returns the director's instructions per byte of the film.
fn instructions(run: &Run) -> f64 {
    run.done("director").instructions * 1e6 / run.story.bytes.max(1) as f64
}

pub fn report(runs: &[Run]) -> Report {
    let mut report = Report::new("lvscache-costs");
    report.title = "Caches behind a director: what passes through it".into();
    let find = |method: &str, protocol: &str, offloads: &str| {
        let is = |run: &&Run| run.setup == setup(method, protocol, offloads);
        runs.iter().find(is)
    };
    let share = |run: &Run, bytes: u64| bytes as f64 / run.story.bytes.max(1) as f64;
    let back: f64 = runs
        .iter()
        .filter(|run| run.setup.get("METHOD") != "nat")
        .map(|run| run.back as f64)
        .sum();
    report.figures.push(Figure::at_most(
        "bytes_back_through_it",
        back,
        "bytes from edges to viewers, direct routing and tunnels",
        0.0,
    ));
    for protocol in PROTOCOLS {
        if let Some(run) = find("direct", protocol, "yes") {
            let of_film = 100.0 * share(run, run.forwarded());
            let id = format!("from_viewers_{protocol}");
            report.figures.push(match protocol {
                "udp" => Figure::at_most(&id, of_film, "% of the film's bytes", 0.1),
                _ => Figure::without_goal(&id, of_film, "% of the film's bytes"),
            });
        }
        for offloads in ["yes", "no"] {
            let pair = find("direct", protocol, offloads).zip(find("nat", protocol, offloads));
            let Some((direct, nat)) = pair else { continue };
            let ratio = instructions(direct) / instructions(nat);
            let without = if offloads == "no" {
                "_without_offloads"
            } else {
                ""
            };
            let id = format!("instructions_{protocol}{without}");
            report.figures.push(match protocol {
                "udp" => Figure::at_most(&id, ratio, "of those with NAT", 0.01),
                _ => Figure::without_goal(&id, ratio, "of those with NAT"),
            });
        }
    }
    let rows = runs.iter().map(|run| {
        let offloads = if run.setup.get("OFFLOADS") == "no" {
            "off"
        } else {
            "on"
        };
        vec![
            name(run.setup.get("PROTOCOL")).to_owned(),
            run.setup.get("METHOD").to_owned(),
            offloads.to_owned(),
            format!("{:.2}", 100.0 * share(run, run.forwarded())),
            format!("{:.2}", 100.0 * share(run, run.back)),
            format!("{:.3}", instructions(run)),
            run.unwell().to_string(),
        ]
    });
    let table = table(
        &[
            "protocol",
            "method",
            "offloads",
            "from viewers, % of the film",
            "to viewers, %",
            "instructions a byte of the film",
            "not well",
        ],
        rows,
    );
    report.page = format!(
        "Twelve viewers of a film of 700 kbit/s for a minute, at three caches behind a director (wlc, persistence). *From viewers* is what IPVS \
         has counted, *to viewers* what came from the director at the viewers' router. From the director's instructions, those for checking its caches are \
         subtracted. Without offloads (GSO, TSO, GRO) each packet is a packet everywhere. {GUEST} Links and processors are ten times \
         as large here.\n\n{table}"
    );
    report
}
