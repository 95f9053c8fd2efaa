//! The main loop: checks the edges, and brings the kernel's table to its desired state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reelway_clock::Monotonic;
use reelway_ipvs::{Table, Target};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::board::Board;
use crate::config::Config;
use crate::failover::{Failover, Sync};
use crate::health::{Event, Health};
use crate::journal::directory;
use crate::marks;
use crate::mtu;
use crate::plan::{self, Change};
use crate::probe::{Check, Through};
use crate::sections::{EdgeConfig, HealthConfig, Page};
use crate::services::{self, Wanted};
use crate::setup::{Setup, renew};
use crate::slow::{self, Pace};
use crate::status::{EdgeSeen, Seen, own_mark};
use crate::steps::{Step, for_director, marks_and_translations};
use crate::taken;
use crate::vrrp;
use crate::ways;
use crate::web::{self, Site};
use crate::weight::{Capacity, Part};

/// Orders to a running director.
#[derive(Debug)]
pub enum Order {
    /// Continue with this configuration, which has been checked.
    Take(Box<Config>),
    /// Stop.
    Stop,
}

/// Directs viewers until the order to stop.
///
/// `steps`: settings of the machine, made at the start and put back at the end. `keep`: everything
/// stays at the end, so that viewers continue during a restart. `orders` waits for the next order.
///
/// # Errors
/// The kernel has no IPVS, the caller may not change it, or a setting cannot be made.
pub async fn run(
    config: Config,
    steps: &[Step],
    keep: bool,
    orders: impl AsyncFnMut() -> Order,
) -> anyhow::Result<()> {
    let table = Table::open()?;
    ways::check(&config)?;
    taken::check(steps).await?;
    let board = Arc::new(Board::default());
    // The page is served until this function returns.
    let mut page = JoinSet::new();
    if let Page(Some(at)) = config.http {
        let listener = web::listen(at).await?;
        page.spawn(web::serve(listener, Site::new(board.clone())?));
    }
    let mut director = Director {
        edges: config
            .edge
            .iter()
            .map(|edge| Edge::new(edge, Health::new()))
            .collect(),
        config,
        table,
        is_set_up: !steps.is_empty(),
        board,
        trouble: None,
    };
    director.remember().context("the kernel's table")?;
    director.check().await;
    director.show();
    // The address is added last and removed first: while it is here, its packets go to edges.
    let name = format!("{:x}", director.config.mark);
    let dir = directory("director", &name).context("a directory in /run")?;
    let begun = director
        .set()
        .context("the kernel's table")
        .and_then(|()| Ok(Setup::make(steps, &dir, keep)?));
    let setup = match begun {
        Ok(setup) => setup,
        Err(error) => {
            // With `keep`, viewers already use the table; otherwise it is removed.
            if !keep {
                let _ = director.clear();
            }
            return Err(error);
        }
    };
    let result = director.share(orders, &dir, keep).await;
    match keep {
        true => setup.leave(),
        false => {
            drop(setup);
            // Another program may have put files there, so this may fail.
            let _ = std::fs::remove_dir(&dir);
            director.clear()?;
        }
    }
    result
}

/// Returns the settings that this machine needs.
///
/// # Errors
/// There is no virtual address, or no route to the edges.
pub fn steps(config: &Config) -> anyhow::Result<Vec<Step>> {
    Ok(for_director(
        config,
        config.virtual_address()?,
        &ways::interface(config)?,
    ))
}

/// Returns keepalived's configuration, if several directors share the address.
///
/// # Errors
/// Those of [`steps`].
pub fn keepalived(config: &Config) -> anyhow::Result<Option<String>> {
    if !config.failover.is_on() {
        return Ok(None);
    }
    let (address, interface) = (config.virtual_address()?, ways::interface(config)?);
    let text = vrrp::configuration(config, address, &interface, Path::new("states"));
    Ok(Some(text))
}

fn edges(count: usize) -> String {
    match count {
        1 => "1 edge".to_owned(),
        count => format!("{count} edges"),
    }
}

/// An edge and its state.
struct Edge {
    config: EdgeConfig,
    health: Health,
    capacity: Option<Capacity>,
    pace: Pace,
    /// The edge's own service is in the table, and this machine has the settings that checks need.
    is_in_table: bool,
}

impl Edge {
    fn new(config: &EdgeConfig, health: Health) -> Edge {
        Edge {
            config: *config,
            health,
            capacity: None,
            pace: Pace::default(),
            is_in_table: false,
        }
    }

    /// Returns the share of its weight that the edge gets, in thousandths.
    fn share(&self, now: Monotonic, config: &HealthConfig) -> u32 {
        self.health.share(now, config) * self.pace.share() / 1000
    }
}

