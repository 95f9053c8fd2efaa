//! Receivers that follow the RFCs strictly and reject anything these forbid. They share no code
//! with the crate.

use super::Received;

/// RFC 6184, packetization mode 1: the NAL units of each access unit, with its timestamp.
pub fn h264(packets: &[Received]) -> Vec<(u32, Vec<Vec<u8>>)> {
    access_units(packets, |packets| {
        let mut nals = Vec::new();
        let mut open: Option<Vec<u8>> = None;
        for Received { payload, .. } in packets {
            let kind = payload[0] & 0x1f;
            assert!(
                kind == 28 || open.is_none(),
                "a fragmented unit is not interrupted"
            );
            match kind {
                1..=23 => nals.push(payload.clone()),
                24 => {
                    let units = sized_units(&payload[1..]);
                    let nri = units.iter().map(|unit| unit[0] & 0x60).max().unwrap();
                    let forbidden = units.iter().map(|unit| unit[0] & 0x80).max().unwrap();
                    assert_eq!(payload[0], forbidden | nri | 24);
                    nals.extend(units);
                }
                28 => {
                    let (indicator, header) = (payload[0], payload[1]);
                    assert!(payload.len() > 2, "a fragment is not empty");
                    assert_eq!(header & 0x20, 0, "the reserved bit is zero");
                    let nal_header = (indicator & 0xe0) | (header & 0x1f);
                    fragment(header, &[nal_header], &payload[2..], &mut open, &mut nals);
                }
                other => panic!("packet type {other} is not of packetization mode 1"),
            }
        }
        assert!(
            open.is_none(),
            "a fragmented unit ends within its access unit"
        );
        nals
    })
}

/// RFC 7798 without DONL: the NAL units of each access unit, with its timestamp.
pub fn h265(packets: &[Received]) -> Vec<(u32, Vec<Vec<u8>>)> {
    access_units(packets, |packets| {
        let mut nals = Vec::new();
        let mut open: Option<Vec<u8>> = None;
        for Received { payload, .. } in packets {
            let header = u16::from_be_bytes([payload[0], payload[1]]);
            let kind = (header >> 9) & 0x3f;
            assert!(
                kind == 49 || open.is_none(),
                "a fragmented unit is not interrupted"
            );
            match kind {
                0..=47 => nals.push(payload.clone()),
                48 => {
                    let units = sized_units(&payload[2..]);
                    assert!(
                        units.len() >= 2,
                        "an aggregation packet has two units or more"
                    );
                    let of = |unit: &Vec<u8>| u16::from_be_bytes([unit[0], unit[1]]);
                    assert_eq!(
                        (header >> 3) & 0x3f,
                        units.iter().map(|u| (of(u) >> 3) & 0x3f).min().unwrap()
                    );
                    assert_eq!(header & 7, units.iter().map(|u| of(u) & 7).min().unwrap());
                    assert_eq!(
                        header >> 15,
                        units.iter().map(|u| of(u) >> 15).max().unwrap()
                    );
                    nals.extend(units);
                }
                49 => {
                    assert!(payload.len() > 3, "a fragment is not empty");
                    let nal_header = (header & 0x81ff) | (u16::from(payload[2] & 0x3f) << 9);
                    fragment(
                        payload[2],
                        &nal_header.to_be_bytes(),
                        &payload[3..],
                        &mut open,
                        &mut nals,
                    );
                }
                other => panic!("packet type {other}"),
            }
        }
        assert!(
            open.is_none(),
            "a fragmented unit ends within its access unit"
        );
        nals
    })
}

/// Groups packets by the marker, which must agree with the timestamps.
fn access_units(
    packets: &[Received],
    units: impl Fn(&[Received]) -> Vec<Vec<u8>>,
) -> Vec<(u32, Vec<Vec<u8>>)> {
    packets
        .split_inclusive(|packet| packet.marker)
        .map(|unit| {
            assert!(
                unit.last().unwrap().marker,
                "the last packet has the marker"
            );
            assert!(
                unit.iter()
                    .all(|packet| packet.timestamp == unit[0].timestamp)
            );
            (unit[0].timestamp, units(unit))
        })
        .collect()
}

fn sized_units(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    while !rest.is_empty() {
        let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        units.push(rest[2..2 + len].to_vec());
        rest = &rest[2 + len..];
    }
    units
}

fn fragment(
    flags: u8,
    nal_header: &[u8],
    bytes: &[u8],
    open: &mut Option<Vec<u8>>,
    nals: &mut Vec<Vec<u8>>,
) {
    let (first, last) = (flags & 0x80 != 0, flags & 0x40 != 0);
    assert!(!(first && last), "one fragment is no fragment");
    if first {
        assert!(
            open.replace(nal_header.to_vec()).is_none(),
            "a unit begins when none is open"
        );
    }
    let unit = open
        .as_mut()
        .expect("a fragment belongs to a unit that began");
    assert_eq!(&unit[..nal_header.len()], nal_header);
    unit.extend_from_slice(bytes);
    if last {
        nals.extend(open.take());
    }
}

/// RFC 3640 with 13 bits of size and 3 of index: access units with the timestamps that a receiver
/// computes if each lasts `unit` ticks.
pub fn aac(packets: &[Received], unit: u32) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    let mut open: Option<(u32, usize, Vec<u8>)> = None;
    for Received {
        payload,
        marker,
        timestamp,
    } in packets
    {
        let bits = usize::from(u16::from_be_bytes([payload[0], payload[1]]));
        assert_eq!(bits % 16, 0, "headers of 16 bits");
        let headers: Vec<u16> = payload[2..2 + bits / 8]
            .chunks(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect();
        assert!(
            headers.iter().all(|header| header & 7 == 0),
            "no interleaving"
        );
        let sizes: Vec<usize> = headers
            .iter()
            .map(|header| usize::from(header >> 3))
            .collect();
        let mut data = &payload[2 + bits / 8..];
        assert!(!data.is_empty());
        if sizes.len() == 1 && (open.is_some() || sizes[0] > data.len()) {
            let (begun, size, bytes) = open.get_or_insert((*timestamp, sizes[0], Vec::new()));
            assert_eq!(
                (*begun, *size),
                (*timestamp, sizes[0]),
                "fragments agree on their unit"
            );
            bytes.extend_from_slice(data);
            assert_eq!(
                *marker,
                bytes.len() == *size,
                "the marker ends a fragmented unit"
            );
            if *marker {
                out.extend(open.take().map(|(timestamp, _, bytes)| (timestamp, bytes)));
            }
            continue;
        }
        assert!(*marker, "the marker is on packets of whole units");
        for (nth, size) in (0u32..).zip(sizes) {
            let (bytes, rest) = data.split_at(size);
            out.push((timestamp.wrapping_add(nth * unit), bytes.to_vec()));
            data = rest;
        }
        assert!(data.is_empty(), "the headers account for every byte");
    }
    assert!(open.is_none());
    out
}
