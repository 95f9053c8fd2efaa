//! Edges of the same films, which ask each other before their origin.
//!
//! This module chooses the sibling for each part of a film (`choice.rs`), compares the times of
//! siblings with those of the origin (`pace.rs`), keeps what is known of a film at each sibling
//! (`held.rs`) and the connections to them (`group.rs`), reads from them for a source
//! (`asking.rs`), and decides to which of them viewers are sent (`load.rs`, `favourites.rs`,
//! `standing.rs`, `titles.rs`, `places.rs`).

mod asking;
mod choice;
mod favourites;
mod group;
mod held;
mod load;
mod pace;
mod places;
mod standing;
mod titles;

pub(crate) use asking::Siblings;
pub use group::{Group, GroupConfig, SiblingStats};
pub(crate) use held::AtSiblings;
pub use load::Load;
pub use places::{Own, Places};
