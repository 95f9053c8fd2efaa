//! The desired services of the kernel's table, each with its edges. Pure.

use std::net::SocketAddr;

use reelway_ipvs::{Destination, Persistence, Scheduler, Service, Target};

use crate::config::Config;
use crate::marks;
use crate::sections::EdgeConfig;
use crate::weight::{self, Part};

/// A desired service and its destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub service: Service,
    pub destinations: Vec<Destination>,
}

/// Returns all desired services of a configuration, with the state of its edges in `parts`.
///
/// # Errors
/// There is no virtual address.
pub(crate) fn wanted(config: &Config, parts: &[Part]) -> anyhow::Result<Vec<Wanted>> {
    let v6 = config.virtual_address()?.is_ipv6();
    let service = |mark, scheduler, persistence| Service {
        target: Target::Mark { mark, v6 },
        scheduler,
        persistence,
        // `sh` refuses viewers whose hash falls on an edge with weight 0; with this flag it sends
        // them to others.
        scheduler_flags: u8::from(scheduler == Scheduler::SourceHash),
    };
    let all = if v6 { 128 } else { 32 };
    let persistence = (config.persistence > 0).then_some(Persistence {
        timeout: config.persistence,
        prefix: match config.persistence_prefix {
            0 => all,
            bits => bits,
        },
    });
    let mut services = vec![Wanted {
        service: service(config.mark, config.scheduler, persistence),
        destinations: destinations(config, parts, config.scheduler),
    }];
    if config.films.addresses.is_some() {
        let scheduler = config.films.scheduler;
        // No persistence: a viewer who stayed with an edge would get all films from there.
        services.push(Wanted {
            service: service(marks::films(config.mark), scheduler, None),
            destinations: destinations(config, parts, scheduler),
        });
    }
    // Services of single edges: for RTCP reports to their own ports, and for checks, which an edge
    // gets in any state.
    let own = config.edge.iter().enumerate().map(|(number, edge)| Wanted {
        service: service(
            marks::edge(config.mark, number, edge.rtp),
            Scheduler::RoundRobin,
            None,
        ),
        destinations: vec![Destination {
            address: SocketAddr::new(edge.address, 0),
            method: config.method,
            weight: 1,
        }],
    });
    services.extend(own);
    Ok(services)
}

/// Returns the edges that get viewers from this scheduler.
fn destinations(config: &Config, parts: &[Part], scheduler: Scheduler) -> Vec<Destination> {
    let weights = weight::weights(parts, scheduler);
    let edges = config.edge.iter().zip(parts).zip(weights);
    let destination = |((edge, part), weight): ((&EdgeConfig, &Part), u32)| {
        // `dh` refuses viewers if their edge has weight 0.
        let is_refused = weight == 0 && scheduler == Scheduler::DestinationHash;
        (part.share > 0 && !is_refused).then(|| Destination {
            // Port 0: the port that the client asked for.
            address: SocketAddr::new(edge.address, 0),
            method: config.method,
            weight,
        })
    };
    edges.filter_map(destination).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::parse_edge;

    fn config(edges: &[&str], films: Option<&str>) -> Config {
        let mut config = Config {
            address: Some([10, 0, 0, 1].into()),
            edge: edges.iter().map(|edge| parse_edge(edge).unwrap()).collect(),
            ..Config::default()
        };
        config.films.addresses = films.map(|text| text.parse().unwrap());
        config.check().unwrap();
        config
    }

    /// Returns the marks of the services, each with the last octet and weight of its edges.
    fn of(config: &Config, shares: &[u32]) -> Vec<(u32, String)> {
        let parts = config.edge.iter().zip(shares).map(|(edge, share)| Part {
            weight: edge.weight,
            share: *share,
            capacity: None,
        });
        let wanted = wanted(config, &parts.collect::<Vec<_>>()).unwrap();
        let shown = wanted.into_iter().map(|wanted| {
            let Target::Mark { mark, .. } = wanted.service.target else {
                panic!("{:?}", wanted.service)
            };
            let edges = wanted.destinations.iter();
            let edges = edges.map(|one| format!("{}={}", one.address.ip(), one.weight));
            (mark, edges.collect::<Vec<_>>().join(" "))
        });
        shown.collect()
    }

    fn expected<const N: usize>(services: [(u32, &str); N]) -> Vec<(u32, String)> {
        let services = services.map(|(mark, edges)| (mark, edges.to_owned()));
        services.to_vec()
    }

    #[test]
    fn edges_share_one_service_for_viewers_and_each_has_one_of_its_own_whether_it_is_up_or_not() {
        let config = config(&["10.0.0.2", "10.0.0.3=50"], None);
        let all = |edges| {
            expected([
                (0x5ee1, edges),
                (0x2_5ee1, "10.0.0.2=1"),
                (0x3_5ee1, "10.0.0.3=1"),
            ])
        };
        assert_eq!(of(&config, &[1000, 1000]), all("10.0.0.2=100 10.0.0.3=50"));
        assert_eq!(of(&config, &[0, 1000]), all("10.0.0.3=50"));
    }

    #[test]
    fn an_edge_s_own_service_is_that_of_its_own_port_and_stays_while_it_is_drained() {
        let config = config(&["10.0.0.2=0,8000", "10.0.0.3,8002"], Some("10.0.1.0/26"));
        let services = expected([
            (0x5ee1, "10.0.0.2=0 10.0.0.3=100"),
            // `dh` would choose an edge with weight 0 and refuse.
            (0x1_5ee1, "10.0.0.3=100"),
            (8000 << 16 | 0x5ee1, "10.0.0.2=1"),
            (8002 << 16 | 0x5ee1, "10.0.0.3=1"),
        ]);
        assert_eq!(of(&config, &[1000, 1000]), services);
    }

    #[test]
    fn viewers_stay_with_an_edge_only_behind_the_virtual_address() {
        let config = config(&["10.0.0.2,8000"], Some("10.0.1.0/26"));
        let part = Part {
            weight: 100,
            share: 1000,
            capacity: None,
        };
        let wanted = wanted(&config, &[part]).unwrap();
        let stays = |wanted: &Wanted| wanted.service.persistence.is_some();
        let stay: Vec<bool> = wanted.iter().map(stays).collect();
        assert_eq!(stay, [true, false, false]);
        assert_eq!(wanted[1].service.scheduler, Scheduler::DestinationHash);
    }
}
