//! The papers' experiments and the comparisons with peers, used by `reelway bench` only.
//!
//! The crate has one module per experiment, the format of its [`Report`], and the pages made of it
//! (`publish.rs`, `summary.rs`; texts with placeholders for measured values: `template.rs`). A
//! benchmark is not a test: people run it, and continuous integration never fails because of
//! timing.
#![forbid(unsafe_code)]

mod admission;
mod arguments;
mod bed;
mod beside;
mod cache;
pub mod chart;
mod density;
mod ext3ns;
pub mod film;
mod http;
mod index;
mod lvscache;
mod made;
mod memory;
mod mssc;
mod pages;
pub mod publish;
mod reference;
mod report;
mod serve;
mod stamp;
mod start;
mod stats;
mod streams;
pub mod summary;
mod template;
mod views;
mod vtime;
mod yardstick;

pub use report::{Figure, Kept, Report, Stamp};

/// An experiment: its name, a line about what it measures, and the function that runs it.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<Report>,
    /// Approximate duration of its pages on a machine with two cores, in minutes.
    minutes: u32,
    /// The pages of its results, each with the arguments that produce it.
    pages: &'static [Page],
}

/// A published page of results, and the arguments of its experiment that produce it.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Name of its file, without the extension.
    pub name: &'static str,
    /// Arguments of the experiment.
    pub args: &'static [&'static str],
}

