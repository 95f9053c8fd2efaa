//! The plugin `rsrtp`, by which GStreamer finds it.

extern crate gstrsrtp as _;
