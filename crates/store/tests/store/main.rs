//! The store against real files: every byte, each block read once, limits kept, faults told.

mod files;
mod helper;
mod pool;
mod reads;
