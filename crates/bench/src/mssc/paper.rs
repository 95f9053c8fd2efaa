//! The MSSC paper's measurements (2001; two Pentium III 600 MHz, Linux 2.2): the duration in
//! seconds of ten concurrent sessions of 1000 packets of 32 bytes, one every 30 ms, means of 100
//! runs. Of the ten sessions, the shortest and the longest are kept here.

/// Seconds from the first packet to the last if every packet leaves at its time.
pub const IDEAL: f64 = 29.97;

/// The shortest and the longest session of a table, in seconds.
pub struct Table {
    /// The table in the paper.
    pub place: &'static str,
    /// The figure in the paper that draws it.
    pub figure: &'static str,
    /// `read` and `send`.
    pub conventional: (f64, f64),
    /// The paper's system call.
    pub mssc: (f64, f64),
}

/// The idle machine.
pub const IDLE: Table = Table {
    place: "Table 3",
    figure: "Figure 9",
    conventional: (39.990962, 39.999628),
    mssc: (34.992506, 34.998779),
};

/// The overloaded machine: fifty busy loops, a kernel compilation, starting X.
pub const OVERLOADED: Table = Table {
    place: "Table 4",
    figure: "Figure 10",
    conventional: (40.00853, 41.11984),
    mssc: (34.9987, 35.00805),
};
