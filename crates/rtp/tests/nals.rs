//! H.264 and H.265: NAL units of the film arrive unchanged.

mod common;

use common::{Film, Received, h264, h265, payload, receive, send, track, with_lengths};
use proptest::prelude::*;
use reelway_rtp::{Damage, PlanError};

/// Pictures of NAL units with this header and up to `longest` bytes each.
fn nals(header: fn(u8, u8) -> Vec<u8>, longest: usize) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let small = 2..longest.min(60);
    let all = 2..longest;
    let size = prop_oneof![3 => small, 1 => all];
    let nal = (any::<u8>(), any::<u8>(), size, any::<u64>()).prop_map(
        move |(kind, extra, size, seed)| {
            let mut nal = common::noise(seed, size);
            let header = header(kind, extra);
            nal[..header.len()].copy_from_slice(&header);
            nal
        },
    );
    prop::collection::vec(prop::collection::vec(nal, 0..40), 1..5)
}

/// A length size, and pictures whose units it can express.
fn film(header: fn(u8, u8) -> Vec<u8>) -> impl Strategy<Value = (u8, Vec<Vec<Vec<u8>>>)> {
    prop_oneof![
        nals(header, 256).prop_map(|pictures| (1, pictures)),
        nals(header, 9000).prop_map(|pictures| (2, pictures)),
        nals(header, 9000).prop_map(|pictures| (4, pictures)),
    ]
}

/// H.264 types 1 to 23, including access unit delimiters; some have F set.
fn h264_header(kind: u8, extra: u8) -> Vec<u8> {
    vec![(extra & 0xe0) | (1 + kind % 23)]
}

/// H.265 types 0 to 47 with any layer and sub-layer; some have F set.
fn h265_header(kind: u8, extra: u8) -> Vec<u8> {
    vec![
        (kind & 0x80) | ((kind % 48) << 1) | (extra & 1),
        (extra & 0xf8) | (1 + extra % 7),
    ]
}

/// Checks that all packets fit.
fn sound(packets: &[Received], max_payload: usize) {
    assert!(
        packets
            .iter()
            .all(|packet| packet.payload.len() <= max_payload)
    );
}

/// The pictures as they should arrive: without delimiters and without empty pictures.
fn expected(
    pictures: &[Vec<Vec<u8>>],
    is_delimiter: fn(&[u8]) -> bool,
) -> Vec<(u32, Vec<Vec<u8>>)> {
    (0..)
        .zip(pictures)
        .map(|(nth, nals)| {
            (
                nth * 3600,
                nals.iter()
                    .filter(|nal| !is_delimiter(nal))
                    .cloned()
                    .collect(),
            )
        })
        .filter(|(_, nals): &(u32, Vec<Vec<u8>>)| !nals.is_empty())
        .collect()
}

proptest! {
    #[test]
    fn h264_arrives_as_it_was((length_size, pictures) in film(h264_header), max_payload in 16usize..2000) {
        let film = Film::of_nals(&pictures, length_size, 3600);
        let payload = payload(&track(h264(length_size), 90_000), max_payload);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        sound(&packets, max_payload);
        prop_assert_eq!(receive::h264(&packets), expected(&pictures, |nal| nal[0] & 0x1f == 9));
    }

    #[test]
    fn h265_arrives_as_it_was((length_size, pictures) in film(h265_header), max_payload in 16usize..2000) {
        let film = Film::of_nals(&pictures, length_size, 3600);
        let payload = payload(&track(h265(length_size), 90_000), max_payload);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        sound(&packets, max_payload);
        prop_assert_eq!(receive::h265(&packets), expected(&pictures, |nal| (nal[0] >> 1) & 0x3f == 35));
    }

    #[test]
    fn noise_for_a_film_is_planned_or_left_out_but_never_read_beyond_its_sample(
        samples in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
        length_size in prop::sample::select(vec![1u8, 2, 4]),
        max_payload in 16usize..200,
    ) {
        let film = Film::of(&samples, 3600);
        for codec in [h264(length_size), h265(length_size)] {
            let payload = payload(&track(codec, 90_000), max_payload);
            let plan = payload.plan(&film.samples, &film.bytes.as_slice()).expect("all is in memory");
            sound(&send(&plan, &film.bytes), max_payload);
            match plan.damage {
                None => {}
                Some(Damage::NalTooLong { offset, length, left }) => {
                    prop_assert!(length > left || left == 0);
                    prop_assert!(film.samples.iter().any(|timed| timed.sample.bytes().contains(&offset)));
                }
                Some(damage) => panic!("{damage}"),
            }
        }
    }
}

