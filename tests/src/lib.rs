//! What the end-to-end tests share: films made to order, players, a server of our own.
#![forbid(unsafe_code)]
