//! RTCP checked against an independent implementation and against noise.

use proptest::prelude::*;
use reelway_rtp::rtcp::{Nack, Packet, ReceptionReport, RtcpError, SenderReport, read, write};
use rtcp_types::{
    Bye, Compound, ReceiverReport, ReportBlock, RtcpPacketWriterExt, Sdes, SdesChunk, SdesItem,
};

const REPORT: SenderReport = SenderReport {
    ssrc: 0x1122_3344,
    ntp: 0xe000_0001_8000_0000,
    rtp_time: 0xdead_beef,
    packets: 7,
    bytes: 9000,
};

#[test]
fn a_sender_report_is_read_by_others_as_it_was_meant() {
    for name in ["", "a", "reelway@host", &"ä".repeat(200)] {
        for bye in [
            None,
            Some(""),
            Some("end"),
            Some("no room"),
            Some(&"ä".repeat(200)),
        ] {
            let mut out = Vec::new();
            write(&REPORT, name, bye, &mut out);
            assert_eq!(out.len() % 4, 0);
            let mut packets = Compound::parse(&out).unwrap().map(|packet| packet.unwrap());
            let Some(rtcp_types::Packet::Sr(report)) = packets.next() else {
                panic!("first a sender report")
            };
            assert_eq!(
                (report.ssrc(), report.ntp_timestamp()),
                (REPORT.ssrc, REPORT.ntp)
            );
            assert_eq!(
                (
                    report.rtp_timestamp(),
                    report.packet_count(),
                    report.octet_count()
                ),
                (0xdead_beef, 7, 9000)
            );
            assert_eq!(report.report_blocks().count(), 0);
            let Some(rtcp_types::Packet::Sdes(sdes)) = packets.next() else {
                panic!("then SDES")
            };
            let chunk = sdes.chunks().next().unwrap();
            let item = chunk.items().next().unwrap();
            assert_eq!((chunk.ssrc(), item.type_()), (REPORT.ssrc, SdesItem::CNAME));
            assert!(
                name.as_bytes().starts_with(item.value())
                    && item.value().len() >= name.len().min(254)
            );
            match packets.next() {
                Some(rtcp_types::Packet::Bye(goodbye)) => {
                    let said = goodbye.reason().unwrap_or_default();
                    let reason = bye.expect("it stays").as_bytes();
                    assert!(reason.starts_with(said) && said.len() >= reason.len().min(254));
                    assert_eq!(goodbye.ssrcs().collect::<Vec<_>>(), [REPORT.ssrc]);
                }
                other => assert!(bye.is_none() && other.is_none()),
            }
        }
    }
}

#[test]
fn texts_are_padded_to_whole_words_and_no_further() {
    // RFC 3550 section 6.5: an item list ends with at least one zero. Section 6.6: a reason needs
    // none.
    for (length, name_words, reason_words) in [
        (0, 2, 0),
        (1, 2, 1),
        (2, 3, 1),
        (3, 3, 1),
        (4, 3, 2),
        (5, 3, 2),
        (6, 4, 2),
        (7, 4, 2),
        (8, 4, 3),
        (255, 66, 64),
    ] {
        let text = "a".repeat(length);
        let mut out = Vec::new();
        write(&REPORT, &text, Some(&text), &mut out);
        let (sdes, bye) = out[28..].split_at(4 + 4 * name_words);
        assert_eq!(sdes[..4], [0x81, 202, 0, name_words as u8]);
        assert_eq!(bye[..4], [0x81, 203, 0, 1 + reason_words as u8]);
        assert_eq!(bye.len(), 4 + 4 + 4 * reason_words);
    }
}

#[test]
fn our_own_sender_reports_can_be_read_back() {
    let mut out = Vec::new();
    write(&REPORT, "reelway@host", Some("too much"), &mut out);
    let from = REPORT.ssrc;
    let name = "reelway@host".to_owned();
    assert_eq!(
        read(&out).unwrap(),
        [
            Packet::Alive { from },
            Packet::Cname { from, name },
            Packet::Bye {
                from,
                reason: "too much".to_owned()
            }
        ]
    );
}

