//! `reelway bench`: one experiment, all of them, or only their summary tables.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use clap::Args;
use reelway_bench::publish;

/// Flags of `reelway bench`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Bench {
    /// Experiment to run, and its arguments (see reelway bench NAME --help)
    #[arg(value_name = "NAME", required_unless_present_any = ["list", "help", "all", "summary"],
        trailing_var_arg = true, allow_hyphen_values = true)]
    experiment: Vec<String>,
    /// List the experiments, with the time that each takes
    #[arg(long)]
    list: bool,
    /// Run every experiment with the arguments of its published pages; requires --markdown
    #[arg(long, conflicts_with_all = ["experiment", "json"], requires = "markdown")]
    all: bool,
    /// With --all: run only these experiments, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "all")]
    only: Vec<String>,
    /// Update the summary tables from the figures kept in DIR, without measuring anything
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiment", "all"])]
    summary: Option<PathBuf>,
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the page, its figures and its charts to DIR, and update the summary tables
    #[arg(long, value_name = "DIR")]
    markdown: Option<PathBuf>,
    /// Print help; with NAME, the help of that experiment
    #[arg(short, long)]
    help: bool,
}

impl Bench {
    /// Does what the flags request; the exit code is 1 if a goal was missed. `cli` is the whole
    /// command line, for the help.
    pub fn run(mut self, mut cli: clap::Command) -> anyhow::Result<ExitCode> {
        self.take_common()?;
        if let Some(dir) = &self.summary {
            reelway_bench::summary::renew(dir)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.all {
            return self.run_all();
        }
        if self.help && self.experiment.is_empty() {
            cli.build();
            if let Some(bench) = cli.find_subcommand_mut("bench") {
                bench.print_help()?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if self.help {
            self.experiment.push("--help".to_owned());
        }
        let Some((name, args)) = self.experiment.split_first().filter(|_| !self.list) else {
            for experiment in reelway_bench::list() {
                println!(
                    "{:<10} about {:>2} min  {}",
                    experiment.name, experiment.minutes, experiment.about
                );
            }
            return Ok(ExitCode::SUCCESS);
        };
        let mut report = reelway_bench::run(name, args)?;
        print!("{report}");
        if let Some(dir) = &self.markdown {
            publish::publish(&mut report, dir)?;
        }
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&report)?;
            std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
        }
        Ok(if report.all_met() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }

    /// Also finds --json and --markdown after the experiment's name: they mean the same before and
    /// after it. All other arguments after the name are the experiment's own.
    fn take_common(&mut self) -> anyhow::Result<()> {
        let mut kept = Vec::new();
        let mut words = std::mem::take(&mut self.experiment).into_iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let target = match flag {
                "--json" => &mut self.json,
                "--markdown" => &mut self.markdown,
                _ => {
                    kept.push(word);
                    continue;
                }
            };
            let value = value.or_else(|| words.next());
            let value = value.with_context(|| format!("{flag} needs a value"))?;
            ensure!(
                target.replace(value.into()).is_none(),
                "{flag} is given twice"
            );
        }
        self.experiment = kept;
        Ok(())
    }

    /// Runs each page's command in a separate process, since experiments pin themselves to cores
    /// and start helpers.
    fn run_all(&self) -> anyhow::Result<ExitCode> {
        let dir = self.markdown.as_ref().context("--all needs --markdown")?;
        let known: Vec<_> = reelway_bench::list().collect();
        for name in &self.only {
            if !known.iter().any(|experiment| experiment.name == name) {
                bail!("--only: there is no experiment '{name}' (see --list)");
            }
        }
        let program = std::env::current_exe()?;
        let mut all_well = true;
        let mut left_out = Vec::new();
        for experiment in known {
            if !self.only.is_empty() && !self.only.iter().any(|name| name == experiment.name) {
                continue;
            }
            for page in experiment.pages {
                eprintln!("{} (about {} min)", page.name, experiment.minutes);
                let before = publish::kept(dir, page.name)?;
                let mut command = Command::new(&program);
                command.args(["bench", experiment.name]).args(page.args);
                let status = command.arg("--markdown").arg(dir).status()?;
                all_well &= status.success();
                // The exit code is the same for a missed goal and for a failure; only the latter
                // leaves no new figures.
                if publish::kept(dir, page.name)? == before {
                    left_out.push(page.name);
                }
            }
        }
        ensure!(
            left_out.is_empty(),
            "could not be measured: {}; their pages are as they were",
            left_out.join(", ")
        );
        Ok(match all_well {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn bench(words: &str) -> Bench {
        let mut bench = Line::parse_from(words.split(' ')).bench;
        bench.take_common().unwrap();
        bench
    }

    #[test]
    fn pages_and_figures_are_written_alike_on_either_side_of_the_name() {
        let before = bench("bench --markdown out --json all.json density --runs 2");
        let after = bench("bench density --runs 2 --markdown out --json=all.json");
        for bench in [before, after] {
            assert_eq!(bench.markdown, Some("out".into()));
            assert_eq!(bench.json, Some("all.json".into()));
            assert_eq!(bench.experiment, ["density", "--runs", "2"]);
        }
    }

    #[test]
    fn a_flag_that_is_given_twice_or_without_a_value_is_refused() {
        for words in ["bench --json a index --json b", "bench index --markdown"] {
            let line = Line::try_parse_from(words.split(' '));
            let is_refused =
                line.is_err() || line.is_ok_and(|mut line| line.bench.take_common().is_err());
            assert!(is_refused, "{words}");
        }
    }

    #[test]
    fn the_arguments_of_every_page_come_to_its_experiment() {
        for experiment in reelway_bench::list() {
            for page in experiment.pages {
                let words = [
                    &["bench", experiment.name],
                    page.args,
                    &["--markdown", "out"],
                ];
                let mut bench = Line::parse_from(words.concat()).bench;
                bench.take_common().unwrap();
                assert!(bench.only.is_empty());
                let own = [&[experiment.name], page.args].concat();
                assert_eq!(bench.experiment, own, "{}", page.name);
            }
        }
        assert!(Line::try_parse_from(["bench", "--list", "--only", "index"]).is_err());
        assert!(Line::try_parse_from(["bench"]).is_err());
    }

    #[test]
    fn all_experiments_need_a_folder_for_their_pages() {
        assert!(Line::try_parse_from(["bench", "--all"]).is_err());
        let all = bench("bench --all --only index,serve --markdown docs/benchmarks");
        assert_eq!(all.only, ["index", "serve"]);
        assert_eq!(all.markdown, Some("docs/benchmarks".into()));
    }
}
