//! Parsing of bytes into messages from well-behaved and hostile clients.

use proptest::prelude::*;
use reelway_rtsp::message::{Message, Method, Request};
use reelway_rtsp::parser::{Bounds, Malformed, Parser};
use reelway_rtsp::response::Status;

/// Returns everything the parser yields for `bytes` in chunks of `cut`.
fn parse_cut(bytes: &[u8], cut: usize) -> Vec<Result<Message, Malformed>> {
    let mut parser = Parser::new(Bounds::default());
    let mut out = Vec::new();
    for piece in bytes.chunks(cut.max(1)) {
        parser.push(piece);
        loop {
            match parser.next() {
                Ok(None) => break,
                Ok(Some(message)) => out.push(Ok(message)),
                Err(bad) => out.push(Err(bad)),
            }
        }
    }
    out
}

fn parse(bytes: &[u8]) -> Vec<Result<Message, Malformed>> {
    let whole = parse_cut(bytes, bytes.len());
    assert_eq!(whole, parse_cut(bytes, 1), "cut into single bytes");
    assert_eq!(whole, parse_cut(bytes, 7), "cut into sevens");
    whole
}

fn request(bytes: &[u8]) -> Request {
    match parse(bytes).as_slice() {
        [Ok(Message::Request(request))] => request.clone(),
        other => panic!("one request expected: {other:?}"),
    }
}

fn refusal(bytes: &[u8]) -> Malformed {
    match parse(bytes).as_slice() {
        [Err(bad)] => bad.clone(),
        other => panic!("one refusal expected: {other:?}"),
    }
}

#[test]
fn a_request_has_method_url_headers_and_body() {
    let request = request(
        b"SET_PARAMETER rtsp://h/a b RTSP/1.0\r\nCSeq: 7\r\nsession:  abc;timeout=60 \r\nContent-Length: 4\r\n\r\na: b",
    );
    assert_eq!(request.method, Method::SetParameter);
    assert_eq!(request.url, "rtsp://h/a b");
    assert_eq!(request.version, (1, 0));
    assert_eq!(
        (request.cseq(), request.session()),
        (Some("7"), Some("abc"))
    );
    assert_eq!(request.body, b"a: b");
}

