//! Reads `moov`: the tracks of a film, and which of them are playable.

use super::boxes::Body;
use super::chapters::Chapters;
use super::edits::{self, Edit};
use super::entry::{Entry, Known};
use super::fragments::{Defaults, FragmentTrack, Gathered, Tracks};
use super::headers::{
    Handler, TrackHeader, elsewhere, extended_language, media_header, movie_header,
};
use super::kept::KeptBox;
use super::limits::Limits;
use super::meta;
use super::subtitles::{self, Holds, Pending, Subtitles};
use super::tables;
use super::units::{self, Unit};
use crate::chapters::MAX_CHAPTERS;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::text::TextTrack;
use crate::{Kind, Nanos, ticks_to_nanos};

/// The description of a film in `moov`.
#[derive(Debug, Default)]
pub struct Movie {
    /// Ticks per second of the durations in edit lists.
    pub timescale: u32,
    /// The name (`©nam`).
    pub name: Option<String>,
    /// The creation date in ns since 1970: the wall-clock time at the film's time 0.
    pub date: Option<Nanos>,
    /// Tracks that are playable once they have samples.
    pub tracks: Vec<Draft>,
    /// The chapters.
    pub chapters: Chapters,
    /// The subtitles.
    pub subtitles: Subtitles,
    /// Notes on what was skipped or corrected.
    pub notes: Vec<String>,
    /// Present if movie fragments may follow (`mvex`): the defaults for them.
    pub fragments: Option<Vec<Defaults>>,
}

/// A track that is to become a [`crate::Track`].
#[derive(Debug)]
pub struct Draft {
    /// The name used in errors.
    pub path: String,
    /// The offset of its description in the file.
    pub offset: u64,
    /// The track_ID.
    pub id: u32,
    /// Video or audio.
    pub kind: Kind,
    /// The "enabled" flag of tkhd.
    pub enabled: bool,
    /// Ticks per second, never 0.
    pub timescale: u32,
    /// The language, `None` if undetermined.
    pub language: Option<String>,
    /// The track's name, if it is meaningful.
    pub name: Option<String>,
    /// The transformation matrix of tkhd.
    pub matrix: [i32; 9],
    /// The width and height of tkhd, 16.16.
    pub display: (u32, u32),
    /// The part of it that is presented.
    pub edit: Edit,
    /// The entries of `stsd`.
    pub entries: Vec<Known>,
    /// Its samples.
    pub gathered: Gathered,
    /// See [`Track::stripped`](crate::Track::stripped).
    pub stripped: Vec<u8>,
}

/// The maximum number of tracks; more would make looking them up slow.
const MAX_TRACKS: u32 = 1024;
/// The maximum number of entries of an `stsd` that are read.
const MAX_ENTRIES: usize = 64;
/// The maximum number of notes kept, as they are meant for people.
const MAX_NOTES: usize = 64;

impl Movie {
    /// Parses a `moov` box.
    pub fn parse(moov: &KeptBox, limits: &mut Limits) -> Result<Movie, IndexError> {
        let (timescale, date) = movie_header(moov)?;
        let mut movie = Movie {
            timescale,
            date,
            chapters: Chapters::listed(moov),
            ..Movie::default()
        };
        let chapters = chapter_tracks(moov)?;
        for trak in moov.each(*b"trak") {
            let trak = trak?;
            if trak.number > MAX_TRACKS {
                return Err(trak.error(
                    IndexErrorKind::TooLarge,
                    format!("is more than the {MAX_TRACKS} tracks that are allowed"),
                ));
            }
            movie.add_track(&trak, &chapters, limits)?;
        }
        if let Some(mvex) = moov.find(b"mvex")? {
            let mut defaults = Vec::new();
            for trex in mvex.each(*b"trex").take(MAX_TRACKS as usize) {
                defaults.push(Defaults::parse(&trex?)?);
            }
            movie.fragments = Some(defaults);
        }
        movie.name = meta::name_of(moov);
        Ok(movie)
    }