fn plan_of(nals: &[Vec<u8>], max_payload: usize) -> Vec<Received> {
    let film = Film::of_nals(&[nals.to_vec()], 4, 3600);
    let payload = payload(&track(h264(4), 90_000), max_payload);
    send(
        &payload.plan(&film.samples, &film.bytes.as_slice()).unwrap(),
        &film.bytes,
    )
}

#[test]
fn fragments_of_a_picture_are_of_one_size_so_that_they_leave_in_one_send() {
    for size in [1441, 1442, 2000, 2878, 2879, 2880, 50_000, 123_457] {
        let mut nal = common::noise(1, size);
        nal[0] = 0x65;
        let sizes: Vec<usize> = plan_of(&[nal], 1440)
            .iter()
            .map(|packet| packet.payload.len())
            .collect();
        let (last, others) = sizes.split_last().unwrap();
        assert!(!others.is_empty());
        assert!(others.iter().all(|size| *size == others[0]), "{sizes:?}");
        assert!(
            *last <= others[0] && *last + others.len() + 1 >= others[0],
            "the last is hardly shorter: {sizes:?}"
        );
        let fewest = (size - 1).div_ceil(1438);
        assert_eq!(sizes.len(), fewest, "no more packets than needed");
    }
}

#[test]
fn a_unit_that_just_fits_is_sent_as_it_is() {
    let mut nal = common::noise(1, 1440);
    nal[0] = 0x65;
    let packets = plan_of(std::slice::from_ref(&nal), 1440);
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].payload, nal);
    assert!(packets[0].marker);
}

#[test]
fn units_share_a_packet_as_long_as_they_fit() {
    let sizes = |codec, nals: &[Vec<u8>], max_payload| {
        let film = Film::of_nals(&[nals.to_vec()], 4, 3600);
        let plan = payload(&track(codec, 90_000), max_payload)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        let packets = send(&plan, &film.bytes).into_iter();
        packets.map(|it| it.payload.len()).collect::<Vec<_>>()
    };
    // A payload header of one byte for H.264 and two for H.265, and a two-byte length before each
    // unit.
    let nals = vec![[vec![0x41, 1], vec![7; 98]].concat(); 3];
    assert_eq!(sizes(h264(4), &nals, 307), [307]);
    assert_eq!(sizes(h264(4), &nals, 306), [205, 100]);
    let nals = vec![[vec![0x02, 1], vec![7; 98]].concat(); 3];
    assert_eq!(sizes(h265(4), &nals, 308), [308]);
    assert_eq!(sizes(h265(4), &nals, 307), [206, 100]);
}

#[test]
fn the_packets_of_a_picture_need_no_pieces_of_their_own() {
    // Single units, and fragments after their headers: a head of a few bytes and one run of the
    // film.
    for (codec, head) in [(h264(4), 2), (h265(4), 3)] {
        let nals = vec![[vec![0x02, 1], vec![7; 400]].concat(), vec![2, 1, 8, 8]];
        let film = Film::of_nals(&[nals], 4, 3600);
        let plan = payload(&track(codec, 90_000), 200)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        assert_eq!(plan.pieces, []);
        let heads: Vec<usize> = plan
            .packets
            .iter()
            .map(|packet| packet.run().expect("a run").0.len())
            .collect();
        assert_eq!(heads, [head, head, head, 0]);
        assert!(plan.packets.iter().all(|it| plan.pieces_of(it).is_empty()));
    }
    // An aggregation packet has a piece for its header and one for each unit.
    let film = Film::of_nals(&[vec![vec![2, 1, 8, 8]; 3]], 1, 3600);
    let plan = payload(&track(h264(1), 90_000), 200)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    assert_eq!(plan.packets[0].run(), None);
    assert_eq!(plan.payload_bytes(&plan.frames[0]), 1 + 3 * (2 + 4));
}

#[test]
fn small_neighbours_share_a_packet() {
    let nals = [vec![0x06, 1, 2], vec![0x41, 3, 4, 5], vec![0x61, 6]];
    let packets = plan_of(&nals, 1440);
    assert_eq!(packets.len(), 1);
    assert_eq!(
        packets[0].payload,
        [0x78, 0, 3, 6, 1, 2, 0, 4, 0x41, 3, 4, 5, 0, 2, 0x61, 6]
    );
}

#[test]
fn no_packet_holds_more_than_a_bounded_number_of_units_even_if_all_are_tiny() {
    let nals = vec![vec![0x41]; 100_000];
    let film = Film::of_nals(std::slice::from_ref(&nals), 1, 3600);
    let payload = payload(&track(h264(1), 90_000), 1440);
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let packets = send(&plan, &film.bytes);
    assert_eq!(packets.len(), 100_000 / 16);
    assert_eq!(receive::h264(&packets), [(0, nals)]);
}

