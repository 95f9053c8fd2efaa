//! `Transport` (RFC 2326 section 12.39): what a client offers, and the response.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reelway_rtp::sdp::Profile;

/// A transport that a client offers and this server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// RTP and RTCP to these ports of the client.
    Udp {
        /// Port for RTP.
        rtp: u16,
        /// Port for RTCP; the same if the client wants both on one port.
        rtcp: u16,
        /// With or without feedback.
        profile: Profile,
    },
    /// Interleaved in the RTSP connection.
    Tcp {
        /// Channels for RTP and RTCP, if the client names them.
        channels: Option<(u8, u8)>,
        /// With or without feedback, which makes no difference as TCP loses nothing.
        profile: Profile,
    },
    /// A transport stream in UDP packets, without RTP.
    Plain {
        /// Name that the client uses.
        name: Plain,
        /// Destination.
        to: SocketAddr,
    },
}

/// Clients' names for a transport stream in UDP packets without RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// `MP2T/H2221/UDP` (ITU-T H.222.0, 2.4).
    H2221,
    /// `RAW/RAW/UDP`.
    Raw,
}

impl Plain {
    fn of(protocol: &str) -> Option<Plain> {
        match protocol {
            "MP2T/H2221/UDP" | "MP2T/H2221" => Some(Plain::H2221),
            "RAW/RAW/UDP" => Some(Plain::Raw),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Plain::H2221 => "MP2T/H2221/UDP",
            Plain::Raw => "RAW/RAW/UDP",
        }
    }
}

/// Parses the header's value: the offers that can be accepted, in the client's order, and reasons
/// why the others cannot.
///
/// RTP to a `destination` other than `peer` is refused, so that a small request cannot direct a
/// film at a third party. The configuration says where plain UDP may be sent.
pub fn offers(value: &str, peer: IpAddr) -> (Vec<Offer>, Vec<String>) {
    let mut can = Vec::new();
    let mut cannot = Vec::new();
    for spec in split_quoted(value, ',') {
        match offer(spec.trim(), peer) {
            Ok(offer) => can.push(offer),
            Err(reason) => cannot.push(reason),
        }
    }
    (can, cannot)
}

fn offer(spec: &str, peer: IpAddr) -> Result<Offer, String> {
    let mut parameters = split_quoted(spec, ';').map(str::trim);
    let protocol = parameters.next().unwrap_or_default();
    let upper = protocol.to_ascii_uppercase();
    if let Some(name) = Plain::of(&upper) {
        return plain(name, parameters, peer);
    }
    let (profile, mut lower) = match upper.as_str() {
        "RTP/AVP" => (Profile::Avp, None),
        "RTP/AVP/UDP" => (Profile::Avp, Some(Lower::Udp)),
        "RTP/AVP/TCP" => (Profile::Avp, Some(Lower::Tcp)),
        "RTP/AVPF" => (Profile::Avpf, None),
        "RTP/AVPF/UDP" => (Profile::Avpf, Some(Lower::Udp)),
        "RTP/AVPF/TCP" => (Profile::Avpf, Some(Lower::Tcp)),
        _ => {
            return Err(format!(
                "'{}' is not RTP/AVP or RTP/AVPF over UDP or TCP, nor MP2T/H2221/UDP or RAW/RAW/UDP",
                excerpt(protocol)
            ));
        }
    };
    let (mut ports, mut channels) = (None, None);
    for parameter in parameters {
        let (name, value) = parameter
            .split_once('=')
            .map_or((parameter, ""), |(name, value)| (name.trim(), value.trim()));
        let value = value.trim_matches('"');
        let wrong = || format!("'{}' cannot be understood", excerpt(parameter));
        match name.to_ascii_lowercase().as_str() {
            "multicast" => return Err("multicast is not sent".to_owned()),
            "destination" if !is_address(value, peer) => {
                return Err(format!(
                    "media goes to {peer}, where the request comes from, not to '{}'",
                    excerpt(value)
                ));
            }
            "mode"
                if !value
                    .split(',')
                    .any(|mode| mode.trim().eq_ignore_ascii_case("play")) =>
            {
                return Err(format!("mode '{}' is not PLAY", excerpt(value)));
            }
            "client_port" => ports = Some(pair::<u16>(value).ok_or_else(wrong)?),
            // If the numbers are not valid channels, the next free ones are used.
            "interleaved" => {
                channels = pair::<u8>(value);
                lower = lower.or(Some(Lower::Tcp));
            }
            _ => {}
        }
    }
    if ports.is_some()
        && lower == Some(Lower::Tcp)
        && !protocol.to_ascii_uppercase().ends_with("TCP")
    {
        lower = Some(Lower::Udp);
    }
    match (lower, ports) {
        (Some(Lower::Tcp), _) => Ok(Offer::Tcp { channels, profile }),
        (_, Some((rtp, rtcp))) if rtp != 0 && rtcp != 0 => Ok(Offer::Udp { rtp, rtcp, profile }),
        (_, Some(_)) => Err("port 0 cannot be sent to".to_owned()),
        (_, None) => Err("UDP without client_port".to_owned()),
    }
}

