//! The contents of the director's page and metrics. Pure: all data is passed in.

use std::net::IpAddr;

use reelway_ipvs::{Counters, ServiceState, State as Destination, Target};
use serde::Serialize;

use crate::config::Config;
use crate::forecast::{Booked, Known, Without, without};
use crate::marks;
use crate::report::{FilmReport, Report};
use crate::sections::EdgeConfig;
use crate::vrrp::State;
use crate::weight::Capacity;

/// What a director knows from its own checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub config: Config,
    /// In the order of the configuration.
    pub edges: Vec<EdgeSeen>,
    /// Why the kernel's table is not in its desired state.
    pub trouble: Option<String>,
}

/// The state of an edge according to its checks.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSeen {
    pub config: EdgeConfig,
    /// Share of its weight that it gets, in thousandths; 0: it gets no viewers.
    pub share: u32,
    /// Whether its answers take much longer than those of others.
    pub is_slow: bool,
    /// Why it gets no viewers.
    pub trouble: Option<String>,
    pub capacity: Option<Capacity>,
}

/// A service of the kernel's table with its destinations.
pub(crate) type Entry = (ServiceState, Vec<Destination>);

/// The answer to `GET /api/director`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    address: Option<IpAddr>,
    method: String,
    scheduler: &'static str,
    films: Option<Films>,
    /// `None` if there is only one director.
    failover: Option<State>,
    trouble: Option<String>,
    edges: Vec<EdgeStatus>,
    services: Vec<ServiceStatus>,
}

#[derive(Debug, Serialize)]
struct Films {
    addresses: String,
    scheduler: &'static str,
}

#[derive(Debug, Serialize)]
struct EdgeStatus {
    address: IpAddr,
    /// Address of its own pages.
    url: String,
    state: &'static str,
    trouble: Option<String>,
    /// The configured weight.
    weight: u32,
    capacity: Option<Capacity>,
    /// `None` if it does not answer or is not a Reelway.
    report: Option<EdgeReport>,
    /// Forecast of its failure; `None` if there is no report from it.
    without: Option<Without>,
}

#[derive(Debug, Serialize)]
struct EdgeReport {
    name: String,
    sessions: u64,
    /// Bits per second over RTP.
    rate: f64,
    /// Bytes since the start: of films to viewers, from origins and from siblings.
    sent: u64,
    from_origins: u64,
    from_siblings: u64,
    /// Share of requested blocks that were in memory; `None` if none were requested.
    hit_ratio: Option<f64>,
    films: Vec<FilmStatus>,
}

#[derive(Debug, Serialize)]
struct FilmStatus {
    title: String,
    /// Bytes in memory.
    held: u64,
    size: u64,
    viewers: usize,
}

#[derive(Debug, Serialize)]
struct ServiceStatus {
    mark: u32,
    /// Description of the packets that it takes.
    of: String,
    scheduler: String,
    /// Seconds for which a viewer stays with an edge; `None`: no persistence.
    persistence: Option<u32>,
    #[serde(flatten)]
    counted: Counted,
    destinations: Vec<DestinationStatus>,
}

#[derive(Debug, Serialize)]
struct DestinationStatus {
    address: IpAddr,
    weight: u32,
    active: u32,
    inactive: u32,
    persistent: u32,
    #[serde(flatten)]
    counted: Counted,
}

/// Traffic since the service was made.
#[derive(Debug, Serialize)]
struct Counted {
    connections: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl From<&Counters> for Counted {
    fn from(counters: &Counters) -> Counted {
        Counted {
            connections: counters.connections,
            bytes_in: counters.bytes_in,
            bytes_out: counters.bytes_out,
        }
    }
}

impl EdgeSeen {
    fn state(&self) -> &'static str {
        match (self.share, self.config.weight) {
            (0, _) => "down",
            (_, 0) => "drained",
            _ if self.is_slow => "slow",
            (1000, _) => "up",
            _ => "returning",
        }
    }

    fn known(&self, report: Option<&Report>) -> Known {
        let network = report.and_then(|report| report.node.network);
        Known {
            is_up: self.share > 0 && self.config.weight > 0,
            viewers: report.map_or(0, |report| report.node.sessions.total),
            network: network.map(|network| Booked {
                booked: network.total.saturating_sub(network.free),
                free: network.free,
            }),
            films: (report.iter())
                .flat_map(|report| &report.cache.films)
                .map(|film| film.title.clone())
                .collect(),
        }
    }
}

