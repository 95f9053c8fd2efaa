//! Builds the plugin `rsrtp` as a library that GStreamer can load.

extern crate gstrsrtp as _;