    /// Adds a note, unless there are too many already.
    pub fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    fn add_track(
        &mut self,
        trak: &KeptBox,
        chapters: &[u32],
        limits: &mut Limits,
    ) -> Result<(), IndexError> {
        let header = TrackHeader::parse(trak)?;
        let id = header.id;
        if self.tracks.iter().any(|track| track.id == id) {
            return Err(trak.damaged(format!("has track_ID {id}, as another track has")));
        }
        let mdia = trak.need(b"mdia")?;
        let hdlr = mdia.need(b"hdlr")?;
        let handler = Handler::parse(&hdlr)?;
        let kind = match &handler.kind {
            b"text" | b"sbtl" if chapters.contains(&id) => {
                let added = self.add_chapters(&mdia, trak, limits);
                if added.is_err() || self.chapters.is_empty() {
                    self.note(format!("track {id}: its chapters cannot be read"));
                }
                return Ok(());
            }
            b"vide" if chapters.contains(&id) => return self.pass_over(id, "pictures of chapters"),
            _ if chapters.contains(&id) => return self.pass_over(id, "chapters"),
            b"vide" => Kind::Video,
            b"soun" => Kind::Audio,
            b"text" | b"sbtl" | b"subt" => {
                let name = meta::name_of(trak).or(handler.name);
                let added = self.add_subtitles(&mdia, trak, (&header, name), limits);
                return match added {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(reason)) => self.pass_over(id, &reason),
                    // Subtitles are not required for playback.
                    Err(error) => self.pass_over(id, &format!("subtitles: {error}")),
                };
            }
            other => return self.pass_over(id, handler_name(*other)),
        };
        let mdhd = mdia.need(b"mdhd")?;
        let (timescale, language) = media_header(&mdhd)?;
        let minf = mdia.need(b"minf")?;
        let stbl = minf.need(b"stbl")?;
        let stsd = stbl.need(b"stsd")?;
        let entries = sample_entries(&stsd, kind, limits)?;
        // The samples cannot be played in any case, so the tables are not read.
        if entries.iter().all(Result::is_err) {
            let reason = entries
                .into_iter()
                .find_map(Result::err)
                .unwrap_or("nothing described".into());
            return self.pass_over(id, &reason);
        }
        if elsewhere(&minf)? {
            return self.pass_over(id, "its media is in another file");
        }
        let mut notes = Vec::new();
        let edit = trak
            .find(b"edts")?
            .map(|edts| edits::read(&edts, &mut notes))
            .transpose()?;
        let tables = match entries.iter().flatten().find_map(Unit::of) {
            Some(unit) => units::read(&stbl, limits, unit)?,
            None => tables::read(&stbl, limits)?,
        };
        notes.extend(tables.notes);
        for note in notes {
            self.note(format!("track {id}: {note}"));
        }
        self.tracks.push(Draft {
            path: format!("moov/trak (track_ID {id})"),
            offset: trak.offset,
            id,
            kind,
            enabled: header.enabled,
            timescale,
            language: extended_language(&mdia)?.or(language),
            name: meta::name_of(trak).or(handler.name),
            matrix: header.matrix,
            display: header.display,
            edit: edit.unwrap_or_default(),
            entries,
            gathered: Gathered {
                samples: tables.samples,
                end_dts: tables.duration,
                description: tables.description,
                other_description: tables.other_description,
                ..Gathered::default()
            },
            stripped: Vec::new(),
        });
        Ok(())
    }

    /// Takes the chapters of a text track. They are not samples of the film.
    fn add_chapters(
        &mut self,
        mdia: &KeptBox,
        trak: &KeptBox,
        limits: &Limits,
    ) -> Result<(), IndexError> {
        let (timescale, _) = media_header(&mdia.need(b"mdhd")?)?;
        let edts = trak.find(b"edts")?;
        let edit = edts.map(|edts| edits::read(&edts, &mut Vec::new()));
        let edit = edit.transpose()?.unwrap_or_default();
        let minf = mdia.need(b"minf")?;
        let mut limits = Limits {
            samples: MAX_CHAPTERS as u32,
            ..limits.clone()
        };
        let tables = tables::read(&minf.need(b"stbl")?, &mut limits)?;
        let delay = i64::try_from(edit.delay).unwrap_or(i64::MAX);
        let delay = ticks_to_nanos(delay, self.timescale);
        self.chapters
            .of_track(&tables.samples, timescale, (delay, &edit));
        Ok(())
    }

    /// Adds a subtitle track; the inner error says why it is not supported, as text for users.
    fn add_subtitles(
        &mut self,
        mdia: &KeptBox,
        trak: &KeptBox,
        (header, name): (&TrackHeader, Option<String>),
        limits: &mut Limits,
    ) -> Result<Result<(), String>, IndexError> {
        let (timescale, language) = media_header(&mdia.need(b"mdhd")?)?;
        let minf = mdia.need(b"minf")?;
        let stbl = minf.need(b"stbl")?;
        let holds = match Holds::of(&stbl.need(b"stsd")?) {
            Ok(holds) => holds,
            Err(reason) => return Ok(Err(reason)),
        };
        if elsewhere(&minf)? {
            return Ok(Err("its media is in another file".into()));
        }
        let edts = trak.find(b"edts")?;
        let edit = edts.map(|edts| edits::read(&edts, &mut Vec::new()));
        let edit = edit.transpose()?.unwrap_or_default();
        let tables = tables::read(&stbl, limits)?;
        let track = TextTrack {
            language: extended_language(mdia)?.or(language),
            name,
            ..subtitles::track(header.id, holds, header.enabled)
        };
        let Some(number) = self.subtitles.add_track(track) else {
            return Ok(Err("too many subtitles".into()));
        };
        let delay = i64::try_from(edit.delay).unwrap_or(i64::MAX);
        self.subtitles.add(Pending {
            number,
            id: header.id,
            holds,
            timescale,
            delay: ticks_to_nanos(delay, self.timescale),
            edit,
            gathered: Gathered {
                end_dts: tables.duration,
                samples: tables.samples,
                ..Gathered::default()
            },
        });
        Ok(Ok(()))
    }

    /// Joins samples of fragments that only together form units of audio.
    pub fn join_units(&mut self) {
        if self.fragments.is_none() {
            return;
        }
        for draft in &mut self.tracks {
            if let Some(unit) = draft.entry().ok().and_then(Unit::of) {
                draft.gathered.samples = units::joined(&draft.gathered.samples, unit);
            }
        }
    }

    fn pass_over(&mut self, id: u32, reason: &str) -> Result<(), IndexError> {
        self.note(format!("track {id} ({reason}) skipped"));
        Ok(())
    }
}