impl EdgeReport {
    fn of(report: &Report) -> EdgeReport {
        let Report { node, cache } = report;
        let from = |sibling: bool| {
            let servers = cache.servers.iter();
            let servers = servers.filter(|server| server.sibling == sibling);
            servers.map(|server| server.bytes).sum()
        };
        let asked = node.pool.hits + node.pool.misses;
        let film = |film: &FilmReport| FilmStatus {
            title: film.title.clone(),
            held: film.held,
            size: film.size,
            viewers: film.viewers.len(),
        };
        EdgeReport {
            name: node.name.clone(),
            sessions: node.sessions.total,
            rate: node.sending.rate,
            sent: cache.sent,
            from_origins: from(false),
            from_siblings: from(true),
            hit_ratio: (asked > 0).then(|| node.pool.hits as f64 / asked as f64),
            films: cache.films.iter().map(film).collect(),
        }
    }
}

impl Status {
    /// Assembles the status; `reports` are in the order of the edges.
    pub fn of(
        seen: &Seen,
        failover: Option<State>,
        reports: &[Option<Report>],
        table: &[Entry],
    ) -> Status {
        let config = &seen.config;
        let report = |number: usize| reports.get(number).and_then(Option::as_ref);
        let known: Vec<Known> = (seen.edges.iter().enumerate())
            .map(|(number, edge)| edge.known(report(number)))
            .collect();
        let edge = |(number, edge): (usize, &EdgeSeen)| EdgeStatus {
            address: edge.config.address,
            url: format!("http://{}/", config.checked_at(&edge.config)[1]),
            state: edge.state(),
            trouble: edge.trouble.clone(),
            weight: edge.config.weight,
            capacity: edge.capacity,
            report: report(number).map(EdgeReport::of),
            without: report(number).map(|_| without(&known, number)),
        };
        Status {
            address: config.address,
            method: config.method.to_string(),
            scheduler: config.scheduler.name(),
            films: config.films.addresses.map(|addresses| Films {
                addresses: addresses.to_string(),
                scheduler: config.films.scheduler.name(),
            }),
            failover,
            trouble: seen.trouble.clone(),
            edges: seen.edges.iter().enumerate().map(edge).collect(),
            services: services(config, table),
        }
    }
}

/// Returns the services in the order of their marks: virtual address, films, ports.
fn services(config: &Config, table: &[Entry]) -> Vec<ServiceStatus> {
    let own = table
        .iter()
        .filter_map(|entry| ServiceStatus::of(config, entry));
    let mut services: Vec<ServiceStatus> = own.collect();
    services.sort_by_key(|service| service.mark);
    services
}

impl ServiceStatus {
    /// Returns `None` if the service does not belong to this director.
    fn of(config: &Config, (service, destinations): &Entry) -> Option<ServiceStatus> {
        let mark = own_mark(config, &service.target)?;
        let destination = |one: &Destination| DestinationStatus {
            address: one.address.ip(),
            weight: one.weight,
            active: one.active,
            inactive: one.inactive,
            persistent: one.persistent,
            counted: Counted::from(&one.counters),
        };
        let mut destinations: Vec<&Destination> = destinations.iter().collect();
        destinations.sort_by_key(|one| one.address);
        Some(ServiceStatus {
            mark,
            of: match (mark, marks::port(mark)) {
                (mark, _) if mark == config.mark => "virtual address".to_owned(),
                (mark, _) if mark == marks::films(config.mark) => "addresses of films".to_owned(),
                (_, Some(port)) => {
                    format!("checks, UDP ports {port} and {}", port.saturating_add(1))
                }
                (_, None) => "checks".to_owned(),
            },
            scheduler: service.scheduler.clone(),
            persistence: service.persistence.map(|persistence| persistence.timeout),
            counted: Counted::from(&service.counters),
            destinations: destinations.into_iter().map(destination).collect(),
        })
    }
}

