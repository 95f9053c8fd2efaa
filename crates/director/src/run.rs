//! The loop: edges are checked, and the kernel's table is made as it is to be.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use reelway_ipvs::{Destination, Service, Table};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::config::Config;
use crate::health::{Event, Health};
use crate::plan::{self, Change};
use crate::probe;
use crate::setup::{Setup, run as run_program};
use crate::steps::{Step, for_director};

/// Directs until `stop`.
///
/// `steps`: settings of the machine that are made first, and put back at the end. `keep`: everything stays as it is at the
/// end, so that viewers go on while the director is started anew.
///
/// # Errors
/// The kernel has no IPVS, it may not be changed, or a setting cannot be made.
pub async fn run(
    config: &Config,
    steps: &[Step],
    keep: bool,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let table = Table::open()?;
    let setup = Setup::make(steps)?;
    let service = config.service()?;
    let mut director = Director {
        config,
        table,
        service,
        health: config.edge.iter().map(|_| Health::new()).collect(),
        trouble: None,
    };
    director.check().await;
    director.set().context("the kernel's table")?;
    info!(
        "{} directs viewers to {} edges ({}, {})",
        config.virtual_address()?,
        config.edge.len(),
        config.method,
        config.scheduler
    );
    tokio::pin!(stop);
    let mut ticks = tokio::time::interval(config.every());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = ticks.tick() => director.turn().await,
        }
    }
    match keep {
        true => setup.leave(),
        false => director.table.remove(&service.target)?,
    }
    Ok(())
}

/// What this machine needs.
///
/// # Errors
/// There is no virtual address, or no way to the edges.
pub fn steps(config: &Config) -> anyhow::Result<Vec<Step>> {
    let address = config.virtual_address()?;
    let interface = match config.interface.as_str() {
        "" => interface_to_edges(config)?,
        name => name.to_owned(),
    };
    Ok(for_director(config, address, &interface))
}

/// The interface through which this machine reaches its first edge.
fn interface_to_edges(config: &Config) -> anyhow::Result<String> {
    let edge = config.edge.first().context("no edges")?.address;
    let words = ["ip", "-o", "route", "get", &edge.to_string()].map(str::to_owned);
    let way = run_program(&words, "").map_err(anyhow::Error::msg);
    let way = way.with_context(|| format!("the way to edge {edge}"))?;
    let mut words = way.split_whitespace().skip_while(|word| *word != "dev");
    let name = words.nth(1).map(str::to_owned);
    name.with_context(|| format!("no interface leads to edge {edge}; set `interface`"))
}

struct Director<'a> {
    config: &'a Config,
    table: Table,
    service: Service,
    /// Of each edge.
    health: Vec<Health>,
    /// Why the table could not be made as it is to be, if it was said.
    trouble: Option<String>,
}

impl Director<'_> {
    async fn turn(&mut self) {
        self.check().await;
        match self.set() {
            Ok(()) => {
                if self.trouble.take().is_some() {
                    info!("the kernel's table is as it is to be again");
                }
            }
            Err(error) => {
                let words = error.to_string();
                if self.trouble.as_ref() != Some(&words) {
                    warn!("the kernel's table: {words}");
                }
                self.trouble = Some(words);
            }
        }
    }

    /// Checks all edges, at once.
    async fn check(&mut self) {
        let within = Duration::from_secs_f64(self.config.health.timeout);
        let mut checks = JoinSet::new();
        for (number, edge) in self.config.edge.iter().enumerate() {
            let at = self.config.checked_at(edge);
            checks.spawn(async move { (number, probe::check(at, within).await) });
        }
        while let Some(done) = checks.join_next().await {
            let Ok((number, result)) = done else {
                continue;
            };
            let address = self.config.edge[number].address;
            let now = reelway_clock::now();
            match self.health[number].checked(result, now, &self.config.health) {
                Some(Event::Up) => info!("edge {address} gets viewers"),
                Some(Event::Down(why)) => warn!("edge {address} gets no viewers: {why}"),
                None => {}
            }
        }
    }

    /// The edges that are to be in the table.
    fn destinations(&self) -> Vec<Destination> {
        let now = reelway_clock::now();
        let edges = self.config.edge.iter().zip(&self.health);
        let destination = |(edge, health): (&crate::EdgeConfig, &Health)| {
            let share = health.share(now, &self.config.health);
            (share > 0).then(|| Destination {
                // The port that was asked for.
                address: SocketAddr::new(edge.address, 0),
                method: self.config.method,
                weight: (edge.weight * share / 1000).max(1),
            })
        };
        edges.filter_map(destination).collect()
    }

    /// Makes the table as it is to be.
    fn set(&self) -> anyhow::Result<()> {
        let target = self.service.target;
        let services = self.table.services()?;
        let present = services.iter().find(|service| service.target == target);
        let there = match present {
            Some(_) => self.table.destinations(&target)?,
            None => Vec::new(),
        };
        let present = present.map(|service| (service, there.as_slice()));
        for change in plan::changes(&self.service, &self.destinations(), present) {
            match change {
                Change::NewService => self.table.add(&self.service)?,
                Change::OtherService => self.table.change(&self.service)?,
                Change::Add(one) => self.table.add_destination(&target, &one)?,
                Change::Set(one) => self.table.change_destination(&target, &one)?,
                Change::Remove(at) => self.table.remove_destination(&target, at)?,
            }
        }
        Ok(())
    }
}
