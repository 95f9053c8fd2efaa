//! The other kind of stream: any file from a position on, packet by packet.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use reelway_sender::{FileStream, Stream, StreamEvent, StreamKind, TrackOut};

#[test]
fn a_file_is_sent_from_its_position_at_its_interval() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any");
    let bytes: Vec<u8> = (0..40_000u32).map(|at| (at * 7 / 3) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let store = store();
    let sender = sender(&store, |_| {});
    for (position, packets, expected) in [(1000u64, Some(300), 300), (39_900, None, 4)] {
        let receiver = Receiver::default();
        let events: Arc<Mutex<Vec<StreamEvent>>> = Arc::default();
        let keep = Arc::clone(&events);
        let stream = FileStream {
            source: store.open(&path).unwrap(),
            position,
            packet_bytes: 32,
            interval: Duration::from_millis(5),
            packets,
            timestamp_step: 40,
            out: TrackOut {
                track: 0,
                payload_type: 33,
                ssrc: 5,
                seq: 65_000,
                rtp_base: 9,
                again: None,
                out: receiver.out(),
            },
        };
        let events_sink = Box::new(move |event| keep.lock().unwrap().push(event));
        let handle = sender.play(Stream {
            what: StreamKind::File(stream),
            events: events_sink,
        });
        let info = block(handle.ready()).unwrap();
        assert_eq!((info.tracks[0].seq, info.tracks[0].rtp_time), (65_000, 9));
        handle.go();
        wait_until("the end", || {
            events.lock().unwrap().contains(&StreamEvent::Ended)
        });
        let got = receiver.packets();
        assert_eq!(got.len(), expected);
        assert_whole(&got, 65_000);
        for (number, packet) in got.iter().enumerate() {
            let at = position as usize + 32 * number;
            assert_eq!(packet.payload, bytes[at..(at + 32).min(bytes.len())]);
            assert_eq!(packet.timestamp, 9 + 40 * number as u32);
        }
        // On a busy machine some packets are late, and the next ones follow soon; with many gaps
        // the median is reliable.
        let mut gaps: Vec<_> = got.windows(2).map(|two| two[1].at - two[0].at).collect();
        gaps.sort_unstable();
        let median = gaps[gaps.len() / 2];
        assert!(
            gaps.len() < 100 || (4_000_000..6_000_000).contains(&median),
            "{gaps:?}"
        );
    }
}