/// Returns the mark of a service, if it belongs to this director.
pub(crate) fn own_mark(config: &Config, target: &Target) -> Option<u32> {
    let is_v6 = config.address.is_some_and(|address| address.is_ipv6());
    match target {
        Target::Mark { mark, v6 } if *v6 == is_v6 && marks::is_ours(config.mark, *mark) => {
            Some(*mark)
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use reelway_ipvs::{Method, Persistence};

    use super::*;
    use crate::report::{
        CacheReport, NetworkReport, NodeReport, PoolReport, SendingReport, ServerReport,
        SessionsReport,
    };
    use crate::sections::parse_edge;

    fn seen() -> Seen {
        let mut config = Config {
            address: Some([10, 0, 0, 1].into()),
            edge: ["10.0.0.2,8000", "10.0.0.3=0,8002"]
                .map(|edge| parse_edge(edge).unwrap())
                .to_vec(),
            ..Config::default()
        };
        config.films.addresses = "10.0.1.0/26".parse().ok();
        let edge = |edge: &EdgeConfig| EdgeSeen {
            config: *edge,
            share: 1000,
            is_slow: false,
            trouble: None,
            capacity: None,
        };
        Seen {
            edges: config.edge.iter().map(edge).collect(),
            config,
            trouble: None,
        }
    }

    fn report(sessions: u64, title: &str) -> Option<Report> {
        let node = NodeReport {
            name: "edge".into(),
            sessions: SessionsReport { total: sessions },
            sending: SendingReport { rate: 1e6 },
            pool: PoolReport { hits: 9, misses: 1 },
            network: Some(NetworkReport {
                total: 100,
                free: 60,
            }),
        };
        let cache = CacheReport {
            sent: 1000,
            films: vec![FilmReport {
                title: title.into(),
                held: 5,
                size: 10,
                viewers: vec![0.1, 0.2],
            }],
            servers: [(false, 300), (true, 40), (false, 7)]
                .map(|(sibling, bytes)| ServerReport { sibling, bytes })
                .to_vec(),
        };
        Some(Report { node, cache })
    }

    /// Returns a service with this mark and one destination.
    pub fn entry(mark: u32) -> Entry {
        let counters = Counters {
            connections: 4,
            bytes_in: 50,
            ..Counters::default()
        };
        let service = ServiceState {
            target: Target::Mark { mark, v6: false },
            scheduler: "wlc".into(),
            persistence: Some(Persistence {
                timeout: 300,
                prefix: 32,
            }),
            scheduler_flags: 0,
            counters,
        };
        let destination = Destination {
            address: ([10, 0, 0, 2], 0).into(),
            method: Some(Method::Direct),
            is_local: false,
            weight: 100,
            active: 3,
            inactive: 1,
            persistent: 2,
            counters,
        };
        (service, vec![destination])
    }

    #[test]
    fn edges_are_shown_with_what_they_say_and_what_happens_without_them() {
        let table = [
            entry(8002 << 16 | 0x5ee1),
            entry(0x1_5ee1),
            entry(7),
            entry(0x5ee1),
        ];
        let reports = [report(3, "a"), report(0, "b")];
        let status = Status::of(&seen(), Some(State::Standby), &reports, &table);
        let shown = serde_json::to_value(&status).unwrap();
        assert_eq!(shown["failover"], "standby");
        assert_eq!(shown["films"]["addresses"], "10.0.1.0/26");
        let first = &shown["edges"][0];
        assert_eq!(
            (&first["state"], &first["url"]),
            (&"up".into(), &"http://10.0.0.2:8080/".into())
        );
        assert_eq!(first["report"]["from_origins"], 307);
        assert_eq!(first["report"]["from_siblings"], 40);
        assert_eq!(first["report"]["hit_ratio"], 0.9);
        assert_eq!(first["report"]["films"][0]["viewers"], 2);
        // The other edge is drained, so it cannot take over any viewers.
        assert_eq!(first["without"]["fits"], false);
        assert_eq!(shown["edges"][1]["state"], "drained");
        let services: Vec<&str> = (shown["services"].as_array().unwrap().iter())
            .map(|service| service["of"].as_str().unwrap())
            .collect();
        assert_eq!(
            services,
            [
                "virtual address",
                "addresses of films",
                "checks, UDP ports 8002 and 8003"
            ]
        );
        assert_eq!(shown["services"][0]["destinations"][0]["active"], 3);
    }

    #[test]
    fn an_edge_that_says_nothing_is_shown_by_its_checks() {
        let mut seen = seen();
        seen.edges[0].share = 0;
        seen.edges[0].trouble = Some("RTSP: no answer".into());
        let status = Status::of(&seen, None, &[None, None], &[]);
        let shown = serde_json::to_value(&status).unwrap();
        let first = &shown["edges"][0];
        assert_eq!(
            (&first["state"], &first["trouble"]),
            (&"down".into(), &"RTSP: no answer".into())
        );
        assert!(first["report"].is_null() && first["without"].is_null());
        assert!(shown["failover"].is_null());
    }
}
