//! Films and disks that break while viewers watch.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use reelway_media::{IndexOptions, index_with};
use reelway_tests::faulty::FaultyDisk;
use reelway_tests::films::{self, temp_dir};
use reelway_tests::rtsp::{Client, Rtp, rtcp_packets};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait::Deadline;

use super::{says, seconds};

/// Returns the media bytes of an RTP packet that must occur unchanged in the film: its payload
/// after any payload header.
fn media(rtp: &Rtp) -> Vec<u8> {
    rtp.payload[rtp.payload.len().min(20)..].to_vec()
}

/// Returns the position of these bytes in the film, at or after `from`.
fn find(film: &[u8], bytes: &[u8], from: usize) -> Option<usize> {
    let first = *bytes.first()?;
    let mut at = from;
    while let Some(found) = film.get(at..)?.iter().position(|byte| *byte == first) {
        at += found;
        if film[at..].starts_with(bytes) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Plays a film over TCP until its end or `limit`. Returns the media that arrived, and whether
/// there was a BYE.
fn play(
    server: &Server,
    title: &str,
    limit: Duration,
    mut at_start: impl FnMut(),
) -> (Vec<Vec<u8>>, bool) {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url(title);
    client.setup_tcp(&url).expect("SETUP");
    let answer = client
        .request("PLAY", &url, &[("Range", "npt=0-")])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    let deadline = Deadline::after(limit);
    let (mut came, mut bye) = (Vec::new(), false);
    while !deadline.over() && !bye {
        let Ok(frame) = client.frame(deadline.left()) else {
            break;
        };
        let Some(frame) = frame else { break };
        if frame.channel % 2 == 1 {
            bye |= rtcp_packets(&frame.data)
                .expect("RTCP")
                .iter()
                .any(|(kind, _)| *kind == 203);
            continue;
        }
        came.push(media(&Rtp::parse(&frame.data).expect("RTP")));
        if came.len() == 200 {
            at_start();
        }
    }
    (came, bye)
}

/// Fails unless everything that arrived is from this film.
#[track_caller]
fn is_of(film: &[u8], came: &[Vec<u8>]) {
    // Video and audio are interleaved: search near the last position first.
    let mut near = 0usize;
    for bytes in came.iter().filter(|bytes| bytes.len() > 60) {
        // Forty bytes identify a piece. If a packet has several frames, headers may lie between the
        // first of them, so the last forty bytes are tried, too.
        let found = [&bytes[..40], &bytes[bytes.len() - 40..]]
            .into_iter()
            .find_map(|bytes| {
                find(film, bytes, near.saturating_sub(2 << 20)).or_else(|| find(film, bytes, 0))
            });
        near = found.expect("bytes that are not the film's");
    }
}

#[test]
fn a_film_replaced_while_it_plays_ends_with_a_reason_and_never_shows_the_other() {
    let original = fs::read(films::film("load").path).expect("the film");
    // A film of the same length: it differs only in its bytes.
    let other: Vec<u8> = original.iter().map(|byte| !byte).collect();
    for in_place in [true, false] {
        let dir = temp_dir("films");
        let path = dir.path().join("film.mp4");
        fs::write(&path, &original).expect("a film");
        let server = Options::new(dir.path())
            .set("pool.size", "\"8MiB\"")
            .start();
        server.wait_indexed();
        let replace = || match in_place {
            true => fs::write(&path, &other).expect("the other film"),
            false => {
                fs::write(dir.path().join("new"), &other).expect("the other film");
                fs::rename(dir.path().join("new"), &path).expect("its new name");
            }
        };
        let (came, _) = play(&server, "film", seconds(12), replace);
        assert!(came.len() >= 200);
        is_of(&original, &came);
        if in_place {
            assert!(
                came.len() < 4000,
                "the viewer did not end: {} packets",
                came.len()
            );
            // Reported by the first to notice, either the block reader or the directory's watcher.
            server.wait_for_log(&["session ended", "replaced"], seconds(5));
        }
    }
}

#[test]
fn a_download_of_a_film_that_is_replaced_is_cut_off() {
    let original = fs::read(films::film("load").path).expect("the film");
    let other: Vec<u8> = original.iter().map(|byte| !byte).collect();
    let dir = temp_dir("films");
    let path = dir.path().join("film.mp4");
    fs::write(&path, &original).expect("a film");
    let server = Options::new(dir.path())
        .set("pool.size", "\"8MiB\"")
        .start();
    server.wait_indexed();
    let mut stream = BufReader::new(TcpStream::connect(server.http).expect("a connection"));
    let request = format!(
        "GET /film/file HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.http
    );
    stream
        .get_mut()
        .write_all(request.as_bytes())
        .expect("a request");
    let mut came = vec![0; 1 << 20];
    stream.read_exact(&mut came).expect("the first megabyte");
    fs::write(&path, &other).expect("the other film");
    stream
        .get_ref()
        .set_read_timeout(Some(seconds(5)))
        .expect("a socket");
    let _cut_off = stream.read_to_end(&mut came);
    let body = came
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("an answer")
        + 4;
    let body = &came[body..];
    assert!(body.len() < original.len(), "the download was not cut off");
    assert!(
        original.starts_with(body),
        "bytes of the other film were sent"
    );
}

#[test]
fn a_disk_that_breaks_in_the_middle_ends_its_viewers_with_file_and_byte() {
    let film = films::film("load");
    let disk = FaultyDisk::with(&film.path).expect("a file system in user space");
    let server = Options::new(disk.dir())
        .set("pool.size", "\"8MiB\"")
        .start();
    server.wait_indexed();
    let original = fs::read(&film.path).expect("the film");
    // This is about six seconds into the film.
    let (came, _) = play(&server, "load", seconds(15), || disk.break_from(3 << 20));
    is_of(&original, &came);
    assert!(
        came.len() < 4500,
        "the viewer did not end: {} packets",
        came.len()
    );
    let line = server.wait_for_log(&["load.mp4", "byte"], seconds(5));
    says(&line, &["error"]);

    // Over HTTP, the download is cut off.
    let mut stream = TcpStream::connect(server.http).expect("a connection");
    let request = format!(
        "GET /load/file HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.http
    );
    stream.write_all(request.as_bytes()).expect("a request");
    stream
        .set_read_timeout(Some(seconds(10)))
        .expect("a socket");
    let mut came = Vec::new();
    let _cut_off = stream.read_to_end(&mut came);
    assert!(
        came.len() < (4 << 20),
        "{} bytes of a disk that broke at 3 MiB",
        came.len()
    );

    // Once the disk works again, the film can be played again.
    disk.break_from(u64::MAX);
    let mut client = Client::connect(server.rtsp).expect("a connection");
    client.setup_tcp(&server.rtsp_url("load")).expect("SETUP");
    let answer = client
        .request("PLAY", &server.rtsp_url("load"), &[("Range", "npt=30-")])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        client.frame(seconds(5)).expect("frames").is_some(),
        "the film plays again"
    );
}

#[test]
fn a_damaged_picture_is_left_out_over_rtsp_and_the_film_goes_on_to_its_end() {
    let mut film = fs::read(films::film("faststart").path).expect("the film");
    let read = |range: Range<u64>, out: &mut Vec<u8>| {
        out.extend_from_slice(&film[range.start as usize..range.end as usize]);
        Ok(())
    };
    let index = index_with(read, film.len() as u64, IndexOptions::default()).expect("an index");
    let (pictures, _) = index.title.video().expect("pictures");
    let damaged = index.tables[pictures].iter().nth(30).expect("a picture");
    // Overwrites the length of its first NAL unit.
    film[damaged.offset as usize..][..4].fill(0x7f);
    let dir = temp_dir("films");
    fs::write(dir.path().join("film.mp4"), &film).expect("a film");
    let server = Server::start(dir.path());
    server.wait_indexed();
    let (came, bye) = play(&server, "film", seconds(60), || ());
    assert!(bye, "after {} packets: {}", came.len(), server.log());
    is_of(&film, &came);
    let log = server.log();
    let at = damaged.offset.to_string();
    says(&log, &["byte", &at, "a NAL unit of", "left out"]);
}
