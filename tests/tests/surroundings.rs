//! The tests' own tools work as the tests assume.

use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;

use reelway_tests::cgroup::Cgroup;
use reelway_tests::faulty::FaultyDisk;
use reelway_tests::network::{Network, OTHER, VIEWER};
use reelway_tests::{films, probe};

#[test]
fn every_film_can_be_made() {
    let films = films::all();
    assert!(films.len() > 60);
    for film in films {
        assert!(film.path.exists(), "{}", film.name);
    }
}

#[test]
fn a_film_taken_apart_and_laid_out_again_is_the_same_to_ffmpeg() {
    let frames = |name: &str| {
        let film = films::film(name);
        let wanted = probe::Wanted {
            before: &[],
            input: film.path.to_str().expect("UTF-8"),
            picture: Some("h264"),
            sound: true,
            decode: true,
            limit: std::time::Duration::from_secs(60),
        };
        let received = probe::receive(&wanted);
        assert!(
            received.frames.frames.len() >= 120 && received.sound.frames.len() >= 200,
            "{name}"
        );
        assert!(
            received.nals.len() >= 125,
            "{name}: {} NAL units",
            received.nals.len()
        );
        (received.nals, received.frames.frames, received.sound.frames)
    };
    let progressive = frames("progressive");
    for name in [
        "co64",
        "wide_boxes",
        "several_mdats",
        "not_interleaved",
        "mdat_to_eof",
        "stz2_16",
    ] {
        assert!(
            frames(name) == progressive,
            "{name} is another film than its original"
        );
    }
    assert!(
        frames("nal_2") == frames("nal_1"),
        "NAL lengths are no part of the picture"
    );
}

#[test]
fn a_capture_sees_what_the_cable_carries() {
    let network = Network::new();
    let capture = network.capture();
    let from = network.as_viewer(|| {
        let socket = UdpSocket::bind((VIEWER, 0)).expect("a socket");
        for n in 0..100u8 {
            socket
                .send_to(&[n; 700], "10.99.0.1:9")
                .expect("a datagram");
        }
        socket.local_addr().expect("an address")
    });
    let packets = capture.finish().expect("a capture");
    let mine: Vec<_> = packets
        .iter()
        .filter(|packet| packet.udp && packet.from == from)
        .collect();
    assert_eq!(mine.len(), 100);
    assert!(
        mine.iter()
            .all(|packet| packet.ip_len == 728 && packet.payload.len() == 700 && !packet.fragment)
    );
    assert_ne!(VIEWER, OTHER);
}

#[test]
fn a_faulty_disk_breaks_where_it_is_told_to() {
    let film = films::film("progressive");
    let disk = FaultyDisk::with(&film.path).expect("a file system in user space");
    let whole = std::fs::read(&film.path).expect("the film");
    assert!(std::fs::read(disk.dir().join("progressive.mp4")).expect("a whole disk") == whole);
    disk.break_from(1000);
    let file = File::open(disk.dir().join("progressive.mp4")).expect("the film");
    let mut bytes = [0; 500];
    file.read_exact_at(&mut bytes, 0).expect("before the break");
    assert_eq!(bytes[..], whole[..500]);
    let error = file
        .read_exact_at(&mut bytes, 900)
        .expect_err("over the break");
    assert_eq!(error.raw_os_error(), Some(5), "EIO");
}

#[test]
fn a_control_group_counts_memory() {
    let group = Cgroup::new("self-test").expect("a control group");
    let script = format!(
        "echo $$ > {}/cgroup.procs; head -c 30000000 /dev/zero | tail -c 29000000 > /dev/null",
        group.dir().display()
    );
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .status()
        .expect("sh");
    assert!(status.success());
    let peak = group.peak().expect("a peak");
    assert!(
        (28_000_000..120_000_000).contains(&peak),
        "{peak} bytes\n{}",
        group.story()
    );
}
