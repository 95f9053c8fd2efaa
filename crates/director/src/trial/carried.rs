//! Traffic of each machine, by the switch's counters. Pure.

use serde::Deserialize;

/// Bytes of each machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes that the director received.
    pub to_director: u64,
    /// Bytes that the origin sent.
    pub from_origin: u64,
    /// Bytes that each edge sent.
    pub from_edges: Vec<u64>,
}

/// An interface of the switch, as `ip -s -j link` shows it.
#[derive(Deserialize)]
struct Interface {
    ifname: String,
    #[serde(default)]
    stats64: Counts,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Counts {
    rx: Count,
    tx: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Count {
    bytes: u64,
}

impl Carried {
    /// Parses the counters of the switch.
    ///
    /// # Errors
    /// The text is not what `ip -s -j link` prints.
    pub fn read(text: &str) -> Result<Carried, serde_json::Error> {
        let all: Vec<Interface> = serde_json::from_str(text)?;
        let of = |name: &str| {
            let interface = all.iter().find(|interface| interface.ifname == name);
            interface.map(|interface| interface.stats64)
        };
        let edges = (1..).map_while(|number| of(&super::network::edge_name(number)));
        Ok(Carried {
            // What the switch sends to a machine is what the machine receives.
            to_director: of("director").unwrap_or_default().tx.bytes,
            from_origin: of("origin").unwrap_or_default().rx.bytes,
            from_edges: edges.map(|edge| edge.rx.bytes).collect(),
        })
    }

    /// Returns the traffic since `before`.
    #[must_use]
    pub fn since(&self, before: &Carried) -> Carried {
        let edges = self.from_edges.iter().zip(&before.from_edges);
        Carried {
            to_director: self.to_director.saturating_sub(before.to_director),
            from_origin: self.from_origin.saturating_sub(before.from_origin),
            from_edges: edges
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
        }
    }

    /// Returns the traffic in words, with each number formatted by `show`.
    pub fn words(&self, show: impl Fn(u64) -> String) -> String {
        let edges: Vec<String> = self.from_edges.iter().map(|bytes| show(*bytes)).collect();
        format!(
            "from the edges {}; from the origin {}; through the director {}",
            edges.join(", "),
            show(self.from_origin),
            show(self.to_director)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_bytes() {
        let link = |name: &str, rx: u64, tx: u64| {
            format!(
                r#"{{"ifname": "{name}", "mtu": 1500, "stats64": {{"rx": {{"bytes": {rx}, "packets": 1}}, "tx": {{"bytes": {tx}}}}}}}"#
            )
        };
        let text = format!(
            "[{},{},{},{}, {{\"ifname\": \"lo\"}}]",
            link("director", 1, 20),
            link("origin", 300, 4),
            link("edge1", 5000, 6),
            link("edge2", 70, 8)
        );
        let carried = Carried::read(&text).unwrap();
        let expected = Carried {
            to_director: 20,
            from_origin: 300,
            from_edges: vec![5000, 70],
        };
        assert_eq!(carried, expected);
        let before = Carried {
            to_director: 10,
            from_origin: 400,
            from_edges: vec![1000, 70],
        };
        assert_eq!(
            carried.since(&before).words(|bytes| format!("{bytes} B")),
            "from the edges 4000 B, 0 B; from the origin 0 B; through the director 10 B"
        );
        assert!(Carried::read("{}").is_err());
    }
}