/// All experiments, the shortest and most frequently used first.
const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "index",
        about: "time to index a two-hour film, and size of the index",
        run: index::run,
        minutes: 1,
        pages: &[Page {
            name: "index",
            args: &[],
        }],
    },
    Experiment {
        name: "streams",
        about: "speed of indexing transport and program streams, compared with ffprobe and mediainfo",
        run: streams::run,
        minutes: 4,
        pages: &[Page {
            name: "streams",
            args: &[],
        }],
    },
    Experiment {
        name: "views",
        about: "cost of films that are read through a view, compared with MP4; indexing a 24-hour recording",
        run: views::run,
        minutes: 8,
        pages: &[Page {
            name: "views",
            args: &[],
        }],
    },
    Experiment {
        name: "start",
        about: "time until a film begins over RTSP and HLS, and until it continues after a seek",
        run: start::run,
        minutes: 2,
        pages: &[Page {
            name: "start",
            args: &[],
        }],
    },
    Experiment {
        name: "serve",
        about: "200 viewers over RTSP/UDP on one core, with every packet timed and compared with the film",
        run: serve::run,
        minutes: 5,
        pages: &[Page {
            name: "serve",
            args: &[],
        }],
    },
    Experiment {
        name: "beside",
        about: "lateness of packets to 200 viewers over RTSP/UDP on one core, without and with 2 Gb/s of HTTP \
                traffic",
        run: beside::run,
        minutes: 6,
        pages: &[Page {
            name: "beside",
            args: &[],
        }],
    },
    Experiment {
        name: "memory",
        about: "memory of the process in addition to its pool: 200 viewers of 200 two-hour films, over RTSP and \
                over HLS",
        run: memory::run,
        minutes: 5,
        pages: &[Page {
            name: "memory",
            args: &[],
        }],
    },
    Experiment {
        name: "yardstick",
        about: "virtual viewers on one core: number of 4 Mb/s streams that the yardstick counts and times, and its \
                accuracy",
        run: yardstick::run,
        minutes: 2,
        pages: &[Page {
            name: "yardstick",
            args: &["--per-second", "250", "--seconds", "15"],
        }],
    },
    Experiment {
        name: "mssc",
        about: "the MSSC paper's experiments: ten sessions on an idle and an overloaded machine, film traffic, cost \
                of a packet",
        run: mssc::run,
        minutes: 35,
        pages: &[
            Page {
                name: "mssc",
                args: &[
                    "--only",
                    "films",
                    "--runs",
                    "3",
                    "--seconds",
                    "3",
                    "--streams",
                    "50,500,3000",
                ],
            },
            Page {
                name: "mssc-sessions",
                args: &["--only", "sessions", "--runs", "1"],
            },
        ],
    },
    Experiment {
        name: "density",
        about: "viewers on one core, compared with gst-rtsp-server and VLC: CPU time per stream-second, and maximum \
                number of viewers",
        run: density::run,
        minutes: 12,
        pages: &[Page {
            name: "density",
            args: &[
                "--only",
                "reelway,gst,vlc",
                "--viewers",
                "100",
                "--runs",
                "3",
                "--seconds",
                "5",
                "--minutes",
                "1",
            ],
        }],
    },
    Experiment {
        name: "admission",
        about: "admission to a link of 100 Mbit/s: seven policies with the same arrivals, and the VODCA paper's \
                figure",
        run: admission::run,
        minutes: 40,
        pages: &[Page {
            name: "admission",
            args: &[],
        }],
    },
    Experiment {
        name: "ext3ns",
        about: "the EXT3NS paper's experiment: 10 to 50 threads that read, re-read and read at random; each policy, \
                the page cache and fio",
        run: ext3ns::run,
        minutes: 15,
        pages: &[Page {
            name: "ext3ns",
            args: &["--turns", "2"],
        }],
    },
    Experiment {
        name: "cache",
        about: "misses of each replacement policy, compared with Belady's optimum; the EXT3NS paper's ONS compared \
                with LFU",
        run: cache::run_all,
        minutes: 5,
        pages: &[Page {
            name: "cache",
            args: &[],
        }],
    },
    Experiment {
        name: "http",
        about: "CPU cost of a megabyte over HTTP, from memory and from disk, compared with nginx, Varnish and Squid",
        run: http::run,
        minutes: 12,
        pages: &[
            Page {
                name: "http",
                args: &[
                    "--install",
                    "--rounds",
                    "5",
                    "--seconds",
                    "3",
                    "--tries",
                    "2",
                ],
            },
            Page {
                name: "http-bodies",
                args: &["--bodies", "--rounds", "5", "--seconds", "3"],
            },
            Page {
                name: "http-requests",
                args: &["--requests", "--rounds", "5", "--seconds", "3"],
            },
        ],
    },
    Experiment {
        name: "shadow",
        about: "cost of comparing cache policies on a loaded server",
        run: http::shadow::run,
        minutes: 4,
        pages: &[Page {
            name: "shadow",
            args: &["--rounds", "2", "--tries", "1"],
        }],
    },
    Experiment {
        name: "vtime",
        about: "the vtime paper's table: cost and accuracy of a clock reading, and the resulting savings",
        run: vtime::run,
        minutes: 30,
        pages: &[Page {
            name: "vtime",
            args: &[],
        }],
    },
    Experiment {
        name: "lvscache",
        about: "the LVS-cache paper's experiment: caches behind one virtual address, by forwarding method and \
                scheduler, in the lab",
        run: lvscache::run,
        minutes: 210,
        pages: &[
            Page {
                name: "lvscache",
                args: &["--only", "drawn", "--results", "target/lvscache"],
            },
            Page {
                name: "lvscache-costs",
                args: &["--only", "costs", "--results", "target/lvscache"],
            },
            Page {
                name: "lvscache-films",
                args: &["--only", "films", "--results", "target/lvscache"],
            },
            Page {
                name: "lvscache-schedulers",
                args: &["--only", "schedulers", "--results", "target/lvscache"],
            },
            Page {
                name: "lvscache-seeds",
                args: &["--only", "seeds", "--results", "target/lvscache"],
            },
            Page {
                name: "lvscache-servers",
                args: &["--only", "servers", "--results", "target/lvscache"],
            },
        ],
    },
];

/// An experiment as `reelway bench --list` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Approximate duration of its pages on a machine with two cores, in minutes.
    pub minutes: u32,
    /// The pages of its results.
    pub pages: &'static [Page],
}

/// Returns all experiments.
pub fn list() -> impl Iterator<Item = Listed> {
    EXPERIMENTS.iter().map(|experiment| Listed {
        name: experiment.name,
        about: experiment.about,
        minutes: experiment.minutes,
        pages: experiment.pages,
    })
}

/// Runs an experiment.
///
/// # Errors
/// There is no experiment of this name, its arguments are wrong, or it could not be carried out. A
/// missed goal is not an error: the report shows it.
pub fn run(name: &str, args: &[String]) -> anyhow::Result<Report> {
    let Some(experiment) = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
    else {
        let names: Vec<_> = list().map(|experiment| experiment.name).collect();
        anyhow::bail!(
            "there is no experiment '{name}'; there are: {}",
            names.join(", ")
        );
    };
    let began = reelway_clock::now();
    let mut report = (experiment.run)(args)?;
    report.stamp.seconds = Some(reelway_clock::now().since(began).as_secs_f64().round());
    Ok(report)
}
