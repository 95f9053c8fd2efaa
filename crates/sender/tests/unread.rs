//! Viewers over TCP who do not read: the part of the pool they pin is limited, and viewers who read
//! are not affected.

mod common;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use reelway_sender::{FrameWriter, Out, State, StreamEvent, StreamHandle, reserved_blocks};
use reelway_store::{Store, StoreConfig};
use reelway_sys::tcp;

const BLOCKS: u64 = 128;
const BLOCK: u32 = 64 << 10;
const SECOND: i64 = 1_000_000_000;

/// A viewer over TCP whose connection accepts little.
struct Unread {
    client: TcpStream,
    handle: StreamHandle,
    events: Arc<Mutex<Vec<StreamEvent>>>,
}

impl Unread {
    fn play(film: &TestFilm, store: &Store, sender: &reelway_sender::Sender, at: i64) -> Unread {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        tcp::set_send_buffer(server.as_fd(), 1).unwrap();
        let writer = Arc::new(FrameWriter::new(Arc::new(server)));
        let events: Arc<Mutex<Vec<StreamEvent>>> = Arc::default();
        let out = |rtp| Out::Tcp {
            conn: Arc::clone(&writer),
            rtp,
            rtcp: rtp + 1,
        };
        let handle = sender.play(stream(film, store, at, None, out(10), out(20), &events));
        wait_until("its first packets", || {
            handle.progress().state == State::Ready
        });
        handle.go();
        Unread {
            client,
            handle,
            events,
        }
    }

    fn behind(&self) -> Duration {
        self.handle.progress().behind
    }

    /// Reads frames until there are `enough` of video.
    fn pictures(&mut self, enough: usize) -> Vec<Got> {
        let mut all = Vec::new();
        while all.len() < enough {
            let mut head = [0; 4];
            self.client.read_exact(&mut head).unwrap();
            assert_eq!(head[0], b'$', "a whole frame");
            let mut frame = vec![0; usize::from(head[2]) << 8 | usize::from(head[3])];
            self.client.read_exact(&mut frame).unwrap();
            if head[1] == 10 {
                all.push(Got::read(&frame, 0));
            }
        }
        all
    }
}

fn small_store() -> Store {
    Store::new(StoreConfig {
        pool_bytes: BLOCKS * u64::from(BLOCK),
        block_bytes: BLOCK,
        ..StoreConfig::default()
    })
    .unwrap()
}

#[test]
fn a_hundred_who_do_not_read_pin_a_part_of_the_pool_and_another_viewer_is_on_time() {
    let film = TestFilm::make(60, 4000);
    let store = small_store();
    let sender = sender(&store, |config| {
        config.lag_limit = Duration::from_secs(60);
    });
    // Each starts at a different place, so that no two share a block.
    let mut unread: Vec<Unread> = (0..100)
        .map(|number| Unread::play(&film, &store, &sender, number * SECOND / 2))
        .collect();
    // A stream may also be behind because this machine is slow; then its connection still takes
    // what it holds.
    let pinned = || store.stats().in_use;
    wait_until(
        "all to be behind, and to have let go of their blocks",
        || {
            let late = |one: &Unread| one.behind() > Duration::from_millis(500);
            unread.iter().all(late) && pinned() <= reserved_blocks(BLOCKS)
        },
    );
    let other = Viewer::default();
    let handle = sender.play(other.stream(&film, &store, 55 * SECOND, Some(59 * SECOND)));
    wait_until("the other's first packets", || {
        handle.progress().state == State::Ready
    });
    handle.go();
    other.wait_for_the_end();
    let progress = handle.progress();
    assert_eq!((progress.shifts, progress.dropped), (0, 0), "{progress:?}");
    // The machine may be busy; without the limit lateness would be many seconds.
    assert!(progress.late.p99 < Duration::from_secs(1), "{progress:?}");
    assert_whole(&other.video.packets(), VIDEO_SEQ);
    let pinned = pinned();
    assert!(
        pinned <= reserved_blocks(BLOCKS),
        "{pinned} of {BLOCKS} blocks are pinned for viewers who do not read"
    );
    // A viewer who reads after all misses nothing.
    let pictures = unread[50].pictures(600);
    assert_whole(&pictures, VIDEO_SEQ);
    let late = unread[50].behind();
    assert!(late < Duration::from_secs(60), "{late:?}");
    for one in &unread {
        assert!(one.events.lock().unwrap().is_empty());
    }
}