#[test]
fn what_others_write_is_read_as_it_was_meant() {
    let block = ReportBlock::builder(77)
        .fraction_lost(12)
        .cumulative_lost(0xff_fffe)
        .extended_sequence_number(0x1_0005)
        .interarrival_jitter(33)
        .last_sender_report_timestamp(44)
        .delay_since_last_sender_report_timestamp(55);
    let compound =
        Compound::builder()
            .add_packet(ReceiverReport::builder(5).add_report_block(block))
            .add_packet(Sdes::builder().add_chunk(
                SdesChunk::builder(5).add_item(SdesItem::builder(SdesItem::CNAME, "me")),
            ))
            .add_packet(Bye::builder().add_source(5).reason("done"));
    let mut out = vec![0; 1500];
    let len = compound.write_into(&mut out).unwrap();
    let report = ReceptionReport {
        from: 5,
        source: 77,
        fraction_lost: 12,
        lost: -2,
        highest_seq: 0x1_0005,
        jitter: 33,
        last_sr: 44,
        delay: 55,
    };
    let cname = Packet::Cname {
        from: 5,
        name: "me".into(),
    };
    assert_eq!(
        read(&out[..len]).unwrap(),
        [
            Packet::Report(report),
            cname,
            Packet::Bye {
                from: 5,
                reason: "done".to_owned()
            }
        ]
    );
}

#[test]
fn names_are_found_among_other_items_and_sources() {
    for length in 0..9 {
        let others = "o".repeat(length);
        let first = SdesChunk::builder(5)
            .add_item(SdesItem::builder(SdesItem::NAME, &others))
            .add_item(SdesItem::builder(SdesItem::CNAME, "first"))
            .add_item(SdesItem::builder(SdesItem::TOOL, &others));
        let second =
            SdesChunk::builder(6).add_item(SdesItem::builder(SdesItem::CNAME, others.as_str()));
        let third = SdesChunk::builder(7).add_item(SdesItem::builder(SdesItem::CNAME, "third"));
        let sdes = Sdes::builder()
            .add_chunk(first)
            .add_chunk(second)
            .add_chunk(third);
        let mut out = vec![0; 1500];
        let len = sdes.write_into(&mut out).unwrap();
        let cname = |from, name: &str| Packet::Cname {
            from,
            name: name.to_owned(),
        };
        assert_eq!(
            read(&out[..len]).unwrap(),
            [cname(5, "first"), cname(6, &others), cname(7, "third")],
            "{length} bytes"
        );
    }
}

#[test]
fn every_source_of_a_goodbye_and_every_block_of_a_report_is_read() {
    let block = |source: u32| {
        ReportBlock::builder(source)
            .fraction_lost(source as u8)
            .cumulative_lost(source + 1)
            .extended_sequence_number(source + 2)
            .interarrival_jitter(source + 3)
            .last_sender_report_timestamp(source + 4)
            .delay_since_last_sender_report_timestamp(source + 5)
    };
    let report = |source: u32| {
        Packet::Report(ReceptionReport {
            from: 5,
            source,
            fraction_lost: source as u8,
            lost: source as i32 + 1,
            highest_seq: source + 2,
            jitter: source + 3,
            last_sr: source + 4,
            delay: source + 5,
        })
    };
    let bye = |from, reason: &str| Packet::Bye {
        from,
        reason: reason.to_owned(),
    };
    let mut out = vec![0; 1500];
    let compound = Compound::builder()
        .add_packet(
            rtcp_types::SenderReport::builder(5)
                .add_report_block(block(10))
                .add_report_block(block(20)),
        )
        .add_packet(
            ReceiverReport::builder(5)
                .add_report_block(block(30))
                .add_report_block(block(40)),
        )
        .add_packet(
            Bye::builder()
                .add_source(5)
                .add_source(6)
                .add_source(7)
                .reason("done"),
        )
        .add_packet(Bye::builder().add_source(8).add_source(9));
    let len = compound.write_into(&mut out).unwrap();
    assert_eq!(
        read(&out[..len]).unwrap(),
        [
            Packet::Alive { from: 5 },
            report(10),
            report(20),
            report(30),
            report(40),
            bye(5, "done"),
            bye(6, "done"),
            bye(7, "done"),
            bye(8, ""),
            bye(9, ""),
        ]
    );
}

#[test]
fn an_empty_receiver_report_is_a_sign_of_life() {
    assert_eq!(
        read(&[0x80, 201, 0, 1, 0, 0, 0, 9]).unwrap(),
        [Packet::Alive { from: 9 }]
    );
}