struct Director {
    config: Config,
    table: Table,
    /// Whether this program also manages the firewall's rules.
    is_set_up: bool,
    edges: Vec<Edge>,
    /// Why the table is not in its desired state, if this was logged.
    trouble: Option<String>,
    board: Arc<Board>,
}

impl Director {
    /// Directs until the order to stop; shares the address with other directors, if there are any.
    async fn share(
        &mut self,
        orders: impl AsyncFnMut() -> Order,
        dir: &Path,
        keep: bool,
    ) -> anyhow::Result<()> {
        if !self.config.failover.is_on() {
            return self.direct(orders).await;
        }
        let interface = ways::interface(&self.config)?;
        let table = Table::open()?;
        let sync = Sync::start(&table, &self.config, &interface, dir)?;
        let mut failover = Failover::start(&self.config, &interface, dir, self.board.clone())?;
        let result = tokio::select! {
            result = self.direct(orders) => result,
            () = failover.watch() => Ok(()),
        };
        failover.stop().await;
        if keep {
            sync.leave();
        }
        result
    }

    /// Directs until the order to stop.
    async fn direct(&mut self, mut orders: impl AsyncFnMut() -> Order) -> anyhow::Result<()> {
        info!(
            "{} directs viewers to {} ({}, {})",
            self.config.virtual_address()?,
            edges(self.edges.len()),
            self.config.method,
            self.config.scheduler
        );
        let mut ticks = self.ticks();
        ticks.tick().await;
        loop {
            let mut order = std::pin::pin!(orders());
            let order = loop {
                tokio::select! {
                    order = &mut order => break order,
                    _ = ticks.tick() => self.turn().await,
                }
            };
            match order {
                Order::Take(config) => {
                    if self.take(*config) {
                        ticks = self.ticks();
                        ticks.tick().await;
                        self.turn().await;
                        self.renew_rules();
                        info!(
                            "the configuration has been read again: {}",
                            edges(self.edges.len())
                        );
                    }
                }
                Order::Stop => return Ok(()),
            }
        }
    }

    /// Returns the interval of the checks.
    fn ticks(&self) -> tokio::time::Interval {
        let mut ticks = tokio::time::interval(self.config.every());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    }

    /// Continues with another configuration, if possible, and keeps the state of its edges. Returns
    /// whether it did.
    fn take(&mut self, config: Config) -> bool {
        if let Some(what) = self.config.differs_too_much(&config) {
            warn!("the configuration stays as it is: a change of `{what}` needs a restart");
            return false;
        }
        if let Err(error) = ways::check(&config) {
            warn!("the configuration stays as it is: {error}");
            return false;
        }
        let mut before = std::mem::take(&mut self.edges);
        let taken = config.edge.iter().map(|new| {
            let known = before
                .iter()
                .position(|edge| edge.config.address == new.address);
            let known = known.map_or_else(
                || Edge::new(new, Health::added()),
                |known| before.swap_remove(known),
            );
            Edge {
                config: *new,
                // Its mark may have changed.
                is_in_table: false,
                ..known
            }
        });
        self.edges = taken.collect();
        self.config = config;
        true
    }

    /// Renews the firewall's rules for the current edges.
    fn renew_rules(&self) {
        let Some(address) = self.config.address.filter(|_| self.is_set_up) else {
            return;
        };
        if let Err(error) = renew(&marks_and_translations(&self.config, address)) {
            warn!("the firewall's rules were not changed: {error}");
        }
    }