#[test]
fn lines_end_by_any_of_the_three_endings() {
    let crlf = request(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    assert_eq!(request(b"OPTIONS * RTSP/1.0\nCSeq: 1\n\n"), crlf);
    assert_eq!(request(b"OPTIONS * RTSP/1.0\rCSeq: 1\r\r"), crlf);
    assert_eq!(request(b"OPTIONS * RTSP/1.0\nCSeq: 1\r\n\r\n"), crlf);
}

#[test]
fn headers_may_be_folded_spaced_and_of_any_case() {
    let request = request(b"PLAY rtsp://h/x RTSP/1.0\r\ncseq :1\r\nRANGE:\r\n  npt=1-\r\n\t2\r\nRange: second\r\n\r\n");
    assert_eq!(request.cseq(), Some("1"));
    assert_eq!(request.headers.get("Range"), Some("npt=1- 2"));
    assert_eq!(request.headers.all("range").count(), 2);
}

#[test]
fn pipelined_requests_frames_answers_and_empty_lines_come_apart_in_order() {
    let mut bytes = b"\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_vec();
    bytes.extend_from_slice(b"$\x01\x00\x04\x80\xc9\r\n");
    bytes.extend_from_slice(b"RTSP/1.0 200 OK\r\nCSeq: 9\r\nContent-Length: 3\r\n\r\n$$$");
    bytes.extend_from_slice(
        b"\r\nGET_PARAMETER rtsp://h/x RTSP/1.0\r\nCSeq: 2\r\nContent-Length: 0\r\n\r\n",
    );
    bytes.extend_from_slice(b"$\x02\x00\x00TEARDOWN rtsp://h/x RTSP/1.0\r\nCSeq: 3\r\n\r\n");
    let names: Vec<String> = parse(&bytes)
        .into_iter()
        .map(|message| match message.unwrap() {
            Message::Request(request) => format!("{} {}", request.method, request.cseq().unwrap()),
            Message::Frame { channel, data } => format!("${channel} {}", data.len()),
        })
        .collect();
    assert_eq!(
        names,
        ["OPTIONS 1", "$1 4", "GET_PARAMETER 2", "$2 0", "TEARDOWN 3"]
    );
}

#[test]
fn a_long_frame_is_passed_over_without_being_kept() {
    let mut bytes = vec![b'$', 0, 0xff, 0xff];
    bytes.resize(4 + 0xffff, b'O');
    bytes.extend_from_slice(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    assert_eq!(request(&bytes).method, Method::Options);
}

#[test]
fn a_broken_header_is_answered_with_its_sequence_number_and_the_next_request_is_understood() {
    let out = parse(
        b"OPTIONS * RTSP/1.0\r\nCSeq: 5\r\nno colon\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 6\r\n\r\n",
    );
    let [Err(bad), Ok(Message::Request(next))] = out.as_slice() else {
        panic!("{out:?}")
    };
    assert_eq!(
        (bad.status, bad.cseq.as_deref(), bad.lost),
        (Status::BAD_REQUEST, Some("5"), false)
    );
    assert!(bad.reason.contains("no colon"));
    assert_eq!(next.cseq(), Some("6"));
}

#[test]
fn what_is_no_request_is_refused_and_nothing_after_it_is_read() {
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n\n"[..], Status::BAD_REQUEST),
        (b"hello\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", Status::BAD_REQUEST),
        (b"OPTIONS RTSP/1.0\r\nCSeq: 4\r\n\r\n", Status::BAD_REQUEST),
        (b"OPTIONS * RTSP/one\r\nCSeq: 4\r\n\r\n", Status::BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", Status::VERSION_NOT_SUPPORTED),
        (b"POST /x HTTP/1.1\r\nContent-Length: 40\r\n\r\nSETUP rtsp://h/x RTSP/1.0\r\nCSeq: 1\r\n\r\n", Status::VERSION_NOT_SUPPORTED),
    ] {
        let bad = refusal(bytes);
        assert!(bad.lost && bad.status == status, "{bad:?}");
    }
    assert_eq!(
        refusal(b"OPTIONS RTSP/1.0\r\nCSeq: 4\r\n\r\n")
            .cseq
            .as_deref(),
        Some("4")
    );
}

#[test]
fn a_method_is_a_token_of_at_most_32_characters() {
    let line = |method: &str| format!("{method} * RTSP/1.0\r\nCSeq: 4\r\n\r\n");
    for method in ["x", "PLAY-2", "!#$%&'*+-.^_`|~", &"A".repeat(32)] {
        let other = Method::Other(method.to_owned());
        assert_eq!(request(line(method).as_bytes()).method, other);
    }
    for method in [
        &"A".repeat(33),
        "PL(AY",
        "PL\"AY",
        "PLÄY",
        "PL\u{7f}AY",
        "PL:AY",
    ] {
        let bad = refusal(line(method).as_bytes());
        assert_eq!((bad.status, bad.lost), (Status::BAD_REQUEST, true));
        assert_eq!(bad.cseq.as_deref(), Some("4"));
        assert!(bad.reason.starts_with("not a method: '"), "{}", bad.reason);
    }
}

#[test]
fn a_huge_body_is_refused_before_it_comes() {
    for length in ["1073741824", "99999999999999999999999999"] {
        let bad = refusal(
            format!("SET_PARAMETER * RTSP/1.0\r\nCSeq: 3\r\nContent-Length: {length}\r\n\r\nxxx")
                .as_bytes(),
        );
        assert_eq!(
            (bad.status, bad.cseq.as_deref(), bad.lost),
            (Status::ENTITY_TOO_LARGE, Some("3"), true)
        );
    }
}

#[test]
fn a_length_that_is_none_leaves_no_way_to_the_next_message() {
    for lengths in [
        "Content-Length: -1",
        "Content-Length: x",
        "Content-Length: 1\r\nContent-Length: 2",
    ] {
        let bad =
            refusal(format!("SET_PARAMETER * RTSP/1.0\r\nCSeq: 3\r\n{lengths}\r\n\r\n").as_bytes());
        assert_eq!(
            (bad.status, bad.lost),
            (Status::BAD_REQUEST, true),
            "{lengths}"
        );
    }
    assert_eq!(
        request(b"OPTIONS * RTSP/1.0\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n").body,
        b""
    );
}

#[test]
fn a_head_without_end_is_refused_at_its_bound() {
    let most = Bounds::default().head;
    let uri = refusal(&vec![b'A'; most + 1]);
    assert_eq!((uri.status, uri.lost), (Status::URI_TOO_LARGE, true));
    let mut headers = b"OPTIONS * RTSP/1.0\r\nCSeq: 8\r\n".to_vec();
    headers.extend(b"A: b\r\n".repeat(most / 6));
    let bad = refusal(&headers);
    assert_eq!(
        (bad.status, bad.cseq.as_deref(), bad.lost),
        (Status::ENTITY_TOO_LARGE, Some("8"), true)
    );
    let mut many = b"OPTIONS * RTSP/1.0\r\nCSeq: 8\r\n".to_vec();
    many.extend(b"A: b\r\n".repeat(200));
    many.extend(b"\r\n");
    let bad = refusal(&many);
    assert_eq!(
        (bad.status, bad.cseq.as_deref()),
        (Status::ENTITY_TOO_LARGE, Some("8"))
    );
}

#[test]
fn a_sequence_number_that_is_none_is_not_echoed() {
    for cseq in ["1 2", "x", "", "-1", "111111111111111111111"] {
        assert_eq!(
            request(format!("OPTIONS * RTSP/1.0\r\nCSeq: {cseq}\r\n\r\n").as_bytes()).cseq(),
            None,
            "{cseq}"
        );
    }
}

/// Hostile input: pieces of messages and arbitrary bytes.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            &b"OPTIONS * RTSP/1.0\r\n"[..], b"PLAY rtsp://h/x RTSP/1.0\n", b"CSeq: 1\r\n", b"CSeq: ", b"\r\n", b"\r", b"\n",
            b"\r\n\r\n", b"Content-Length: 5\r\n", b"Content-Length: 99999999\r\n", b" folded\r\n", b"$\x00\x00\x03abc",
            b"$\x01\xff\xff", b"RTSP/1.0 200 OK\r\n\r\n", b"$", b":", b"\0", b"\xff\xfe",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_understood_the_same_in_any_cut_and_kept_within_bounds(bytes in hostile(), cut in 1usize..50) {
        prop_assert_eq!(parse_cut(&bytes, bytes.len()), parse_cut(&bytes, cut));
    }

    #[test]
    fn any_request_is_understood_as_written(
        url in "[!-~é🎬]{1,40}",
        headers in prop::collection::vec(("X-[A-Za-z-]{1,12}", "[!-~]{1,20}"), 0..10),
        body in prop::collection::vec(any::<u8>(), 0..100),
        cut in 1usize..100,
    ) {
        let mut bytes = format!("DESCRIBE {url} RTSP/1.0\r\nContent-Length: {}\r\n", body.len()).into_bytes();
        for (name, value) in &headers {
            bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        let out = parse_cut(&bytes, cut);
        let [Ok(Message::Request(request))] = out.as_slice() else { panic!("{out:?}") };
        prop_assert_eq!(&request.url, &url);
        prop_assert_eq!(&request.body, &body);
        let own = request.headers.iter().skip(1).map(|(name, value)| (name.to_owned(), value.to_owned()));
        prop_assert_eq!(own.collect::<Vec<_>>(), headers);
    }
}