#[test]
fn a_nack_names_every_lost_packet() {
    let datagram = [
        0x81, 205, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xfe, 0x80, 0x05,
    ];
    let nack = Nack {
        from: 1,
        source: 2,
        seq: 0xfffe,
        also: 0x8005,
    };
    assert_eq!(read(&datagram).unwrap(), [Packet::Nack(nack)]);
    assert_eq!(nack.lost().collect::<Vec<_>>(), [0xfffe, 0xffff, 1, 14]);
}

#[test]
fn each_bit_of_a_nack_is_one_packet_further() {
    for bit in 0..16 {
        let nack = Nack {
            from: 1,
            source: 2,
            seq: 100,
            also: 1 << bit,
        };
        assert_eq!(nack.lost().collect::<Vec<_>>(), [100, 101 + bit]);
    }
}

#[test]
fn a_nack_may_have_many_entries_and_other_feedback_is_passed_over() {
    let mut datagram = vec![0x81, 205, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2];
    datagram.extend([0, 7, 0, 0, 1, 0, 0x80, 1]);
    let nack = |seq, also| {
        Packet::Nack(Nack {
            from: 1,
            source: 2,
            seq,
            also,
        })
    };
    assert_eq!(read(&datagram).unwrap(), [nack(7, 0), nack(256, 0x8001)]);
    // TMMBR (RFC 5104) is another message of the same packet type; 204 is application-defined.
    datagram[0] = 0x83;
    assert_eq!(read(&datagram).unwrap(), []);
    datagram[..2].copy_from_slice(&[0x81, 204]);
    assert_eq!(read(&datagram).unwrap(), []);
}

#[test]
fn a_packet_shorter_than_its_counts_say_is_refused() {
    // A sender report without its body; a report block that lacks a word; three sources in two
    // words; a reason longer than its packet; an SDES chunk without an end; feedback without a
    // source.
    for (count, kind, body) in [
        (0, 200, vec![0; 20]),
        (1, 201, vec![0; 24]),
        (2, 201, vec![0; 4 + 24 + 20]),
        (3, 203, vec![0; 8]),
        (1, 203, vec![0, 0, 0, 1, 4, b'a', b'b', b'c']),
        (1, 202, vec![0, 0, 0, 1]),
        (1, 202, vec![0, 0, 0, 1, 1, 2, b'a', b'b']),
        (1, 202, vec![0, 0, 0, 1, 1, 3, b'a', b'b']),
        (1, 205, vec![0, 0, 0, 1]),
    ] {
        let before = [0x80, 201, 0, 1, 0, 0, 0, 9];
        let header = [0x80 | count, kind, 0, body.len() as u8 / 4];
        let datagram = [&before[..], &header, &body].concat();
        assert_eq!(
            read(&datagram),
            Err(RtcpError::Short { at: 8, kind }),
            "type {kind}, {body:?}"
        );
    }
}

#[test]
fn what_is_not_rtcp_is_refused_with_its_place() {
    assert_eq!(read(&[0x80, 201]), Err(RtcpError::Short { at: 0, kind: 0 }));
    assert_eq!(
        read(&[0x40, 201, 0, 0]),
        Err(RtcpError::Version { at: 0, version: 1 })
    );
    assert_eq!(
        read(&[0x80, 201, 0, 0]),
        Err(RtcpError::Short { at: 0, kind: 201 })
    );
    assert_eq!(
        read(&[0x80, 204, 0, 0, 0x81, 200, 0, 9]),
        Err(RtcpError::Short { at: 4, kind: 200 })
    );
}

proptest! {
    #[test]
    fn noise_is_read_or_refused_and_never_grows(datagram in prop::collection::vec(any::<u8>(), 0..1500)) {
        if let Ok(packets) = read(&datagram) {
            prop_assert!(packets.len() <= datagram.len() / 4);
        }
    }

    #[test]
    fn flipped_bits_are_read_or_refused(
        flips in prop::collection::vec((0usize..200, 0u8..8), 0..6),
        cut in 0usize..200,
        kind in 200u8..207,
    ) {
        let mut datagram = Vec::new();
        write(&REPORT, "reelway@host", Some("too much"), &mut datagram);
        datagram.extend([0x82, kind, 0, 13, 0, 0, 0, 9]);
        datagram.extend([3; 48]);
        for (at, bit) in flips {
            let at = at % datagram.len();
            datagram[at] ^= 1 << bit;
        }
        datagram.truncate(datagram.len().saturating_sub(cut % 60));
        if let Ok(packets) = read(&datagram) {
            prop_assert!(packets.len() <= datagram.len() / 4);
        }
    }
}
