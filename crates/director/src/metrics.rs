//! The director's metrics. Pure.

use reelway_ipvs::State as Destination;
use reelway_metrics::Exposition;

use crate::status::{Entry, Seen, own_mark};
use crate::vrrp::State;

/// Returns the answer to `GET /metrics`.
pub(crate) fn text(seen: &Seen, failover: Option<State>, table: &[Entry]) -> String {
    let mut out = Exposition::default();
    let help = "1 if the edge gets viewers.";
    out.family("reelway_director_edge_up", "gauge", help);
    for edge in &seen.edges {
        let address = edge.config.address.to_string();
        let is_up = u32::from(edge.share > 0);
        out.value("reelway_director_edge_up", &[("edge", &address)], is_up);
    }
    if let Some(state) = failover {
        let help = "1 if this director has the virtual address.";
        let is_active = u32::from(state == State::Active);
        out.gauge("reelway_director_active", help, is_active);
    }
    let help = "1 if the kernel's table could not be brought to its intended state.";
    let trouble = u32::from(seen.trouble.is_some());
    out.gauge("reelway_director_table_trouble", help, trouble);
    let rows = || {
        table.iter().flat_map(|(service, destinations)| {
            let mark = own_mark(&seen.config, &service.target);
            let rows = destinations.iter();
            rows.filter_map(move |one| {
                Some((format!("{:#x}", mark?), one.address.ip().to_string(), one))
            })
        })
    };
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&Destination) -> u64| {
        out.family(name, kind, help);
        for (mark, edge, one) in rows() {
            out.value(name, &[("mark", &mark), ("edge", &edge)], value(one));
        }
    };
    each(
        "reelway_director_weight",
        "gauge",
        "Weight of an edge in the kernel's table.",
        |one| one.weight.into(),
    );
    each(
        "reelway_director_active_connections",
        "gauge",
        "Open connections of an edge.",
        |one| one.active.into(),
    );
    each(
        "reelway_director_connections_total",
        "counter",
        "Connections that were sent to an edge.",
        |one| one.counters.connections,
    );
    each(
        "reelway_director_received_bytes_total",
        "counter",
        "Bytes from viewers to an edge.",
        |one| one.counters.bytes_in,
    );
    each(
        "reelway_director_returned_bytes_total",
        "counter",
        "Bytes from an edge to viewers, if they pass through the director.",
        |one| one.counters.bytes_out,
    );
    out.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::parse_edge;
    use crate::status::EdgeSeen;
    use crate::status::tests::entry;

    #[test]
    fn edges_and_services_are_named_and_other_programs_services_are_left_out() {
        let mut seen = Seen {
            edges: vec![EdgeSeen {
                config: parse_edge("10.0.0.2").unwrap(),
                share: 1000,
                is_slow: false,
                trouble: None,
                capacity: None,
            }],
            ..Seen::default()
        };
        seen.config.address = Some([10, 0, 0, 1].into());
        let text = text(&seen, Some(State::Active), &[entry(0x5ee1), entry(7)]);
        for line in [
            "reelway_director_edge_up{edge=\"10.0.0.2\"} 1",
            "reelway_director_active 1",
            "reelway_director_weight{mark=\"0x5ee1\",edge=\"10.0.0.2\"} 100",
            "reelway_director_received_bytes_total{mark=\"0x5ee1\",edge=\"10.0.0.2\"} 50",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("mark=\"0x7\""), "{text}");
    }
}