impl Tracks for Movie {
    fn track(&mut self, id: u32) -> Option<FragmentTrack<'_>> {
        let defaults = self
            .fragments
            .iter()
            .flatten()
            .find(|defaults| defaults.track == id);
        let draft = self.tracks.iter_mut().find(|draft| draft.id == id);
        let (sound, gathered) = match draft {
            Some(draft) => (draft.kind == Kind::Audio, &mut draft.gathered),
            None => (false, self.subtitles.gathered(id)?),
        };
        Some(FragmentTrack {
            defaults: defaults.copied().unwrap_or_default(),
            sound,
            gathered,
        })
    }
}

impl Draft {
    /// Returns the entry of all samples' codec, or why there is none, as text for users.
    pub fn entry(&self) -> Result<&Entry, String> {
        let entry = |description: u32| self.entries.get((description.max(1) - 1) as usize);
        let Some(found) = entry(self.gathered.description) else {
            return Err("its samples have no description".into());
        };
        match self.gathered.other_description.map(entry) {
            Some(other) if other != Some(found) => {
                Err("changes its codec configuration on the way".into())
            }
            _ => found.as_ref().map_err(Clone::clone),
        }
    }
}

/// Returns the tracks that others reference as their chapters (QuickTime's track reference `chap`).
fn chapter_tracks(moov: &KeptBox) -> Result<Vec<u32>, IndexError> {
    let mut chapters = Vec::new();
    for trak in moov.each(*b"trak").take(MAX_TRACKS as usize) {
        let trak = trak?;
        let Some(tref) = trak.find(b"tref")? else {
            continue;
        };
        for chap in tref.each(*b"chap").take(MAX_ENTRIES) {
            let mut head = Vec::new();
            let ids = chap?.head(&mut head)?.body.as_chunks::<4>().0;
            chapters.extend(
                ids.iter()
                    .take(MAX_ENTRIES)
                    .map(|id| u32::from_be_bytes(*id)),
            );
        }
    }
    Ok(chapters)
}

fn handler_name(kind: [u8; 4]) -> &'static str {
    match &kind {
        b"subp" => "subtitles as pictures",
        b"clcp" => "closed captions",
        b"tmcd" => "time code",
        b"meta" | b"mdta" => "metadata",
        b"hint" => "hint track",
        _ => "neither video nor audio",
    }
}

fn sample_entries(
    stsd: &KeptBox,
    kind: Kind,
    limits: &mut Limits,
) -> Result<Vec<Known>, IndexError> {
    let mut bytes = Vec::new();
    let head = stsd.head(&mut bytes)?;
    let (version, _, mut fields) = head.full()?;
    fields.u32()?;
    let mut entries = Vec::new();
    for entry in stsd.children(8).take(MAX_ENTRIES) {
        let entry = entry?;
        let count = entry.body.count();
        Entry::check(&entry, count)?;
        limits.describe(&entry, count)?;
        let entry = entry.first(count, &mut bytes)?;
        let known = Entry::parse(&entry, kind, version)?;
        entries.push(known.map(Entry::for_players));
    }
    Ok(entries)
}