#[test]
fn empty_samples_and_units_of_no_length_send_nothing() {
    for length_size in [1, 2, 4] {
        let nothing = vec![vec![]; 5];
        let film = Film::of(
            &[vec![], with_lengths(&nothing, length_size), vec![0]],
            3600,
        );
        let payload = payload(&track(h264(length_size), 90_000), 1440);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        assert!(plan.frames.is_empty() && plan.packets.is_empty());
    }
}

#[test]
fn what_comes_before_a_length_beyond_its_sample_is_sent_and_the_film_goes_on() {
    let film = Film::of(
        &[
            vec![0, 0, 0, 1, 0x65],
            vec![0, 0, 0, 1, 0x41, 0, 0, 0, 9, 0x41, 1],
            vec![0, 0, 0, 9, 0x41],
            vec![0, 0, 0, 1, 0x41],
        ],
        3600,
    );
    let payload = payload(&track(h264(4), 90_000), 1440);
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let sent = send(&plan, &film.bytes);
    let units: Vec<_> = sent.iter().map(|packet| &packet.payload[..]).collect();
    assert_eq!(units, [[0x65], [0x41], [0x41]]);
    assert_eq!(plan.frames.len(), 3, "of the third picture nothing is left");
    let damage = plan.damage.expect("the first is told");
    let offset = (common::HEAD + 10) as u64;
    assert_eq!(
        damage,
        Damage::NalTooLong {
            offset,
            length: 9,
            left: 2
        }
    );
    assert!(
        damage
            .to_string()
            .starts_with("byte 47: a NAL unit of 9 bytes, but only 2 are left")
    );
}

#[test]
fn bytes_that_are_not_in_memory_are_named() {
    let film = Film::of(&[vec![0, 0, 0, 1, 0x65]], 3600);
    let payload = payload(&track(h264(4), 90_000), 1440);
    let error = payload
        .plan(&film.samples, &&film.bytes[..common::HEAD + 2])
        .unwrap_err();
    assert_eq!(
        error,
        PlanError::Missing {
            offset: common::HEAD as u64
        }
    );
}

#[test]
fn what_no_other_picture_needs_may_be_dropped() {
    let droppable = |codec, first_bytes: &[[u8; 2]]| {
        let nals: Vec<Vec<u8>> = first_bytes.iter().map(|nal| nal.to_vec()).collect();
        let film = Film::of_nals(&[nals], 4, 3600);
        payload(&track(codec, 90_000), 1440)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap()
            .frames[0]
            .droppable
    };
    assert!(droppable(h264(4), &[[0x06, 0], [0x01, 0], [0x01, 0]]));
    assert!(!droppable(h264(4), &[[0x01, 0], [0x21, 0]]));
    assert!(!droppable(h264(4), &[[0x06, 0]]), "not a picture");
    // TRAIL_N and TRAIL_R in the only sub-layer; then a TRAIL_N outside it.
    assert!(droppable(h265(4), &[[0x4e, 1], [0x00, 1]]));
    assert!(!droppable(h265(4), &[[0x02, 1]]));
    assert!(!droppable(h265(4), &[[0x00, 2]]));
}

/// Returns for each NAL unit type whether a picture of it alone is droppable; `None` if it is not
/// sent.
fn roles(
    codec: fn(u8) -> reelway_media::Codec,
    header: impl Fn(u8) -> Vec<u8>,
    kinds: u8,
) -> Vec<Option<bool>> {
    let role = |kind| {
        let film = Film::of_nals(&[vec![header(kind)]], 4, 3600);
        let plan = payload(&track(codec(4), 90_000), 1440)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        plan.frames.first().map(|frame| frame.droppable)
    };
    (0..kinds).map(role).collect()
}

/// Returns a role repeated `count` times.
fn times(count: usize, role: Option<bool>) -> Vec<Option<bool>> {
    vec![role; count]
}

#[test]
fn the_type_of_a_unit_says_whether_it_is_sent_and_may_be_dropped() {
    let (dropped, kept, droppable) = (None, Some(false), Some(true));
    // ITU-T H.264 table 7-1: 1 to 5 are slices, 9 is the delimiter. RFC 6184 table 1: 0 and 24 to
    // 31 are RTP's own.
    let expected = |slices| {
        [
            times(1, dropped),
            times(5, slices),
            times(3, kept),
            times(1, dropped),
            times(14, kept),
            times(8, dropped),
        ]
        .concat()
    };
    assert_eq!(roles(h264, |kind| vec![kind, 0], 32), expected(droppable));
    for nri in [1, 2, 3] {
        assert_eq!(
            roles(h264, |kind| vec![nri << 5 | kind, 0], 32),
            expected(kept)
        );
    }
    // ITU-T H.265 table 7-1: the even types below 16 are sub-layer non-reference pictures, 35 is
    // the delimiter. RFC 7798 uses types from 48.
    let expected = |even| {
        [
            [even, kept].repeat(8),
            times(19, kept),
            times(1, dropped),
            times(12, kept),
            times(16, dropped),
        ]
        .concat()
    };
    assert_eq!(
        roles(h265, |kind| vec![kind << 1, 1], 64),
        expected(droppable)
    );
    assert_eq!(roles(h265, |kind| vec![kind << 1, 2], 64), expected(kept));
}

