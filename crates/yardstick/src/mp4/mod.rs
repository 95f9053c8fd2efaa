//! What MP4 files and fragments hold (ISO/IEC 14496-12): the access units of a film to compare with, and
//! of the segments that come. A reader of its own: the server's index must not be judged by itself.

mod boxes;
mod coding;
mod fragment;
mod tables;
mod track;

pub(crate) use fragment::fragments;
pub(crate) use tables::initialisation;
pub use tables::read_film;
pub(crate) use track::Track;
