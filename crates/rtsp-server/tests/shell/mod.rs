//! A server with real sockets, a real sender and a real film, in this process.

#![allow(dead_code, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{Catalogue, Directory, DirectoryConfig, State};
use reelway_library::Library;
use reelway_rtsp_server::{RtspConfig, RtspServer};
use reelway_sender::{Sender, SenderConfig};
use reelway_session::{Limits, SessionView, Sessions};
use reelway_store::{Store, StoreConfig};
use reelway_tests::rtsp::{Client, Frame, Response, Rtp, rtcp_packets};
use reelway_tests::wait::until;
use tempfile::TempDir;

/// 24 s of video and audio, with a sync sample every 2 s.
pub const FILM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo.mp4");

/// A film name that is difficult for clients and servers.
pub const ODD: &str = "a folder/50% \"ü\" 🎬, really?";

/// The server under test.
pub struct Stand {
    pub address: SocketAddr,
    pub sessions: Sessions,
    /// RTP and RTCP ports.
    pub ports: (u16, u16),
    _runtime: tokio::runtime::Runtime,
    _films: TempDir,
}

impl Stand {
    pub fn new() -> Stand {
        Stand::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut RtspConfig)) -> Stand {
        Stand::at("127.0.0.1:0", change)
    }

    /// Starts a server that listens on this address.
    pub fn at(listen: &str, change: impl FnOnce(&mut RtspConfig)) -> Stand {
        let listen: SocketAddr = listen.parse().unwrap();
        let films = tempfile::tempdir().unwrap();
        put(films.path(), "demo.mp4");
        put(films.path(), &format!("{ODD}.mp4"));
        let store = Store::new(StoreConfig {
            pool_bytes: 16 << 20,
            ..StoreConfig::default()
        })
        .unwrap();
        let sender = Sender::new(
            SenderConfig {
                addresses: vec![listen.ip()],
                rtp_port: 0,
                rtcp_port: 0,
                threads: 1,
                ..SenderConfig::default()
            },
            store.clone(),
        )
        .unwrap();
        let library = Arc::new(Directory::open(DirectoryConfig {
            films: vec![films.path().to_owned()],
            index: None,
            ..DirectoryConfig::default()
        }));
        until(Duration::from_secs(20), || {
            let all = library.list();
            let ready = all
                .iter()
                .all(|entry| matches!(entry.state, State::Ready(_)));
            (ready && all.len() == 2).then_some(())
        })
        .expect("two films are ready");
        let sessions = Sessions::new(Limits::default());
        let mut config = RtspConfig {
            listen: vec![listen],
            ..RtspConfig::default()
        };
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let ports = sender.ports();
        let server = runtime
            .block_on(RtspServer::bind(
                config,
                Library::new(library, store),
                sessions.clone(),
                sender,
            ))
            .unwrap();
        let address = server.addresses()[0];
        runtime.spawn(server.run());
        Stand {
            address,
            sessions,
            ports,
            _runtime: runtime,
            _films: films,
        }
    }

    pub fn url(&self) -> String {
        format!("rtsp://{}/demo", self.address)
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    /// The only session, as the register shows it.
    pub fn session(&self) -> SessionView {
        let mut all = self.sessions.list();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Waits until there are `count` sessions.
    pub fn wait_for_sessions(&self, count: usize, limit: Duration) {
        let reached = until(limit, || (self.sessions.len() == count).then_some(()));
        assert!(
            reached.is_some(),
            "{} sessions, {count} expected",
            self.sessions.len()
        );
    }
}

fn put(films: &Path, name: &str) {
    let to = films.join(name);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(FILM, to).unwrap();
}

/// Sends PLAY with a range; it must succeed.
pub fn play(client: &mut Client, url: &str, range: &str) -> Response {
    let headers: &[(&str, &str)] = if range.is_empty() {
        &[]
    } else {
        &[("Range", range)]
    };
    let answer = client.request("PLAY", url, headers).unwrap();
    assert_eq!(answer.status, 200, "PLAY {range}: {answer:?}");
    answer
}

/// Returns the frames that arrive within `time`.
pub fn frames(client: &mut Client, time: Duration) -> Vec<Frame> {
    let until = reelway_clock::now() + time;
    let mut frames = Vec::new();
    loop {
        let left = until.since(reelway_clock::now());
        if left.is_zero() {
            return frames;
        }
        frames.extend(client.frame(left).unwrap());
    }
}

/// Returns the RTP packets of a channel: sequence number and timestamp.
pub fn rtp(frames: &[Frame], channel: u8) -> Vec<(u16, u32)> {
    let of_channel = frames.iter().filter(|frame| frame.channel == channel);
    let header = |frame: &Frame| {
        let rtp = Rtp::parse(&frame.data).unwrap();
        (rtp.seq, rtp.time)
    };
    of_channel.map(header).collect()
}

/// Whether a compound RTCP packet contains a BYE.
pub fn is_bye(data: &[u8]) -> bool {
    rtcp_packets(data)
        .unwrap()
        .iter()
        .any(|(kind, _)| *kind == 203)
}
