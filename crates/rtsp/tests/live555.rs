//! The dialogue with clients built on live555 (VLC, MPlayer, openRTSP): requests byte for byte as
//! their `RTSPClient` writes them, and responses byte for byte as it reads them.
//!
//! Such clients rely on the following: `Content-Base` ends with a slash, and tracks are joined to
//! it; the session identifier ends at the first `;`; `server_port=` and `interleaved=` contain no
//! spaces; `RTP-Info` has one entry per track in the order of the description, whatever the URLs in
//! it; `Range` begins with `npt=`.

mod common;

use common::Server;
use reelway_media::SECOND;
use reelway_rtsp::machine::ConnId;

const AGENT: &str = "User-Agent: LibVLC/3.0.18 (LIVE555 Streaming Media v2022.07.14)";

/// Sends `request` and expects `answer`; in both, each line begins with `|`.
fn exchange(server: &mut Server, conn: ConnId, request: &str, answer: &str) {
    let bytes = wire(request);
    assert_eq!(
        server.send(conn, bytes.as_bytes()),
        wire(answer),
        "to {request}"
    );
}

fn wire(text: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('|'));
    let text: String = lines.map(|line| format!("{line}\r\n")).collect();
    let text = text
        .replace("AGENT", AGENT)
        .replace("SERVER", &format!("Server: Reelway/{version}"))
        .replace("TOOL", &format!("a=tool:Reelway/{version}"));
    let body = text
        .split_once("\r\n\r\n")
        .map_or(0, |(_, body)| body.len());
    text.replace("LENGTH", &format!("Content-Length: {body}"))
}

fn options_and_describe(server: &mut Server, conn: ConnId) {
    exchange(
        server,
        conn,
        "|OPTIONS rtsp://10.0.0.1:8554/nature/bunny RTSP/1.0
         |CSeq: 2
         |AGENT
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 2
         |SERVER
         |Public: OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER
         |",
    );
    exchange(
        server,
        conn,
        "|DESCRIBE rtsp://10.0.0.1:8554/nature/bunny RTSP/1.0
         |CSeq: 3
         |AGENT
         |Accept: application/sdp
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 3
         |SERVER
         |Content-Base: rtsp://10.0.0.1:8554/nature/bunny/
         |Cache-Control: no-cache
         |Content-Type: application/sdp
         |LENGTH
         |
         |v=0
         |o=- 1 1 IN IP4 10.0.0.1
         |s=nature/bunny
         |c=IN IP4 0.0.0.0
         |t=0 0
         |TOOL
         |a=control:*
         |a=range:npt=0-10
         |m=video 0 RTP/AVP 96 112
         |b=AS:100
         |a=rtpmap:96 H264/90000
         |a=rtcp-fb:96 nack
         |a=rtpmap:112 rtx/90000
         |a=fmtp:112 apt=96;rtx-time=2000
         |a=control:track=1
         |m=audio 0 RTP/AVP 97 113
         |b=AS:100
         |a=rtpmap:97 L16/48000/2
         |a=rtcp-fb:97 nack
         |a=rtpmap:113 rtx/48000
         |a=fmtp:113 apt=97;rtx-time=2000
         |a=control:track=2",
    );
}

