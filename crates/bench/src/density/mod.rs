//! `reelway bench density`: viewers per core, compared with other servers of stored films.
//!
//! | file | content |
//! |---|---|
//! | `servers.rs`, `gst_server.py` | the servers compared: installation, start |
//! | `films.rs` | the films |
//! | `viewers.rs` | the viewers' process |
//! | `trial.rs`, `search.rs` | one trial; the search for the most viewers per server |
//! | `args.rs`, `measured.rs` | the arguments; the results of a server |
//! | `page/` | the page, its chart and its texts |

mod args;
mod films;
mod measured;
mod page;
pub(crate) mod search;
pub(crate) mod servers;
pub(crate) mod trial;
pub(crate) mod viewers;

use std::time::Duration;

use anyhow::{bail, ensure};

use self::args::Args;
use self::measured::{LATE_MS, Measured};
use self::servers::Peer;
use self::trial::{Stage, Trial};
use crate::arguments::arguments;
use crate::bed::children::is_installed;
use crate::bed::machine::Disturbance;
use crate::bed::{Folder, Net, cores};
use crate::report::{Figure, Report};

/// Attempts at a number of viewers before it counts as too many.
const ATTEMPTS: u32 = 2;

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let mut args: Args = arguments("density", args);
    if let Some(task) = &args.task {
        viewers::work(task)?;
        std::process::exit(0);
    }
    ensure!(
        args.viewers <= args.most,
        "--viewers {} is more than --most {}",
        args.viewers,
        args.most
    );
    if args.quick {
        (args.runs, args.seconds) = (1, args.seconds.min(4.0));
    }
    if args.install {
        servers::install()?;
    }
    if !is_installed("ffmpeg") {
        bail!("ffmpeg makes the films; --install installs it");
    }
    let peers = peers(&args)?;
    let mut report = Report::new("density");
    let disturbance = Disturbance::watch()?;
    let folder = Folder::make("density")?;
    cores::leave_the_servers();
    let length = trial::BEGINNING + args.seconds + 30.0;
    eprintln!("making the films …");
    let films = films::make(folder.path(), length as u32)?;
    let stage = Stage::new(Net::make()?, films, folder.path(), args.seconds);
    let mut all = Vec::new();
    for peer in peers {
        let measured = measure(&args, &stage, peer);
        if let (Peer::Reelway, Some(trouble)) = (&measured.peer, &measured.trouble) {
            bail!("Reelway itself could not be measured: {trouble}");
        }
        all.push(measured);
    }
    judge(&mut report, &all);
    report.title = "Viewers a core, against others".into();
    report.note = page::note(&args, &disturbance.describe()?);
    report.page = page::page(&all, &args, stage.net.describe());
    report.charts = vec![(
        format!("density/{}", page::CHART),
        page::chart(&all, args.viewers),
    )];
    report
        .details
        .insert("servers".into(), serde_json::to_value(&all)?);
    report.text = page::summary(&all);
    Ok(report)
}

fn peers(args: &Args) -> anyhow::Result<Vec<Peer>> {
    let mut all = vec![Peer::Reelway, Peer::GstRtspServer, Peer::Vlc];
    all.extend(args.live555.clone().map(Peer::Live555));
    all.extend(args.mediamtx.clone().map(Peer::MediaMtx));
    let is = |peer: &Peer, only: &str| {
        let name = peer.name().to_lowercase();
        name.starts_with(&only.to_lowercase())
    };
    for only in &args.only {
        ensure!(
            all.iter().any(|peer| is(peer, only)),
            "--only: there is no server '{only}' (live555 and mediamtx need their options)"
        );
    }
    let only = &args.only;
    all.retain(|peer| only.is_empty() || only.iter().any(|name| is(peer, name)));
    Ok(all)
}

