//! `reelway director try`: a whole network for trying the director.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reelway_director::trial::{self, MOST_EDGES, Trial};
use reelway_ipvs::{IpvsError, Method, Scheduler};

use crate::serve::stop_signal;

/// The path of the lab in Reelway's repository: it has a kernel with IPVS.
const LAB: &str = "lab/run";

/// What `reelway director try` takes.
#[derive(Debug, Args)]
pub struct Try {
    /// Films, or directories of films
    #[arg(required = true, value_name = "FILMS")]
    films: Vec<PathBuf>,
    /// Number of edges
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_EDGES)))]
    edges: u8,
    /// How packets reach the edges: direct, ipip, gue:PORT or nat
    #[arg(long, default_value = "direct", value_parser = reelway_director::parse_method)]
    method: Method,
    /// IPVS scheduler that selects the edge of a new viewer: rr, wrr, lc, wlc, lblc, lblcr, dh, sh,
    /// mh, sed or nq
    #[arg(long, default_value = "wlc")]
    scheduler: Scheduler,
    /// Let edges redirect each viewer to the edge that has their film
    #[arg(long)]
    redirect: bool,
    /// Number of concurrent viewers, over RTSP and HLS
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    viewers: u32,
    /// Duration of the trial [default: until it is stopped]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    duration: Option<u64>,
}

impl Try {
    /// Runs the trial, in this kernel or in the lab's.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        for film in &self.films {
            film.metadata()
                .with_context(|| film.display().to_string())?;
        }
        match trial::check() {
            Err(IpvsError::Missing) => return self.in_lab(),
            checked => checked?,
        }
        let trial = Trial {
            films: self.films,
            edges: self.edges,
            method: self.method,
            scheduler: self.scheduler,
            redirect: self.redirect,
            viewers: self.viewers,
            duration: self.duration.map(Duration::from_secs),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("tokio")?;
        let stopped = async {
            // If signals are not available, it continues to its end.
            if stop_signal().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let well = runtime.block_on(trial::run(&trial, stopped))?;
        Ok(match well {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// The same in the lab's guest, whose pages are forwarded to this machine.
    fn in_lab(self) -> anyhow::Result<ExitCode> {
        let missing = IpvsError::Missing;
        if !Path::new(LAB).is_file() {
            bail!(
                "{missing}, or start this in Reelway's repository, where the lab has a kernel with it"
            );
        }
        println!("{missing}. It is tried in the lab's guest, which is slow");
        let mut lab = Command::new(LAB);
        lab.arg("--try")
            .env("REELWAY_BIN", std::env::current_exe()?);
        lab.env("TRY", self.words());
        Err(lab.args(self.films).exec()).context(LAB)
    }

    /// All arguments except the films, as on the command line.
    fn words(&self) -> String {
        let mut words = format!(
            "--edges {} --method {} --scheduler {} --viewers {}",
            self.edges, self.method, self.scheduler, self.viewers
        );
        if self.redirect {
            words += " --redirect";
        }
        if let Some(seconds) = self.duration {
            words += &format!(" --duration {seconds}");
        }
        words
    }
}
