//! MP4 files and fragments (ISO/IEC 14496-12): the access units of the film to compare with, and of
//! received segments. The reader is independent, so that the server's index is not judged by
//! itself.

mod boxes;
mod coding;
mod fragment;
mod tables;
mod track;

pub(crate) use fragment::fragments;
pub(crate) use tables::initialisation;
pub use tables::read_film;
pub(crate) use track::Track;
