//! A film whose file changes while viewers with bookings watch it: their sessions end with a reason, their bookings are
//! freed, and newcomers get the new file.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::http;
use reelway_tests::knock::{missing, watch};
use reelway_tests::rtsp::{Client, rtcp_packets};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TITLE: &str = "film";

/// The number of viewers, and the largest booking of any resource in the next minutes.
fn booked(server: &Server) -> (u64, u64) {
    let told = server.get("/api/admission").json();
    let resources = told["resources"].as_array().expect("resources");
    assert_eq!(resources.len(), 4, "all are limited: {told}");
    let booked = resources.iter().flat_map(|resource| {
        let calendar = resource["booked"].as_array().expect("a calendar");
        calendar.iter().filter_map(serde_json::Value::as_u64)
    });
    let viewers = told["viewers"].as_u64().expect("viewers");
    (viewers, booked.max().expect("a calendar"))
}

#[track_caller]
fn nothing_is_booked_any_more(server: &Server) {
    let limit = Duration::from_secs(20);
    let free = wait::until(limit, || (booked(server) == (0, 0)).then_some(()));
    assert!(free.is_some(), "booked: {:?}", booked(server));
}

/// Opens the film over HLS and fetches the first segment; returns the addresses of all segments.
fn begin_hls(server: &Server) -> Vec<String> {
    let main = server.get(&format!("/{TITLE}/hls/main.m3u8"));
    assert_eq!(main.status, 200, "{}", main.text());
    let playlist = main.text().lines().last().expect("an address").to_owned();
    let media = server.get(&format!("/{TITLE}/hls/{playlist}")).text();
    let segments = media.lines().filter_map(|line| line.strip_prefix("../"));
    let segments: Vec<String> = segments.map(|path| format!("/{TITLE}/{path}")).collect();
    assert_eq!(server.get(&segments[0]).status, 200);
    segments
}

/// The reason of the RTCP BYE (RFC 3550 section 6.6) with which a viewer's film ends.
fn goodbye(viewer: &mut Client) -> String {
    loop {
        let frame = viewer.frame(Duration::from_secs(20)).expect("frames");
        let frame = frame.expect("the film goes on, or ends with a BYE");
        if frame.channel.is_multiple_of(2) {
            continue;
        }
        let packets = rtcp_packets(&frame.data).expect("RTCP");
        let bye = packets.iter().find(|(kind, _)| *kind == 203);
        // One source: header, SSRC, then the reason's length and text.
        if let Some((_, [_, _, _, _, _, _, _, _, length, words @ ..])) = bye {
            return String::from_utf8_lossy(&words[..usize::from(*length)]).into_owned();
        }
        assert!(bye.is_none(), "a BYE without a reason");
    }
}

/// Two viewers over RTSP and one over HLS watch a film on a server where every resource is limited; then `change` gets
/// the file's path.
fn changed_under_viewers(change: impl Fn(&Path), seconds_after: f64) {
    let library = temp_dir("films");
    let path = library.path().join(TITLE).with_extension("mp4");
    fs::copy(films::film("seeks").path, &path).expect("a film");
    let server = Options::new(library.path())
        .flag("--capacity", "net=8Mbit,disk=8MB/s,mem=24MiB,cpu=8Mbit")
        .start();
    server.wait_indexed();
    assert_eq!(booked(&server), (0, 0));
    let mut viewers: Vec<Client> = (0..2)
        .map(|_| watch(&server, TITLE, HERE).expect("room for two"))
        .collect();
    let segments = begin_hls(&server);
    let (count, most) = booked(&server);
    assert!(count == 3 && most > 0, "{count} viewers, {most} booked");

    let shown = || server.get(&format!("/api/films/{TITLE}")).json();
    let old = shown();
    change(&path);
    let noticed = wait::until(Duration::from_secs(20), || {
        let film = shown();
        let is_new = film["state"] == "ready" && film["modified"] != old["modified"];
        is_new.then_some(film)
    });
    let new = noticed.unwrap_or_else(|| panic!("the change is not noticed: {}", shown()));
    let seconds = new["duration"].as_f64().expect("a duration");
    assert!((seconds - seconds_after).abs() < 0.2, "{seconds} s");

    // The sessions end with the reason, over RTSP and over HLS.
    for viewer in &mut viewers {
        let words = goodbye(viewer);
        assert!(words.contains("replaced"), "BYE: {words}");
    }
    let old_segment = server.get(&segments[1]);
    assert_eq!(old_segment.status, 410, "{}", old_segment.text());
    assert!(old_segment.text().contains("replaced"));
    server.wait_for_log(
        &["session ended", "rtsp/tcp", "replaced"],
        Duration::from_secs(5),
    );
    // The RTSP connections are still open, but nothing is booked for them.
    nothing_is_booked_any_more(&server);
    drop(viewers);

    // Newcomers get the new film and are booked as usual.
    let mut newcomer = watch(&server, TITLE, HERE).expect("room for a newcomer");
    let (sdp, _) = Client::connect(server.rtsp)
        .and_then(|mut other| other.describe(&server.rtsp_url(TITLE)))
        .expect("DESCRIBE");
    let range = format!("npt=0-{seconds_after:.0}");
    assert!(sdp.contains(&range), "{range} in {sdp}");
    assert_eq!(missing(&mut newcomer, 60), 0);
    let fresh = begin_hls(&server);
    assert_ne!(fresh[0].split('&').next(), segments[0].split('&').next());
    let (count, most) = booked(&server);
    assert!(count == 2 && most > 0, "{count} viewers, {most} booked");
    let range = [("Range", "bytes=0-49999")];
    let file = http::request(server.http, "GET", &format!("/{TITLE}/file"), &range);
    let file = file.expect("an answer").body;
    assert!(file == fs::read(&path).expect("the new film")[..50_000]);
    drop(newcomer);
    for session in server.get("/api/sessions").json()["sessions"]
        .as_array()
        .expect("sessions")
    {
        let path = format!("/api/sessions/{}", session["id"].as_str().expect("an id"));
        let bearer = format!("Bearer {}", server.token());
        let headers = [("Authorization", bearer.as_str())];
        http::request(server.http, "DELETE", &path, &headers).expect("an answer");
    }
    nothing_is_booked_any_more(&server);
}

/// Changes a file's modification time and nothing else.
fn touch(path: &Path) {
    let file = File::options().write(true).open(path).expect("the film");
    let before = file.metadata().and_then(|data| data.modified());
    let later = before.expect("a date") + Duration::from_secs(5);
    file.set_modified(later).expect("another date");
}

#[test]
fn touching_a_film_ends_its_sessions_with_a_reason_and_frees_their_bookings() {
    changed_under_viewers(touch, 40.0);
}

#[test]
fn replacing_a_film_ends_its_sessions_frees_their_bookings_and_newcomers_get_the_new_one() {
    let other = films::film("faststart").path;
    let replace = |path: &Path| {
        let draft = path.with_extension("draft");
        fs::copy(&other, &draft).expect("another film");
        fs::rename(&draft, path).expect("its new name");
    };
    changed_under_viewers(replace, 5.0);
}
