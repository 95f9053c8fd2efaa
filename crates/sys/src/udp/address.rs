//! Socket addresses in the kernel's form, made once per viewer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Size of a control message with a packet's source address, in words for alignment.
pub(super) const ORIGIN_WORDS: usize = 5;

/// A destination, and the local address to send from, in the kernel's form.
#[derive(Clone)]
pub struct Destination {
    /// `sockaddr_in` or `sockaddr_in6`.
    pub(super) name: [u64; 4],
    pub(super) name_bytes: u32,
    /// A complete `IP_PKTINFO` or `IPV6_PKTINFO` control message, or nothing.
    pub(super) origin: [u64; ORIGIN_WORDS],
    pub(super) origin_bytes: usize,
    to: SocketAddr,
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Destination({})", self.to)
    }
}

/// Copies a C structure without padding into words, at the byte offset `at`.
fn put<T: Copy, const N: usize>(out: &mut [u64; N], at: usize, value: &T) {
    assert!(at + size_of::<T>() <= N * 8);
    let from = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: `out` has room for a T at `at` (asserted above); both are plain memory that does not
    // overlap, and T has no padding, so that all of `out` stays initialised.
    unsafe {
        std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().cast::<u8>().add(at), size_of::<T>())
    };
}

fn name_of<T: Copy>(address: &T) -> ([u64; 4], usize) {
    let mut name = [0; 4];
    put(&mut name, 0, address);
    (name, size_of::<T>())
}

/// A control message and its padded length.
fn control_of<T: Copy>(
    level: libc::c_int,
    kind: libc::c_int,
    data: &T,
) -> ([u64; ORIGIN_WORDS], usize) {
    // SAFETY: all-zero is a valid cmsghdr.
    let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
    header.cmsg_level = level;
    header.cmsg_type = kind;
    // SAFETY: computes a number.
    header.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<T>() as u32) } as _;
    let mut out = [0; ORIGIN_WORDS];
    put(&mut out, 0, &header);
    put(&mut out, size_of::<libc::cmsghdr>(), data);
    // SAFETY: computes a number.
    (out, unsafe { libc::CMSG_SPACE(size_of::<T>() as u32) }
        as usize)
}

impl Destination {
    /// The destination `to`, from this machine's address `from` (`None`: the kernel chooses).
    /// `ipv6_socket` says whether the socket is an IPv6 one: it reaches IPv4 addresses as mapped
    /// ones.
    pub fn new(to: SocketAddr, from: Option<IpAddr>, ipv6_socket: bool) -> Destination {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let from = from
            .map(|from| from.to_canonical())
            .filter(|from| !from.is_unspecified());
        let (name, name_bytes) = match (to, ipv6_socket) {
            (SocketAddr::V4(to), false) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: to.port().to_be(),
                    sin_addr: in_addr(*to.ip()),
                    sin_zero: [0; 8],
                };
                name_of(&name)
            }
            (to, _) => {
                let (ip, scope, flow) = match to {
                    SocketAddr::V4(to) => (to.ip().to_ipv6_mapped(), 0, 0),
                    SocketAddr::V6(to) => (*to.ip(), to.scope_id(), to.flowinfo()),
                };
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: to.port().to_be(),
                    sin6_flowinfo: flow,
                    sin6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    sin6_scope_id: scope,
                };
                name_of(&name)
            }
        };
        let (origin, origin_bytes) = match (from, ipv6_socket) {
            (None, _) => ([0; ORIGIN_WORDS], 0),
            (Some(IpAddr::V4(from)), false) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr(from),
                    ipi_addr: in_addr(Ipv4Addr::UNSPECIFIED),
                };
                control_of(libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
            }
            (Some(from), _) => {
                let ip = match from {
                    IpAddr::V4(from) => from.to_ipv6_mapped(),
                    IpAddr::V6(from) => from,
                };
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                control_of(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
            }
        };
        Destination {
            name,
            name_bytes: name_bytes as u32,
            origin,
            origin_bytes,
            to,
        }
    }

    /// The address to which packets go.
    pub fn address(&self) -> SocketAddr {
        self.to
    }
}

fn in_addr(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from_ne_bytes(ip.octets()),
    }
}
