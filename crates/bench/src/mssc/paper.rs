//! What the MSSC paper measured (2001; two Pentium III 600 MHz, Linux 2.2): seconds that ten sessions at
//! once took for 1000 packets of 32 bytes, one each 30 ms, means of 100 runs. Of its ten sessions the
//! least and the greatest are kept here.

/// Seconds from the first packet to the last when every packet leaves at its time.
pub const IDEAL: f64 = 29.97;

/// A table's least and greatest session, in seconds.
pub struct Table {
    /// Where in the paper.
    pub place: &'static str,
    /// Where it is drawn in the paper.
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

/// Fifty busy loops, a kernel compile, starting X.
pub const OVERLOADED: Table = Table {
    place: "Table 4",
    figure: "Figure 10",
    conventional: (40.00853, 41.11984),
    mssc: (34.9987, 35.00805),
};