#[test]
fn only_pictures_of_the_highest_sub_layer_may_be_dropped() {
    // Three sub-layers: sps_max_sub_layers_minus1 is 2, after four bits and before one.
    let layered = |length_size| {
        let mut codec = h265(length_size);
        if let reelway_media::Codec::H265(config) = &mut codec {
            config.sps = vec![vec![0x42, 0x01, 0x10, 1], vec![0x42, 0x01, 0xf5, 1]];
        }
        codec
    };
    for (temporal_id_plus1, expected) in [(1, false), (2, false), (3, true), (4, false)] {
        // The same holds in layer 33.
        for header in [[0, temporal_id_plus1], [1, 1 << 3 | temporal_id_plus1]] {
            let roles = roles(layered, |_| header.to_vec(), 1);
            assert_eq!(roles, [Some(expected)], "{header:?}");
        }
    }
}

#[test]
fn zeros_behind_the_last_unit_are_padding_and_other_bytes_are_damage() {
    for (padding, damaged) in [
        (&[0][..], None),
        (&[0, 0, 0], None),
        (&[1], Some(1)),
        (&[0, 2], Some(2)),
        (&[0, 1, 0], Some(256)),
    ] {
        let sample = [&with_lengths(&[vec![0x65, 1, 2]], 4)[..], padding].concat();
        let film = Film::of(&[sample], 3600);
        let payload = payload(&track(h264(4), 90_000), 1440);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        assert_eq!(send(&plan, &film.bytes)[0].payload, [0x65, 1, 2]);
        let offset = (common::HEAD + 7) as u64;
        let left = 0;
        let damage = damaged.map(|length| Damage::NalTooLong {
            offset,
            length,
            left,
        });
        assert_eq!(plan.damage, damage);
    }
}

#[test]
fn a_unit_shorter_than_its_header_is_passed_over() {
    let nals = [vec![0x02], vec![0x02, 1, 5], vec![], vec![0x02, 1, 6]];
    let film = Film::of_nals(&[nals.to_vec()], 2, 3600);
    let plan = payload(&track(h265(2), 90_000), 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    let received = receive::h265(&send(&plan, &film.bytes));
    assert_eq!(received, [(0, vec![nals[1].clone(), nals[3].clone()])]);
}

#[test]
fn parameter_sets_come_before_the_first_picture_in_packets_of_their_own() {
    let h264 = payload(&track(h264(2), 90_000), 1440);
    let packets = send(h264.preface(), &[]);
    let sets = [vec![0x67, 0x64, 0x00, 0x1f, 0xac], vec![0x68, 0xeb, 0xe3]];
    assert_eq!(packets.len(), 1);
    assert!(
        !packets[0].marker,
        "the picture that follows has the marker"
    );
    let marked = Received {
        marker: true,
        ..packets[0].clone()
    };
    assert_eq!(receive::h264(&[marked]), [(0, sets.to_vec())]);

    let h265 = payload(&track(h265(4), 90_000), 1440);
    let packets = send(h265.preface(), &[]);
    let marked = Received {
        marker: true,
        ..packets[0].clone()
    };
    let sets = [
        vec![0x40, 0x01, 0x0c],
        vec![0x42, 0x01, 0x01, 0x01],
        vec![0x44, 0x01, 0xc1],
    ];
    assert_eq!(receive::h265(&[marked]), [(0, sets.to_vec())]);
}

#[test]
fn long_parameter_sets_are_fragmented_like_any_unit() {
    let mut sps = common::noise(3, 100);
    sps[0] = 0x67;
    let mut codec = h264(4);
    if let reelway_media::Codec::H264(config) = &mut codec {
        config.sps = vec![sps.clone()];
    }
    let mut packets = send(payload(&track(codec, 90_000), 32).preface(), &[]);
    sound(&packets, 32);
    packets.last_mut().unwrap().marker = true;
    assert_eq!(
        receive::h264(&packets),
        [(0, vec![sps, vec![0x68, 0xeb, 0xe3]])]
    );
}
