//! Traces: a written trace is read back unchanged, and errors name their line.

use std::time::Duration;

use reelway_cache::sim::{Workload, read_csv, read_oracle_general, read_vscsi, write_csv};

#[test]
fn a_made_workload_is_the_same_after_it_was_a_file() {
    let workload = Workload {
        films: 5,
        block: 16 << 20,
        duration: Duration::from_secs(4 * 3600),
        warmup: Duration::from_secs(2 * 3600),
        arrivals: 0.01,
        leave: 0.5,
        seeks: 1.0,
        fast: 0.5,
        ..Workload::default()
    };
    let made = workload.make().expect("a workload");
    let mut file = Vec::new();
    write_csv(&made, &mut file).expect("a file");
    let read = read_csv(&file[..]).expect("a trace");
    assert!(made.events.len() > 100 && made.events == read.events);
    assert_eq!((made.films, made.warm), (read.films, read.warm));
}

#[test]
fn ids_without_films_are_objects_of_their_own() {
    let read = read_csv("1,77,10\n2,5,30\n2,77,20\n".as_bytes()).expect("a trace");
    assert_eq!(
        (read.objects(), read.catalogue, read.events.len()),
        (2, 50, 3)
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, words) in [
        ("", "there is no request in it"),
        ("1,2\n", "line 1: time,id,bytes is needed"),
        ("1,2,3\n0.5,2,3\n", "line 2: time 0.5 comes after 1"),
        ("1,x,3\n", "line 1: id `x`: a number is needed"),
        ("1,2,0\n", "line 1: a request for 0 bytes"),
        ("NaN,2,1\n", "line 1: time NaN"),
        ("1,2,5000000000\n", "line 1: bytes `5000000000`"),
        (
            "# film 2 10\n1,2,3\n",
            "line 2: id 2: the films declared have blocks 0 to 1",
        ),
        ("# film 0 10\n1,2,3\n", "line 1: a film of 0 blocks"),
        ("# film 2 -1\n1,2,3\n", "line 1: a film of -1 seconds"),
        ("1,2,3,4,1000\n", "line 1: speed 1000"),
    ] {
        let error = read_csv(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with(words), "{text:?}: {error}");
    }
    let error = read_csv(&[0xff, 0xfe, 0][..])
        .expect_err("no text")
        .to_string();
    assert!(error.contains("no text"), "{error}");
    let endless = [b'1'; 10_000];
    let error = read_csv(&endless[..]).expect_err("no line").to_string();
    assert!(error.contains("longer than"), "{error}");
}

#[test]
fn records_of_oracle_general_are_read() {
    let mut file = Vec::new();
    for (time, id, bytes) in [(100u32, 1u64 << 40, 5u32), (101, 7, 6), (103, 1 << 40, 5)] {
        file.extend(time.to_le_bytes());
        file.extend(id.to_le_bytes());
        file.extend(bytes.to_le_bytes());
        file.extend((-1i64).to_le_bytes());
    }
    let read = read_oracle_general(&file[..]).expect("a trace");
    assert_eq!((read.objects(), read.catalogue), (2, 11));
    let at: Vec<u64> = read.events.iter().map(|event| event.at()).collect();
    assert_eq!(at, [0, 1000, 3000]);
    let error = read_oracle_general(&file[..30]).expect_err("cut off");
    assert_eq!(error.to_string(), "line 2: cut off: records have 24 bytes");
}

#[test]
fn records_of_vscsi_are_read_in_both_versions() {
    let requests = [
        (100u64, 1u64 << 40, 4096u32),
        (101, 7, 512),
        (103, 1 << 40, 4096),
    ];
    let mut first = Vec::new();
    let mut second = Vec::new();
    for (number, (time, block, bytes)) in requests.into_iter().enumerate() {
        let (serial, segments) = ((number as u32).to_le_bytes(), 1u32.to_le_bytes());
        let micros = (time * 1_000_000).to_le_bytes();
        for part in [
            &serial[..],
            &bytes.to_le_bytes(),
            &segments,
            &[0x28, 0, 0, 1],
        ] {
            first.extend(part);
        }
        for part in [
            &[0x28, 0, 0, 2][..],
            &serial,
            &bytes.to_le_bytes(),
            &segments,
        ] {
            second.extend(part);
        }
        for file in [&mut first, &mut second] {
            file.extend(block.to_le_bytes());
            file.extend(micros);
        }
        second.extend(5u64.to_le_bytes());
    }
    assert_eq!((first.len(), second.len()), (3 * 32, 3 * 40));
    for file in [&first, &second] {
        let read = read_vscsi(&file[..]).expect("a trace");
        assert_eq!((read.objects(), read.catalogue), (2, 4608));
        let at: Vec<u64> = read.events.iter().map(|event| event.at()).collect();
        assert_eq!(at, [0, 1000, 3000]);
    }
    let cut = read_vscsi(&second[..50]).expect_err("cut off").to_string();
    assert_eq!(cut, "line 2: cut off: records have 40 bytes");
    second[43] = 1;
    let mixed = read_vscsi(&second[..])
        .expect_err("two versions")
        .to_string();
    assert!(mixed.starts_with("line 2: version 1 among"), "{mixed}");
    assert!(read_vscsi(&[7; 64][..]).is_err());
}