fn plain<'a>(
    name: Plain,
    parameters: impl Iterator<Item = &'a str>,
    peer: IpAddr,
) -> Result<Offer, String> {
    let (mut ip, mut port) = (peer, None);
    for parameter in parameters {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"');
        let wrong = || format!("'{}' cannot be understood", excerpt(parameter));
        match key.trim().to_ascii_lowercase().as_str() {
            "multicast" => return Err("multicast is not sent".to_owned()),
            // Names are not resolved: they could belong to anybody.
            "destination" if !value.is_empty() => {
                let address = value.trim_start_matches('[').trim_end_matches(']');
                ip = address.parse().map_err(|_| wrong())?;
            }
            "client_port" => port = Some(pair::<u16>(value).ok_or_else(wrong)?.0),
            _ => {}
        }
    }
    match port {
        None => Err("UDP without client_port".to_owned()),
        Some(0) => Err("port 0 cannot be sent to".to_owned()),
        Some(_) if ip.is_multicast() => Err("multicast is not sent".to_owned()),
        Some(port) => Ok(Offer::Plain {
            name,
            to: SocketAddr::new(ip.to_canonical(), port),
        }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lower {
    Udp,
    Tcp,
}

/// Parses `A-B`, or `A` alone for `A` and the next number.
fn pair<T: TryFrom<u32>>(value: &str) -> Option<(T, T)> {
    let (first, second) = value
        .split_once('-')
        .map_or((value, None), |(first, second)| (first, Some(second)));
    let first: u32 = first.trim().parse().ok()?;
    let second: u32 = match second.map(str::trim) {
        None | Some("") => first.checked_add(1)?,
        Some(second) => second.parse().ok()?,
    };
    Some((first.try_into().ok()?, second.try_into().ok()?))
}

/// Returns whether `text` is this address. Names are not resolved: they could belong to anybody.
fn is_address(text: &str, peer: IpAddr) -> bool {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    // An empty value means nothing.
    text.is_empty()
        || text
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical() == peer.to_canonical())
}

/// Splits at separators outside of quotes.
fn split_quoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The agreed transport, as the response to SETUP states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// Over UDP.
    Udp {
        /// Ports of the client, for RTP and RTCP.
        client: (u16, u16),
        /// Ports of the server, for RTP and RTCP.
        server: (u16, u16),
        /// The server's address.
        source: IpAddr,
        /// SSRC of the stream.
        ssrc: u32,
        /// With or without feedback.
        profile: Profile,
    },
    /// Interleaved.
    Tcp {
        /// Channels for RTP and RTCP.
        channels: (u8, u8),
        /// SSRC of the stream.
        ssrc: u32,
        /// With or without feedback.
        profile: Profile,
    },
    /// Over UDP, without RTP.
    Plain {
        /// Name that the client uses.
        name: Plain,
        /// Destination.
        to: SocketAddr,
        /// Source.
        from: SocketAddr,
    },
}

impl fmt::Display for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Agreed::Udp {
                client,
                server,
                source,
                ssrc,
                profile,
            } => write!(
                f,
                "{};unicast;client_port={}-{};server_port={}-{};source={source};ssrc={ssrc:08X};mode=\"PLAY\"",
                profile.name(),
                client.0,
                client.1,
                server.0,
                server.1
            ),
            Agreed::Plain { name, to, from } => write!(
                f,
                "{};unicast;destination={};client_port={};source={};server_port={};mode=\"PLAY\"",
                name.name(),
                to.ip(),
                to.port(),
                from.ip(),
                from.port()
            ),
            Agreed::Tcp {
                channels,
                ssrc,
                profile,
            } => {
                write!(
                    f,
                    "{}/TCP;unicast;interleaved={}-{};ssrc={ssrc:08X};mode=\"PLAY\"",
                    profile.name(),
                    channels.0,
                    channels.1
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn first(value: &str) -> Option<Offer> {
        offers(value, PEER).0.first().copied()
    }

    fn udp(rtp: u16, rtcp: u16) -> Option<Offer> {
        let profile = Profile::Avp;
        Some(Offer::Udp { rtp, rtcp, profile })
    }

    fn tcp(rtp: u8, rtcp: u8) -> Option<Offer> {
        Some(Offer::Tcp {
            channels: Some((rtp, rtcp)),
            profile: Profile::Avp,
        })
    }

    #[test]
    fn what_real_clients_say_is_understood() {
        assert_eq!(
            first("RTP/AVP/UDP;unicast;client_port=17844-17845"),
            udp(17844, 17845),
            "ffmpeg"
        );
        assert_eq!(
            first("RTP/AVP;unicast;client_port=50000-50001"),
            udp(50000, 50001),
            "live555, GStreamer"
        );
        assert_eq!(
            first("RTP/AVP/TCP;unicast;interleaved=0-1"),
            tcp(0, 1),
            "ffmpeg, live555"
        );
        assert_eq!(
            first("RTP/AVP;unicast;client_port=4588-4589;mode=\"PLAY\""),
            udp(4588, 4589),
            "RFC 2326"
        );
        assert_eq!(
            first("rtp/avp/tcp; Unicast; Interleaved = 4-5; mode=play"),
            tcp(4, 5),
            "sloppy"
        );
    }

    #[test]
    fn transport_streams_are_had_without_rtp() {
        let plain = |name, to: &str| {
            let to = to.parse().unwrap();
            Some(Offer::Plain { name, to })
        };
        let (own, other) = ("10.0.0.7:5000", "10.0.0.9:5000");
        for (value, offer) in [
            (
                "MP2T/H2221/UDP;unicast;client_port=5000",
                plain(Plain::H2221, own),
            ),
            ("mp2t/h2221;client_port=5000-5001", plain(Plain::H2221, own)),
            (
                "RAW/RAW/UDP;unicast;destination=10.0.0.9;client_port=5000",
                plain(Plain::Raw, other),
            ),
            (
                "MP2T/H2221/UDP;destination=;client_port=5000",
                plain(Plain::H2221, own),
            ),
            ("MP2T/H2221/UDP;unicast", None),
            ("MP2T/H2221/UDP;client_port=0", None),
            ("MP2T/H2221/UDP;destination=box;client_port=5000", None),
            (
                "MP2T/H2221/UDP;destination=239.1.2.3;client_port=5000",
                None,
            ),
            ("MP2T/H2221/UDP;multicast;client_port=5000", None),
            ("MP2T/H2221/TCP;client_port=5000", None),
        ] {
            assert_eq!(first(value), offer, "{value}");
        }
        let agreed = Agreed::Plain {
            name: Plain::H2221,
            to: "[2001:db8::7]:5000".parse().unwrap(),
            from: "[2001:db8::1]:8000".parse().unwrap(),
        };
        assert_eq!(
            agreed.to_string(),
            "MP2T/H2221/UDP;unicast;destination=2001:db8::7;client_port=5000;source=2001:db8::1;server_port=8000;mode=\"PLAY\""
        );
    }

    #[test]
    fn feedback_is_had_by_who_asks_for_it() {
        let (rtp, rtcp, profile) = (50000, 50001, Profile::Avpf);
        let wanted = Some(Offer::Udp { rtp, rtcp, profile });
        assert_eq!(
            first("RTP/AVPF;unicast;client_port=50000-50001"),
            wanted,
            "GStreamer"
        );
        let channels = Some((0, 1));
        let wanted = Some(Offer::Tcp { channels, profile });
        assert_eq!(first("RTP/AVPF/TCP;unicast;interleaved=0-1"), wanted);
    }

    #[test]
    fn ports_may_be_single_odd_or_the_same() {
        assert_eq!(first("RTP/AVP;unicast;client_port=5000"), udp(5000, 5001));
        assert_eq!(
            first("RTP/AVP;unicast;client_port=5001-5002"),
            udp(5001, 5002)
        );
        assert_eq!(
            first("RTP/AVP;unicast;client_port=5000-5000"),
            udp(5000, 5000)
        );
        assert_eq!(first("RTP/AVP;unicast;client_port=5000-"), udp(5000, 5001));
        for wrong in ["0-1", "65535", "65536-65537", "x", "", "-1", "5000-0"] {
            assert_eq!(
                first(&format!("RTP/AVP;unicast;client_port={wrong}")),
                None,
                "{wrong}"
            );
        }
    }

    #[test]
    fn channels_that_are_none_are_chosen_by_the_server() {
        let anywhere = Some(Offer::Tcp {
            channels: None,
            profile: Profile::Avp,
        });
        assert_eq!(first("RTP/AVP/TCP;unicast"), anywhere);
        assert_eq!(first("RTP/AVP/TCP;unicast;interleaved=255"), anywhere);
        assert_eq!(first("RTP/AVP/TCP;unicast;interleaved=9"), tcp(9, 10));
        assert_eq!(
            first("RTP/AVP;unicast;interleaved=0-1"),
            tcp(0, 1),
            "TCP is not said but meant"
        );
        assert_eq!(
            first("RTP/AVP;unicast;interleaved=0-1;client_port=4-5"),
            udp(4, 5),
            "UDP is meant"
        );
    }

    #[test]
    fn of_several_transports_the_client_s_order_holds() {
        let gstreamer = "RTP/AVP/UDP;unicast;client_port=5000-5001,RTP/AVP/UDP;multicast,RTP/AVP/TCP;unicast;interleaved=0-1";
        let (can, cannot) = offers(gstreamer, PEER);
        assert_eq!(can, [udp(5000, 5001).unwrap(), tcp(0, 1).unwrap()]);
        assert_eq!(cannot.len(), 1);
        assert_eq!(
            first(
                "RTP/SAVP;unicast;client_port=4-5,RTP/AVP;multicast;port=4-5,RTP/AVP/TCP;interleaved=2-3"
            ),
            tcp(2, 3)
        );
        assert_eq!(
            first("RTP/AVP;unicast;mode=\"PLAY,RECORD\";client_port=4-5, RTP/AVP/TCP"),
            udp(4, 5),
            "a quoted comma"
        );
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        for (value, word) in [
            ("RTP/SAVP;unicast;client_port=4-5", "RTP/SAVP"),
            ("RAW/RAW/TCP;unicast;client_port=4-5", "RAW"),
            (
                "MP2T/H2221/UDP;unicast;destination=box;client_port=4-5",
                "destination=box",
            ),
            ("RTP/AVP;multicast;client_port=4-5", "multicast"),
            ("RTP/AVP", "client_port"),
            ("RTP/AVP;unicast;client_port=4-5;mode=record", "record"),
            ("", "RTP/AVP"),
        ] {
            let (can, cannot) = offers(value, PEER);
            assert!(
                can.is_empty() && cannot[0].contains(word),
                "{value}: {cannot:?}"
            );
        }
    }

    #[test]
    fn media_goes_to_who_asks_and_to_nobody_else() {
        assert_eq!(
            first("RTP/AVP;unicast;destination=10.0.0.7;client_port=4-5"),
            udp(4, 5)
        );
        assert_eq!(
            first("RTP/AVP;unicast;destination=\"::ffff:10.0.0.7\";client_port=4-5"),
            udp(4, 5)
        );
        assert_eq!(
            first("RTP/AVP;unicast;destination=10.0.0.8;client_port=4-5"),
            None
        );
        assert_eq!(
            first("RTP/AVP;unicast;Destination = victim.example ;client_port=4-5"),
            None
        );
        assert_eq!(
            first("RTP/AVP/TCP;unicast;destination=10.0.0.8;interleaved=0-1"),
            None
        );
    }

    #[test]
    fn the_answer_names_ports_address_and_ssrc() {
        let udp = Agreed::Udp {
            client: (4, 5),
            server: (8000, 8001),
            source: PEER,
            ssrc: 0xab,
            profile: Profile::Avp,
        };
        let wanted = "RTP/AVP;unicast;client_port=4-5;server_port=8000-8001;source=10.0.0.7;ssrc=000000AB;mode=\"PLAY\"";
        assert_eq!(udp.to_string(), wanted);
        let tcp = Agreed::Tcp {
            channels: (2, 3),
            ssrc: 0xdead_beef,
            profile: Profile::Avpf,
        };
        assert_eq!(
            tcp.to_string(),
            "RTP/AVPF/TCP;unicast;interleaved=2-3;ssrc=DEADBEEF;mode=\"PLAY\""
        );
    }
}
