//! Reads the date from the time tables of DVB (ETSI EN 300 468 5.2.5 and 5.2.6) or ATSC (A/65 6.1).

use super::ts::Packet;
use crate::time::{Nanos, SECOND};
use crate::wall_clock::of_dvb;

/// The PID of DVB's time tables, and their ids: date and time, without and with local offset.
const DVB: u16 = 0x14;
const TABLES: [u8; 2] = [0x70, 0x73];
/// The PID of ATSC's base tables, and the id of the time table.
const ATSC: u16 = 0x1ffb;
const SYSTEM_TIME: u8 = 0xcd;
/// Seconds from 1970 to 6 January 1980, the epoch of ATSC.
const TO_1980: i64 = 315_964_800;

/// Returns the date that a packet states, in ns since 1970, accurate to a second.
pub fn stated(packet: &Packet) -> Option<Nanos> {
    if !matches!(packet.pid, DVB | ATSC) || !packet.starts {
        return None;
    }
    let (skip, rest) = packet.payload.split_first()?;
    let section = rest.get(usize::from(*skip)..)?;
    let table = *section.first()?;
    match packet.pid {
        DVB if TABLES.contains(&table) => of_dvb(*section.get(3..)?.first_chunk()?),
        ATSC if table == SYSTEM_TIME => {
            let seconds = u32::from_be_bytes(*section.get(9..)?.first_chunk()?);
            // The accumulated leap seconds.
            let ahead = i64::from(*section.get(13)?);
            Some((TO_1980 + i64::from(seconds) - ahead) * SECOND)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpeg::ts::PACKET;

    fn packet(pid: u16, section: &[u8]) -> [u8; PACKET] {
        let mut packet = [0xff; PACKET];
        packet[..5].copy_from_slice(&[0x47, 0x40 | (pid >> 8) as u8, pid as u8, 0x10, 0]);
        packet[5..5 + section.len()].copy_from_slice(section);
        packet
    }

    fn date(pid: u16, section: &[u8]) -> Option<Nanos> {
        stated(&Packet::parse(&packet(pid, section)).unwrap())
    }

    #[test]
    fn dates_of_dvb_and_atsc() {
        let moment = 750_516_300 * SECOND;
        let utc = [0xc0, 0x79, 0x12, 0x45, 0x00];
        let of_table = |table| [&[table, 0x70, 0x05], &utc[..]].concat();
        assert_eq!(date(0x14, &of_table(0x70)), Some(moment));
        assert_eq!(date(0x14, &of_table(0x73)), Some(moment));
        // Other tables and other PIDs.
        assert_eq!(date(0x14, &of_table(0x71)), None);
        assert_eq!(date(0x15, &of_table(0x70)), None);
        let seconds = (750_516_300 - 315_964_800 + 9u32).to_be_bytes();
        let head = [0xcd, 0xf0, 0x11, 0, 0, 0xc1, 0, 0, 0];
        let section = [&head[..], &seconds, &[9, 0, 0]].concat();
        assert_eq!(date(0x1ffb, &section), Some(moment));
    }
}
