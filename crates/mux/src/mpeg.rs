//! Packets of transport streams (ISO/IEC 13818-1 2.4), and the timestamps of PES packets.

/// The most payload bytes of a packet.
pub const ROOM: usize = 184;

/// Returns a timestamp of 33 bits, preceded by the four bits `mark` (2.4.3.6).
pub fn stamp(mark: u8, ticks: u64) -> [u8; 5] {
    [
        mark << 4 | (ticks >> 29) as u8 & 0xe | 1,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]
}

/// A transport stream to which packets are appended.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// The stream.
    pub bytes: Vec<u8>,
    /// Bytes before and after each packet.
    pub around: (usize, usize),
}

impl Packets {
    /// Creates an empty stream, with this many bytes before and after each packet.
    pub fn new(around: (usize, usize)) -> Packets {
        Packets {
            bytes: Vec::new(),
            around,
        }
    }

    fn put(&mut self, packet: &[u8]) {
        self.bytes.resize(self.bytes.len() + self.around.0, 0);
        self.bytes.extend(packet);
        self.bytes.resize(self.bytes.len() + self.around.1, 0);
    }

    /// Appends a packet with at most [`ROOM`] bytes of payload.
    pub fn packet(&mut self, pid: u16, starts: bool, counter: u8, payload: &[u8]) {
        let [high, low] = pid.to_be_bytes();
        let room = ROOM - payload.len();
        let fields = if room > 0 { 0x30 } else { 0x10 };
        let mut packet = vec![
            0x47,
            u8::from(starts) << 6 | high,
            low,
            fields | counter & 0xf,
        ];
        if room > 0 {
            packet.push(room as u8 - 1);
            packet.extend((0..room.min(2) - 1).map(|_| 0));
            packet.extend((2..room).map(|_| 0xff));
        }
        packet.extend(payload);
        self.put(&packet);
    }

    /// Appends a packet with a clock reference and no payload.
    pub fn clock(&mut self, pid: u16, counter: u8, ticks: u64) {
        let [high, low] = pid.to_be_bytes();
        let mut packet = vec![0x47, high, low, 0x20 | counter & 0xf, 183, 0x10];
        packet.extend(((ticks >> 1) as u32).to_be_bytes());
        packet.extend([(ticks << 7) as u8 | 0x7e, 0]);
        packet.extend([0xff; 176]);
        self.put(&packet);
    }

    /// Appends a packet with a section of a table of programme, or stream, `number`.
    pub fn section(&mut self, pid: u16, table: u8, number: u8, body: &[u8]) {
        let mut section = vec![table, 0xb0, body.len() as u8 + 9, 0, number, 0xc1, 0, 0];
        section.extend(body);
        let sum = section.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        section.extend(sum.to_be_bytes());
        self.packet(pid, true, 0, &[&[0], &section[..]].concat());
    }
}