#[test]
fn over_udp_with_a_seek_a_pause_and_signs_of_life() {
    let mut server = Server::new();
    let conn = server.connect();
    options_and_describe(&mut server, conn);
    exchange(
        &mut server,
        conn,
        "|SETUP rtsp://10.0.0.1:8554/nature/bunny/track=1 RTSP/1.0
         |CSeq: 4
         |AGENT
         |Transport: RTP/AVP;unicast;client_port=58472-58473
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 4
         |SERVER
         |Session: session1;timeout=60
         |Transport: RTP/AVP;unicast;client_port=58472-58473;server_port=8000-8001;source=10.0.0.1;ssrc=000003E9;mode=\"PLAY\"
         |Cache-Control: no-cache
         |",
    );
    exchange(
        &mut server,
        conn,
        "|SETUP rtsp://10.0.0.1:8554/nature/bunny/track=2 RTSP/1.0
         |CSeq: 5
         |AGENT
         |Transport: RTP/AVP;unicast;client_port=39876-39877
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 5
         |SERVER
         |Session: session1;timeout=60
         |Transport: RTP/AVP;unicast;client_port=39876-39877;server_port=8000-8001;source=10.0.0.1;ssrc=000003EC;mode=\"PLAY\"
         |Cache-Control: no-cache
         |",
    );
    exchange(
        &mut server,
        conn,
        "|PLAY rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 6
         |AGENT
         |Session: session1
         |Range: npt=0.000-
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 6
         |SERVER
         |Session: session1
         |Range: npt=0.000-
         |RTP-Info: url=rtsp://10.0.0.1:8554/nature/bunny/track=1;seq=1002;rtptime=1003,url=rtsp://10.0.0.1:8554/nature/bunny/track=2;seq=1005;rtptime=1006
         |",
    );
    exchange(
        &mut server,
        conn,
        "|GET_PARAMETER rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 7
         |AGENT
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 7
         |SERVER
         |Session: session1
         |",
    );
    // The client seeks with PAUSE and PLAY with a range.
    server.stream_is_at("session1", SECOND);
    exchange(
        &mut server,
        conn,
        "|PAUSE rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 8
         |AGENT
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 8
         |SERVER
         |Session: session1
         |Range: npt=1.000-
         |",
    );
    exchange(
        &mut server,
        conn,
        "|PLAY rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 9
         |AGENT
         |Session: session1
         |Scale: 1.000000
         |Range: npt=6.200-
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 9
         |SERVER
         |Session: session1
         |Range: npt=6.000-
         |RTP-Info: url=rtsp://10.0.0.1:8554/nature/bunny/track=1;seq=1602;rtptime=541003,url=rtsp://10.0.0.1:8554/nature/bunny/track=2;seq=1605;rtptime=289006
         |Scale: 1.0
         |",
    );
    // OPTIONS is the client's other sign of life.
    exchange(
        &mut server,
        conn,
        "|OPTIONS rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 10
         |AGENT
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 10
         |SERVER
         |Public: OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER
         |Session: session1
         |",
    );
    exchange(
        &mut server,
        conn,
        "|TEARDOWN rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 11
         |AGENT
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 11
         |SERVER
         |Session: session1
         |",
    );
}

#[test]
fn over_tcp_with_reports_between_requests() {
    let mut server = Server::new();
    let conn = server.connect();
    options_and_describe(&mut server, conn);
    exchange(
        &mut server,
        conn,
        "|SETUP rtsp://10.0.0.1:8554/nature/bunny/track=1 RTSP/1.0
         |CSeq: 4
         |AGENT
         |Transport: RTP/AVP/TCP;unicast;interleaved=0-1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 4
         |SERVER
         |Session: session1;timeout=60
         |Transport: RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=000003E9;mode=\"PLAY\"
         |Cache-Control: no-cache
         |",
    );
    exchange(
        &mut server,
        conn,
        "|SETUP rtsp://10.0.0.1:8554/nature/bunny/track=2 RTSP/1.0
         |CSeq: 5
         |AGENT
         |Transport: RTP/AVP/TCP;unicast;interleaved=2-3
         |Session: session1
         |",
        "|RTSP/1.0 200 OK
         |CSeq: 5
         |SERVER
         |Session: session1;timeout=60
         |Transport: RTP/AVP/TCP;unicast;interleaved=2-3;ssrc=000003EC;mode=\"PLAY\"
         |Cache-Control: no-cache
         |",
    );
    let mut bytes = wire(
        "|PLAY rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0
         |CSeq: 6
         |AGENT
         |Session: session1
         |Range: npt=0.000-
         |",
    )
    .into_bytes();
    // A receiver report (32 bytes) and a name (12 bytes) on track 1's RTCP channel; then the next
    // request.
    bytes.extend([b'$', 1, 0, 44, 0x81, 201, 0, 7]);
    bytes.extend([0x0a; 4]);
    bytes.extend(1001u32.to_be_bytes());
    bytes.extend([0; 20]);
    bytes.extend([0x81, 202, 0, 2, 0x0a, 0x0a, 0x0a, 0x0a, 1, 1, b'h', 0]);
    bytes.extend(wire("|GET_PARAMETER rtsp://10.0.0.1:8554/nature/bunny/ RTSP/1.0\n|CSeq: 7\n|AGENT\n|Session: session1\n|").into_bytes());
    let answers = server.send(conn, &bytes);
    let wanted = wire(
        "|RTSP/1.0 200 OK
         |CSeq: 6
         |SERVER
         |Session: session1
         |Range: npt=0.000-
         |RTP-Info: url=rtsp://10.0.0.1:8554/nature/bunny/track=1;seq=1002;rtptime=1003,url=rtsp://10.0.0.1:8554/nature/bunny/track=2;seq=1005;rtptime=1006
         |
         |RTSP/1.0 200 OK
         |CSeq: 7
         |SERVER
         |Session: session1
         |",
    );
    assert_eq!(answers, wanted);
    assert!(
        server.story().contains(&"44 bytes of RTCP".to_owned()),
        "the report was heard"
    );
}
