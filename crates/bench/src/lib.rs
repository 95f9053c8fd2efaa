//! The papers' experiments and the comparisons with peers, behind `reelway bench`; nowhere else.
//!
//! What lives here: one module an experiment, and the shape of its [`Report`]. A benchmark is no
//! test: it is run by people, and continuous integration never fails on a clock.
#![forbid(unsafe_code)]

mod admission;
mod bed;
mod cache;
pub mod calibrate;
pub mod chart;
mod density;
mod ext3ns;
pub mod film;
mod http;
mod index;
mod memory;
mod mssc;
mod reference;
mod report;
mod serve;
mod server;
mod start;
mod stats;
mod vtime;
mod yardstick;

pub use report::{Figure, Report};

/// An experiment: its name, what it measures, and how it is run with its own arguments.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<Report>,
}

/// Every experiment there is.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "index",
        about: "how long it takes to learn a two-hour film, and how large its index is",
        run: index::run,
    },
    Experiment {
        name: "start",
        about: "how soon a film begins over RTSP and HLS, and goes on after a seek",
        run: start::run,
    },
    Experiment {
        name: "serve",
        about: "200 viewers over RTSP/UDP on one core, every packet timed and compared",
        run: serve::run,
    },
    Experiment {
        name: "mssc",
        about: "the MSSC paper again: ten sessions idle and overloaded, film traffic, what a packet costs",
        run: mssc::run,
    },
    Experiment {
        name: "density",
        about: "viewers a core, against gst-rtsp-server, VLC and others: CPU a stream-second, the most that are kept up with",
        run: density::run,
    },
    Experiment {
        name: "admission",
        about: "who is let in to a link of 100 Mbit/s: seven policies on the same arrivals, and the VODCA paper's figure",
        run: admission::run,
    },
    Experiment {
        name: "ext3ns",
        about: "the EXT3NS paper again: 10 to 50 threads read, re-read and read at random; each policy, page cache, fio",
        run: ext3ns::run,
    },
    Experiment {
        name: "cache",
        about: "what each replacement policy misses beside Belady's optimum; the EXT3NS paper's ONS against LFU",
        run: cache::run_all,
    },
    Experiment {
        name: "http",
        about: "what a megabyte over HTTP costs a core, from memory and from disk, against nginx, Varnish and Squid",
        run: http::run,
    },
    Experiment {
        name: "shadow",
        about: "what it costs a loaded server to find out what other cache policies would have had of its requests",
        run: http::shadow::run,
    },
    Experiment {
        name: "memory",
        about: "what the process holds beside its pool: 200 viewers of 200 two-hour films, over RTSP and over HLS",
        run: memory::run,
    },
    Experiment {
        name: "vtime",
        about: "the vtime paper's table again: what a reading of the clock costs, how right it is, what it saves",
        run: vtime::run,
    },
    Experiment {
        name: "yardstick",
        about: "virtual viewers a core: how many streams of 4 Mb/s the yardstick counts and times, and how well",
        run: yardstick::run,
    },
];

/// What an experiment was told; wrong usage ends the process as everywhere.
fn arguments<A: clap::Parser>(name: &str, args: &[String]) -> A {
    let name = format!("reelway bench {name}");
    A::try_parse_from(std::iter::once(&name).chain(args)).unwrap_or_else(|error| error.exit())
}

/// Names of all experiments with a line on each.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS
        .iter()
        .map(|experiment| (experiment.name, experiment.about))
}

/// Runs an experiment.
///
/// # Errors
/// There is none of that name, its arguments are wrong, or it could not be carried out. A goal
/// that was missed is no error: the report says so.
pub fn run(name: &str, args: &[String]) -> anyhow::Result<Report> {
    let Some(experiment) = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
    else {
        let names: Vec<_> = list().map(|(name, _)| name).collect();
        anyhow::bail!(
            "there is no experiment '{name}'; there are: {}",
            names.join(", ")
        );
    };
    (experiment.run)(args)
}