    async fn turn(&mut self) {
        self.check().await;
        match self.set() {
            Ok(()) => {
                for edge in &mut self.edges {
                    edge.is_in_table = self.is_set_up;
                }
                if self.trouble.take().is_some() {
                    info!("the kernel's table is correct again");
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
        self.show();
    }

    /// Publishes the results on the board.
    fn show(&self) {
        let now = reelway_clock::now();
        let edge = |edge: &Edge| EdgeSeen {
            config: edge.config,
            share: edge.share(now, &self.config.health),
            is_slow: edge.pace.is_slow(),
            trouble: edge.health.trouble().map(str::to_owned),
            capacity: edge.capacity,
        };
        self.board.show(Seen {
            config: self.config.clone(),
            edges: self.edges.iter().map(edge).collect(),
            trouble: self.trouble.clone(),
        });
    }

    /// Returns the check of an edge.
    fn check_of(&self, number: usize, edge: &Edge) -> Check {
        let (config, health) = (&self.config, &self.config.health);
        let through = |address| Through {
            address,
            mark: marks::edge(config.mark, number, edge.config.rtp),
        };
        Check {
            own: config.checked_at(&edge.config),
            through: (config.address)
                .filter(|_| health.through && edge.is_in_table)
                .map(through),
            is_suspect: edge.health.is_suspect(),
            rtsp: health.rtsp,
            path: health.path.clone(),
            within: Duration::from_secs_f64(health.timeout),
        }
    }

    /// Checks all edges at the same time.
    async fn check(&mut self) {
        let mut checks = JoinSet::new();
        for (number, edge) in self.edges.iter().enumerate() {
            let check = self.check_of(number, edge);
            checks.spawn(async move {
                let began = reelway_clock::now();
                let result = check.ask().await;
                (number, result, reelway_clock::now().since(began))
            });
        }
        while let Some(done) = checks.join_next().await {
            let Ok((number, result, took)) = done else {
                continue;
            };
            let Edge {
                config,
                health,
                capacity,
                pace,
                ..
            } = &mut self.edges[number];
            let now = reelway_clock::now();
            let result = result.map(|reported| *capacity = reported);
            if result.is_ok() {
                pace.answered(took);
            }
            match health.checked(result, now, &self.config.health) {
                Some(Event::Up) => {
                    info!("edge {} gets viewers", config.address);
                    mtu::look(config.address, self.config.method);
                }
                Some(Event::Down(why)) => {
                    pace.forget();
                    warn!("edge {} gets no viewers: {why}", config.address);
                }
                None => {}
            }
        }
        self.judge_paces();
    }

    /// Reduces the weight of edges that are much slower than others.
    fn judge_paces(&mut self) {
        let factor = self.config.health.slow;
        if factor == 0.0 {
            self.edges.iter_mut().for_each(|edge| edge.pace.forget());
            return;
        }
        let mut paces: Vec<&mut Pace> = self.edges.iter_mut().map(|edge| &mut edge.pace).collect();
        for change in slow::judge(&mut paces, factor) {
            let address = self.edges[change.edge].config.address;
            let [mean, others] = [change.mean, change.others].map(|time| time.as_millis());
            match change.is_slow {
                true => warn!(
                    "edge {address} gets fewer viewers: its answers take {mean} ms, those of others {others} ms"
                ),
                false => info!("edge {address} is as quick as others again ({mean} ms)"),
            }
        }
    }

    /// Returns the desired services of the table.
    fn wanted(&self) -> anyhow::Result<Vec<Wanted>> {
        let now = reelway_clock::now();
        let parts = self.edges.iter().map(|edge| Part {
            weight: edge.config.weight,
            share: edge.share(now, &self.config.health),
            capacity: edge.capacity.filter(|_| self.config.weigh_by_capacity),
        });
        services::wanted(&self.config, &parts.collect::<Vec<_>>())
    }

    /// Brings the table to its desired state.
    fn set(&self) -> anyhow::Result<()> {
        let wanted = self.wanted()?;
        let present = self.table.services()?;
        for Wanted {
            service,
            destinations,
        } in &wanted
        {
            let target = service.target;
            let state = present.iter().find(|state| state.target == target);
            let there = match state {
                Some(_) => self.table.destinations(&target)?,
                None => Vec::new(),
            };
            let state = state.map(|state| (state, there.as_slice()));
            for change in plan::changes(service, destinations, state) {
                match change {
                    Change::NewService => self.table.add(service)?,
                    Change::OtherService => self.table.change(service)?,
                    Change::Add(one) => self.table.add_destination(&target, &one)?,
                    Change::Set(one) => self.table.change_destination(&target, &one)?,
                    Change::Remove(at) => self.table.remove_destination(&target, at)?,
                }
            }
        }
        // Services of edges that have been removed.
        for state in present {
            let is_wanted = wanted
                .iter()
                .any(|wanted| wanted.service.target == state.target);
            if self.is_ours(&state.target) && !is_wanted {
                self.table.remove(&state.target)?;
            }
        }
        Ok(())
    }

    /// Treats edges that already have viewers as healthy until checks say otherwise, by the table
    /// that a previous director left (`--keep`).
    fn remember(&mut self) -> anyhow::Result<()> {
        let v6 = self.config.virtual_address()?.is_ipv6();
        let mark = self.config.mark;
        let target = Target::Mark { mark, v6 };
        let present = self.table.services()?;
        if !present.iter().any(|state| state.target == target) {
            return Ok(());
        }
        for state in self.table.destinations(&target)? {
            let edges = self.edges.iter_mut();
            let has_viewers = |edge: &&mut Edge| edge.config.address == state.address.ip();
            for edge in edges.filter(|edge| state.weight > 0 && has_viewers(edge)) {
                edge.health = Health::up();
                info!("edge {} has viewers already", edge.config.address);
                mtu::look(edge.config.address, self.config.method);
            }
        }
        Ok(())
    }

    /// Removes all services of this director from the table.
    fn clear(&self) -> anyhow::Result<()> {
        let present = self.table.services()?;
        for state in present.iter().filter(|state| self.is_ours(&state.target)) {
            self.table.remove(&state.target)?;
        }
        Ok(())
    }

    fn is_ours(&self, target: &Target) -> bool {
        own_mark(&self.config, target).is_some()
    }
}
