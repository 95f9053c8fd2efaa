//! Edges of the same films that ask each other before their origin.
//!
//! What lives here: the choice of the sibling for each part of a film (`choice.rs`), how long siblings take compared
//! with the origin (`pace.rs`), what is known of a film at each (`held.rs`), the connections to them (`group.rs`), a
//! source's reads from them (`asking.rs`), and to which of them viewers are sent (`load.rs`,
//! `favourites.rs`, `standing.rs`, `titles.rs`, `places.rs`).

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
