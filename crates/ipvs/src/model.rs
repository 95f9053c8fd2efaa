//! Services and destinations.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Transport of a service with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What clients connect to; it names a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// An address and a port.
    Address(Protocol, SocketAddr),
    /// All packets that the firewall has given this mark.
    Mark {
        /// The mark, above 0.
        mark: u32,
        /// Of packets of IPv6, else of IPv4.
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
        /// Who is sent to which destination; the kernel's modules `ip_vs_NAME`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Scheduler {
            $(#[doc = $words] $variant,)*
        }

        impl Scheduler {
            /// All of them.
            pub const ALL: &[Scheduler] = &[$(Scheduler::$variant,)*];

            /// The kernel's name.
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

/// How packets reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Addresses are rewritten, and answers come back through the director.
    Nat,
    /// Packets are wrapped; answers go to the client directly.
    Tunnel(Tunnel),
    /// Packets are sent on to the destination's hardware address, on the same network; answers go to the client directly.
    Direct,
}

impl Method {
    /// Whether answers go through the director.
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

/// How packets are wrapped.
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

/// Clients that have been sent to a destination come to the same for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Persistence {
    /// Seconds after the last connection.
    pub timeout: u32,
    /// Bits of the address that make a client: 32 or 128 is a client an address.
    pub prefix: u8,
}

/// A service as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// What clients connect to.
    pub target: Target,
    /// Who is sent where.
    pub scheduler: Scheduler,
    /// Whether clients stay.
    pub persistence: Option<Persistence>,
    /// The scheduler's own flags, `IP_VS_SVC_F_SCHED1` to 3 as bits 0 to 2: for `sh` and `mh` the first means that an
    /// overloaded destination is passed over, the second that ports count too.
    pub scheduler_flags: u8,
}

/// A destination as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its address, and its port; 0 in a service by mark: the one that was asked for.
    pub address: SocketAddr,
    /// How packets reach it.
    pub method: Method,
    /// Its weight; 0: no new connections.
    pub weight: u32,
}

/// The two halves of synchronised connections: a director that takes over knows those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRole {
    /// This machine's connections are multicast to other directors.
    Send,
    /// Theirs are entered here.
    Receive,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were scheduled.
    pub connections: u64,
    /// Packets of clients.
    pub packets_in: u64,
    /// Packets to clients, where they come through here.
    pub packets_out: u64,
    /// Bytes of clients.
    pub bytes_in: u64,
    /// Bytes to clients, where they come through here.
    pub bytes_out: u64,
}

/// A service as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// What clients connect to.
    pub target: Target,
    /// The scheduler's name; other programs may use others than are known here.
    pub scheduler: String,
    /// Whether clients stay.
    pub persistence: Option<Persistence>,
    /// As of [`Service::scheduler_flags`].
    pub scheduler_flags: u8,
    /// What was counted.
    pub counters: Counters,
}

impl ServiceState {
    /// Whether it is as it is to be.
    pub fn is(&self, service: &Service) -> bool {
        self.target == service.target
            && self.scheduler == service.scheduler.name()
            && self.persistence == service.persistence
            && self.scheduler_flags == service.scheduler_flags
    }
}

/// A destination as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The address.
    pub address: SocketAddr,
    /// How packets reach it; `None`: in a way not known here.
    pub method: Option<Method>,
    /// Whether it is an address of this machine, which packets reach in any case.
    pub is_local: bool,
    /// Its weight.
    pub weight: u32,
    /// Connections that are open.
    pub active: u32,
    /// Connections that wait for their end; all of UDP.
    pub inactive: u32,
    /// Clients that stay.
    pub persistent: u32,
    /// What was counted.
    pub counters: Counters,
}

impl State {
    /// Whether it is as it is to be.
    pub fn is(&self, destination: &Destination) -> bool {
        self.address == destination.address
            && (self.is_local || self.method == Some(destination.method))
            && self.weight == destination.weight
    }
}

/// The unspecified address of a family, as the kernel has it for services by mark.
pub(crate) fn unspecified(v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::from([0u16; 8]),
        false => IpAddr::from([0u8; 4]),
    }
}
