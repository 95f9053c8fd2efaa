//! The store with real files: it delivers every byte, reads each block once, respects limits and
//! reports faults.

mod files;
mod helper;
mod pool;
mod reads;