/// Measures a server. Errors are recorded in the result, since other servers are still to be
/// measured.
fn measure(args: &Args, stage: &Stage, peer: Peer) -> Measured {
    let mut measured = Measured {
        name: peer.name(),
        version: peer.version(),
        peer,
        received: Vec::new(),
        dropped: Vec::new(),
        search: Vec::new(),
        most: None,
        trouble: None,
    };
    let missing = measured.peer.missing(&stage.net).map(str::to_owned);
    measured.trouble = missing.or_else(|| {
        trials(args, stage, &mut measured)
            .err()
            .map(|error| format!("{error:#}"))
    });
    if let Some(trouble) = &measured.trouble {
        eprintln!("{}: {trouble}", measured.name);
    }
    measured
}

fn trials(args: &Args, stage: &Stage, measured: &mut Measured) -> anyhow::Result<()> {
    let peer = measured.peer.clone();
    for _ in 0..args.runs {
        measured
            .received
            .push(told(&peer, stage.trial(&peer, args.viewers, false)?));
        if stage.net.has_namespaces() {
            measured
                .dropped
                .push(told(&peer, stage.trial(&peer, args.viewers, true)?));
        }
    }
    if args.quick {
        return Ok(());
    }
    let began = reelway_clock::now();
    let time = Duration::from_secs_f64(args.minutes * 60.0);
    let search = &mut measured.search;
    let found = search::largest(
        args.viewers,
        args.most,
        || reelway_clock::now().since(began) < time,
        |viewers| {
            for _ in 0..ATTEMPTS {
                let trial = told(&peer, stage.trial(&peer, viewers, false)?);
                let well = trial.trouble(LATE_MS).is_none();
                search.push(trial);
                if well {
                    return Ok(true);
                }
            }
            Ok(false)
        },
    )?;
    measured.most = Some((found.most, found.too_many));
    Ok(())
}

fn told(peer: &Peer, trial: Trial) -> Trial {
    let sink = if trial.dropped { ", dropped" } else { "" };
    eprintln!(
        "{}, {} viewers{sink}: {:.2} ms a stream-second ({:.2} of it in its process), {}",
        peer.name(),
        trial.viewers,
        trial.cost(),
        trial.process_cost(),
        match (trial.dropped, trial.trouble(LATE_MS)) {
            (true, _) => "unseen".to_owned(),
            (false, None) => format!("keeps up, latest {:.1} ms", trial.seen.late_max_ms),
            (false, Some(trouble)) => trouble,
        }
    );
    trial
}

fn judge(report: &mut Report, all: &[Measured]) {
    let of = |peer: &Peer| all.iter().find(|measured| measured.peer == *peer);
    let (Some(ours), Some(gst)) = (of(&Peer::Reelway), of(&Peer::GstRtspServer)) else {
        return;
    };
    for (name, ours, gst, most) in [
        (
            "cpu_against_gst_received",
            &ours.received,
            &gst.received,
            1.0 / 12.0,
        ),
        (
            "cpu_against_gst_dropped",
            &ours.dropped,
            &gst.dropped,
            1.0 / 25.0,
        ),
    ] {
        let (Some(ours), Some(gst)) = (Measured::cost(ours), Measured::cost(gst)) else {
            continue;
        };
        let mut figure = Figure::at_most(name, ours.median / gst.median, "of its CPU", most);
        figure.must = format!("≤ 1/{:.0}", 1.0 / most);
        report
            .figures
            .push(figure.spread(ours.low / gst.high, ours.high / gst.low));
    }
    if let (Some((ours, _)), Some((gst, _))) = (ours.most, gst.most) {
        // The goal is to carry no fewer viewers than the best of the others.
        let most = all
            .iter()
            .filter(|other| other.peer != Peer::Reelway)
            .filter_map(|other| Some(other.most?.0))
            .max();
        report.figures.push(Figure::at_least(
            "viewers_a_core",
            ours.into(),
            "viewers",
            most.unwrap_or(gst).into(),
        ));
    }
}
