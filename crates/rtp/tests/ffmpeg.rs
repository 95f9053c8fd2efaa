//! The payload formats with a real player: plans of real films are sent over loopback to ffmpeg,
//! which gets their SDP. What it receives must equal the film.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use reelway_media::{Index, IndexOptions, Kind, index_with};
use reelway_rtp::rtcp::{self, SenderReport};
use reelway_rtp::sdp::{Description, Profile, Section};
use reelway_rtp::{Header, Payload, PayloadOptions, Plan};
use reelway_tests::films::{film, temp_dir};
use reelway_tests::ports::Ports;
use reelway_tests::probe::{Received, Wanted, receive, without_declared_sei};
use reelway_tests::wait::{self, has_socket, unread};

/// One track of a film being sent.
struct Track {
    kind: Kind,
    index: usize,
    payload: Payload,
    port: u16,
    ssrc: u32,
}

/// Packets that leave together, and when.
struct Due {
    at: i64,
    port: u16,
    packets: Vec<Vec<u8>>,
    /// Whether this is the last for its track.
    goodbye: bool,
}

fn index(film: &[u8]) -> Index {
    let read = |range: std::ops::Range<u64>, out: &mut Vec<u8>| {
        out.extend_from_slice(&film[range.start as usize..range.end as usize]);
        Ok(())
    };
    index_with(read, film.len() as u64, IndexOptions::default())
        .expect("a film that can be indexed")
}

/// Returns the packets of a plan's frames as a viewer gets them.
fn packets(
    plan: &Plan,
    film: &[u8],
    track: &Track,
    seq: &mut u16,
    time: Option<u32>,
) -> Vec<Vec<Vec<u8>>> {
    let mut frame_packets = Vec::new();
    for frame in &plan.frames {
        let mut packets = Vec::new();
        for packet in plan.packets_of(frame) {
            let header = Header {
                payload_type: 96 + track.index as u8,
                marker: packet.marker,
                seq: *seq,
                timestamp: time.unwrap_or(frame.rtp_time),
                ssrc: track.ssrc,
            };
            *seq = seq.wrapping_add(1);
            let mut bytes = header.to_bytes().to_vec();
            for part in plan.parts_of(packet) {
                bytes.extend_from_slice(match part {
                    reelway_rtp::Part::Film(range) => {
                        &film[range.start as usize..range.end as usize]
                    }
                    reelway_rtp::Part::Kept(kept) => kept,
                });
            }
            packets.push(bytes);
        }
        frame_packets.push(packets);
    }
    frame_packets
}

/// Returns everything that is sent for a track: preface, frames and BYE.
fn everything(film: &[u8], index: &Index, track: &Track) -> Vec<Due> {
    let of = &index.title.tracks[track.index];
    let mut seq = 65_500;
    let mut out: Vec<Due> = Vec::new();
    let mut report = SenderReport {
        ssrc: track.ssrc,
        ntp: 1 << 40,
        rtp_time: 0,
        packets: 0,
        bytes: 0,
    };
    for group in 0..of.groups.len() {
        let samples = of.read_group(track.index, group, &index.tables).unwrap();
        let plan = track.payload.plan(&samples, &film).unwrap();
        if group == 0 {
            let first = &plan.frames[0];
            report.rtp_time = track.payload.rtp_time(0);
            let mut bytes = Vec::new();
            rtcp::write(&report, "test", None, &mut bytes);
            out.push(Due {
                at: first.due - 1,
                port: track.port + 1,
                packets: vec![bytes],
                goodbye: false,
            });
            for packets in packets(
                track.payload.preface(),
                film,
                track,
                &mut seq,
                Some(first.rtp_time),
            ) {
                out.push(Due {
                    at: first.due,
                    port: track.port,
                    packets,
                    goodbye: false,
                });
            }
        }
        let sent = packets(&plan, film, track, &mut seq, None);
        out.extend(plan.frames.iter().zip(sent).map(|(frame, packets)| Due {
            at: frame.due,
            port: track.port,
            packets,
            goodbye: false,
        }));
    }
    let mut bye = Vec::new();
    rtcp::write(&report, "test", Some(""), &mut bye);
    let end = out.last().expect("something to send").at;
    out.push(Due {
        at: end + 1_000_000_000,
        port: track.port + 1,
        packets: vec![bye],
        goodbye: true,
    });
    out
}

