//! Services and destinations.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The transport protocol of a service with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What clients connect to. It identifies a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// An address and a port.
    Address(Protocol, SocketAddr),
    /// All packets to which the firewall has given this mark.
    Mark {
        /// The mark, above 0.
        mark: u32,
        /// Whether the service takes IPv6 packets rather than IPv4.
        v6: bool,
    },
}

impl Target {
    /// Whether its packets are IPv6.
    pub fn is_v6(&self) -> bool {
        match self {
            Target::Address(_, address) => address.is_ipv6(),
            Target::Mark { v6, .. } => *v6,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(Protocol::Tcp, address) => write!(f, "TCP {address}"),
            Target::Address(Protocol::Udp, address) => write!(f, "UDP {address}"),
            Target::Mark { mark, v6: false } => write!(f, "mark {mark}"),
            Target::Mark { mark, v6: true } => write!(f, "mark {mark} (IPv6)"),
        }
    }
}

macro_rules! schedulers {
    ($($variant:ident $name:literal $words:literal)*) => {
        /// Chooses the destination for each connection. Each is a kernel module `ip_vs_NAME`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Scheduler {
            $(#[doc = $words] $variant,)*
        }

        impl Scheduler {
            /// All schedulers.
            pub const ALL: &[Scheduler] = &[$(Scheduler::$variant,)*];

            /// Returns the kernel's name of the scheduler.
            pub fn name(self) -> &'static str {
                match self {
                    $(Scheduler::$variant => $name,)*
                }
            }
        }
    };
}

schedulers! {
    RoundRobin "rr" "One after the other."
    WeightedRoundRobin "wrr" "One after the other, as often as their weights say."
    LeastConnections "lc" "The one with the fewest connections."
    WeightedLeastConnections "wlc" "The one with the fewest connections for its weight."
    Locality "lblc" "By the address that is asked for, while its destination is not overloaded."
    LocalityReplicated "lblcr" "The same with a set of destinations for each address."
    DestinationHash "dh" "By a hash of the address that is asked for."
    SourceHash "sh" "By a hash of the client's address."
    MaglevHash "mh" "By Maglev's consistent hash of the client's address."
    ShortestDelay "sed" "The one that would answer soonest, by connections and weight."
    NeverQueue "nq" "An idle one, else as `sed`."
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheduler, String> {
        let found = Scheduler::ALL.iter().find(|one| one.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Scheduler::ALL.iter().map(|one| one.name()).collect();
            format!("'{text}' is no scheduler: one of {}", names.join(", "))
        })
    }
}

/// How packets reach a destination (IPVS calls this the forwarding method).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Addresses are rewritten, and answers return through the director.
    Nat,
    /// Packets are encapsulated, and answers go directly to the client.
    Tunnel(Tunnel),
    /// Packets are forwarded to the destination's hardware address on the same network, and answers
    /// go directly to the client.
    Direct,
}

impl Method {
    /// Whether answers pass through the director.
    pub fn answers_come_back(self) -> bool {
        self == Method::Nat
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Nat => f.write_str("nat"),
            Method::Tunnel(Tunnel::Ipip) => f.write_str("ipip"),
            Method::Tunnel(Tunnel::Gue { port }) => write!(f, "gue:{port}"),
            Method::Direct => f.write_str("direct"),
        }
    }
}

/// The encapsulation of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// IP in IP (RFC 2003).
    Ipip,
    /// Generic UDP encapsulation, to this UDP port.
    Gue {
        /// The port.
        port: u16,
    },
}

/// Persistence: for some time, a client's connections go to the same destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Persistence {
    /// Seconds after the client's last connection.
    pub timeout: u32,
    /// Number of address bits that identify a client; with 32 (IPv4) or 128 (IPv6), each address is
    /// a client of its own.
    pub prefix: u8,
}

/// The desired state of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// What clients connect to.
    pub target: Target,
    /// Chooses the destinations of connections.
    pub scheduler: Scheduler,
    /// Persistence, if clients stay with their destination.
    pub persistence: Option<Persistence>,
    /// The scheduler's own flags: `IP_VS_SVC_F_SCHED1` to 3 as bits 0 to 2. For `sh` and `mh`, the
    /// first means that an overloaded destination is skipped, the second that ports are hashed too.
    pub scheduler_flags: u8,
}

/// The desired state of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its address and port. In a service by mark, port 0 stands for the port that the client asked
    /// for.
    pub address: SocketAddr,
    /// How packets reach it.
    pub method: Method,
    /// Its weight; with 0 it gets no new connections.
    pub weight: u32,
}

/// The two halves of connection synchronisation, with which a director that takes over knows the
/// connections of its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRole {
    /// Multicasts this machine's connections to other directors.
    Send,
    /// Enters the connections of other directors here.
    Receive,
}

/// Traffic counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that have been scheduled.
    pub connections: u64,
    /// Packets from clients.
    pub packets_in: u64,
    /// Packets to clients, if they pass through this machine.
    pub packets_out: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients, if they pass through this machine.
    pub bytes_out: u64,
}

/// The state of a service in the kernel's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// What clients connect to.
    pub target: Target,
    /// The scheduler's name; other programs may use schedulers that `Scheduler` lacks.
    pub scheduler: String,
    /// Persistence, if clients stay with their destination.
    pub persistence: Option<Persistence>,
    /// The scheduler's own flags, as in [`Service::scheduler_flags`].
    pub scheduler_flags: u8,
    /// Traffic counters.
    pub counters: Counters,
}

impl ServiceState {
    /// Whether the service is in the desired state.
    pub fn is(&self, service: &Service) -> bool {
        self.target == service.target
            && self.scheduler == service.scheduler.name()
            && self.persistence == service.persistence
            && self.scheduler_flags == service.scheduler_flags
    }
}

/// The state of a destination in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Its address and port.
    pub address: SocketAddr,
    /// How packets reach it; `None` if the kernel uses a method that this crate does not know.
    pub method: Option<Method>,
    /// Whether it is an address of this machine, which packets reach by any method.
    pub is_local: bool,
    /// Its weight.
    pub weight: u32,
    /// Number of open connections.
    pub active: u32,
    /// Number of connections that wait for their end; all UDP connections count here.
    pub inactive: u32,
    /// Number of clients that persistence keeps here.
    pub persistent: u32,
    /// Traffic counters.
    pub counters: Counters,
}

impl State {
    /// Whether the destination is in the desired state.
    pub fn is(&self, destination: &Destination) -> bool {
        self.address == destination.address
            && (self.is_local || self.method == Some(destination.method))
            && self.weight == destination.weight
    }
}

/// The unspecified address of a family, which the kernel uses for services by mark.
pub(crate) fn unspecified(v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::from([0u16; 8]),
        false => IpAddr::from([0u8; 4]),
    }
}
