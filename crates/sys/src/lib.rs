//! Every `unsafe` line of Reelway.