/// Sends a film to ffmpeg with up to `max_payload` bytes per packet, as fast as ffmpeg reads.
fn over_rtp(path: &Path, max_payload: usize) -> (Received, Index) {
    let film = std::fs::read(path).unwrap();
    let index = index(&film);
    let chosen = index
        .title
        .video()
        .into_iter()
        .chain(index.title.audio().take(1));
    let ports = Ports::local();
    let tracks: Vec<Track> = chosen
        .zip((ports.first..).step_by(2))
        .map(|((nth, track), port)| Track {
            kind: track.kind,
            index: nth,
            payload: Payload::new(track, PayloadOptions { max_payload }).unwrap(),
            port,
            ssrc: 0x1000 + nth as u32,
        })
        .collect();
    let sections: Vec<Section> = tracks
        .iter()
        .map(|track| Section {
            media: track.payload.sdp(),
            payload_type: 96 + track.index as u8,
            control: "x",
            rtx: None,
        })
        .collect();
    let mut sdp = Description {
        id: 1,
        version: 1,
        server: "127.0.0.1".parse().unwrap(),
        name: "film",
        tool: "test",
        duration: index.title.duration,
        profile: Profile::Avp,
        sections: &sections,
    }
    .to_text();
    for track in &tracks {
        let media = track.payload.sdp().media;
        sdp = sdp.replace(
            &format!("m={media} 0 "),
            &format!("m={media} {} ", track.port),
        );
    }
    let dir = temp_dir("rtp");
    let sdp_path = dir.path().join("film.sdp");
    std::fs::write(&sdp_path, sdp).unwrap();

    let picture = tracks
        .iter()
        .find(|track| track.kind == Kind::Video)
        .map(|track| {
            if track.payload.sdp().encoding.starts_with("H264") {
                "h264"
            } else {
                "hevc"
            }
        });
    let sound = tracks.iter().any(|track| track.kind == Kind::Audio);
    let last_port = tracks.iter().map(|track| track.port).next_back().unwrap();
    let mut due: Vec<Due> = tracks
        .iter()
        .flat_map(|track| everything(&film, &index, track))
        .collect();
    due.sort_by_key(|due| due.at);
    let received = std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            receive(&Wanted {
                before: &[
                    "-protocol_whitelist",
                    "file,udp,rtp",
                    "-buffer_size",
                    "4000000",
                ],
                input: sdp_path.to_str().unwrap(),
                picture,
                sound,
                decode: false,
                limit: Duration::from_secs(60),
            })
        });
        let listens = || has_socket(last_port + 1).then_some(());
        wait::until(Duration::from_secs(20), listens).expect("ffmpeg listens");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let unread = || -> u64 { tracks.iter().map(|track| unread(track.port)).sum() };
        for due in &due {
            let Due {
                port,
                packets,
                goodbye,
                ..
            } = due;
            // ffmpeg may get no CPU time for a while. Its socket must not overflow meanwhile. BYE
            // ends the film for it even if packets are still queued, so BYE is sent only when
            // ffmpeg has read everything.
            let bound = if *goodbye { 0 } else { 1 << 20 };
            let has_read = || (unread() <= bound).then_some(());
            wait::until(Duration::from_secs(50), has_read).expect("ffmpeg reads");
            for packet in packets {
                assert!(packet.len() <= max_payload + Header::BYTES || packet[1] >= 200);
                // ffmpeg may have exited after the first BYE.
                let _ = socket.send_to(packet, ("127.0.0.1", *port));
            }
        }
        player.join().expect("ffmpeg's report")
    });
    (received, index)
}

/// Reads the same film from the file with ffmpeg.
fn from_file(path: &Path, picture: Option<&str>, sound: bool) -> Received {
    receive(&Wanted {
        before: &["-ignore_editlist", "1"],
        input: path.to_str().unwrap(),
        picture,
        sound,
        decode: false,
        limit: Duration::from_secs(60),
    })
}

#[track_caller]
fn arrives(name: &str, max_payload: usize) {
    let path = film(name).path;
    let (mut received, index) = over_rtp(&path, max_payload);
    let picture = index.title.video().map(|(_, track)| match track.codec {
        reelway_media::Codec::H264(_) => "h264",
        _ => "hevc",
    });
    let sound = index.title.audio().next().is_some();
    let mut file = from_file(&path, picture, sound);
    if picture == Some("hevc") {
        file.nals = without_declared_sei(file.nals, &path);
        received.nals = without_declared_sei(received.nals, &path);
    }
    if picture.is_some() {
        assert!(!file.nals.is_empty());
        assert_eq!(received.nals.len(), file.nals.len(), "{name}: NAL units");
        assert!(received.nals == file.nals, "{name}: the NAL units differ");
    }
    if sound {
        assert!(!file.sound.frames.is_empty());
        assert_eq!(
            received.sound.hashes(),
            file.sound.hashes(),
            "{name}: access units of the sound"
        );
    }
}

#[test]
fn h264_and_aac() {
    arrives("bunny", 1440);
    arrives("big_pictures", 1440);
}

#[test]
fn h264_with_short_nal_lengths() {
    arrives("nal_1", 1440);
    arrives("nal_2", 1440);
    arrives("small_slices", 1200);
}

#[test]
fn h265() {
    arrives("hvc1", 1440);
    arrives("hev1", 500);
    arrives("open_gop_h265", 1440);
}

#[test]
fn aac_of_every_kind() {
    arrives("audio_only", 1440);
    arrives("surround", 300);
    arrives("he_aac_explicit", 1440);
    arrives("he_aac_compatible", 1440);
}

#[test]
fn opus() {
    arrives("opus", 1440);
    arrives("opus_stereo_60ms", 1440);
}
