//! Films in transport and program streams have the units and frames that ffmpeg finds in them, at
//! the same times.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use reelway_media::{Codec, Filled, Filling, Index, Kind, Track, ticks_to_nanos};
use reelway_tests::films::{self, Film, temp_dir};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::{Edits, Stream, Wanted, receive};

use super::{for_each, index, playable, samples, track_of};

/// The number of bytes of a view that are made in one step.
const BLOCK: u64 = 100_000;

/// Returns all films in transport and program streams.
fn streams() -> Vec<Film> {
    let mut films = films::viewed();
    films.retain(Film::is_stream);
    films
}

/// Makes the whole view of a film.
pub fn view(path: &Path, index: &Index) -> Vec<u8> {
    let file = File::open(path).expect("the film");
    let len = file.metadata().expect("its length").len();
    let bytes = index.title.view.expect("a view").bytes;
    let (mut all, mut room) = (Vec::new(), Vec::new());
    while (all.len() as u64) < bytes {
        let at = all.len() as u64;
        let range = at..(at + BLOCK).min(bytes);
        let mut into = vec![0; (range.end - range.start) as usize];
        let filling = Filling::new(&index.title, &index.tables, len, range);
        let mut filling = filling.expect("samples").expect("a view");
        loop {
            let wanted = filling.wanted();
            let mut raw = vec![0; (wanted.end - wanted.start) as usize];
            file.read_exact_at(&mut raw, wanted.start)
                .expect("its bytes");
            match filling.fill(&raw, &mut into, &mut room) {
                Filled::Whole => break,
                Filled::More => {}
                Filled::Different => panic!("another film from byte {at} of the view on"),
            }
        }
        all.extend(into);
    }
    all
}

/// Returns the bytes of each of a track's samples.
pub fn bodies<'a>(view: &'a [u8], index: &Index, track: usize) -> Vec<&'a [u8]> {
    let all = samples(index, track).into_iter();
    all.map(|sample| &view[sample.0 as usize..sample.0 as usize + sample.1 as usize])
        .collect()
}

/// Finds the track of a stream. ffprobe numbers those of program streams differently.
fn track<'a>(index: &'a Index, film: &Film, stream: &Stream) -> Result<(usize, &'a Track), String> {
    let mut stream = stream.clone();
    if film
        .path
        .extension()
        .is_some_and(|extension| extension == "mpg")
    {
        stream.id = match stream.id {
            private @ 0x80..0x90 => 0xbd00 | private,
            other => other & 0xff,
        };
    }
    track_of(index, &stream)
}

/// Splits samples into NAL units, without delimiters and parameter sets.
pub fn units(samples: &[&[u8]], hevc: bool) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    for sample in samples {
        let mut rest = *sample;
        while let Some((length, more)) = rest.split_first_chunk::<4>() {
            let (unit, more) = more.split_at(u32::from_be_bytes(*length) as usize);
            let is_set = match hevc {
                true => (32..=35).contains(&(unit[0] >> 1 & 0x3f)),
                false => matches!(unit[0] & 0x1f, 7..=9),
            };
            if !is_set {
                units.push(unit.to_vec());
            }
            rest = more;
        }
    }
    units
}

#[test]
fn units_and_frames_are_those_that_ffmpeg_finds() {
    let films = streams();
    assert!(films.len() >= 8);
    for_each(&films, |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        let view = view(&film.path, &index);
        for stream in playable(film, Edits::Apply) {
            // Audio of the programme that is not played.
            let Ok((number, track)) = track(&index, film, &stream) else {
                let note = index.title.notes.join("; ");
                match note.contains("programme 2 is played") {
                    true => continue,
                    false => return Err(format!("track {} is missing: {note}", stream.id)),
                }
            };
            let mine = bodies(&view, &index, number);
            let same = match track.kind {
                Kind::Video
                    if matches!(track.codec, Codec::MpegVideo(_) | Codec::Mpeg4Visual(_)) =>
                {
                    bytes(film, stream.id, "null", &mine)
                }
                Kind::Video => pictures(film, &stream.codec, &mine),
                // ffmpeg cannot extract frames from LATM; another film has the same encoder's
                // frames.
                Kind::Audio if stream.codec == "aac_latm" => {
                    sounds(&films::film("transport"), stream.id, true, &mine)
                }
                Kind::Audio => sounds(film, stream.id, matches!(track.codec, Codec::Aac(_)), &mine),
            };
            if !same {
                return Err(format!("track {} differs", stream.id));
            }
        }
        Ok(())
    });
}

fn pictures(film: &Film, codec: &str, mine: &[&[u8]]) -> bool {
    let theirs = receive(&Wanted {
        before: &[],
        input: film.path.to_str().expect("UTF-8"),
        picture: Some(codec),
        sound: false,
        decode: false,
        limit: Duration::from_secs(60),
    });
    let mine = units(mine, codec == "hevc");
    // ffmpeg also returns pictures that cannot be decoded.
    let skipped = theirs.nals.len().saturating_sub(mine.len());
    assert!(skipped == 0 || film.name == "transport_cut");
    mine == theirs.nals[skipped..]
}

/// Whether these are the frames of the audio stream with this PID.
fn sounds(film: &Film, pid: u32, aac: bool, mine: &[&[u8]]) -> bool {
    bytes(film, pid, if aac { "aac_adtstoasc" } else { "null" }, mine)
}

/// Whether these are all samples of the stream with this PID, after a bitstream filter.
fn bytes(film: &Film, pid: u32, filter: &str, mine: &[&[u8]]) -> bool {
    let dir = temp_dir("frames");
    let path = dir.path().join("frames");
    let map = format!("0:i:{pid}");
    let input = film.path.to_str().expect("UTF-8");
    let to = path.to_str().expect("UTF-8");
    let arguments = [
        "-i", input, "-map", &map, "-c", "copy", "-bsf", filter, "-f", "data", to,
    ];
    run(ffmpeg(arguments), Duration::from_secs(60)).expect(film.name);
    let theirs = std::fs::read(&path).expect("frames");
    let mine = mine.concat();
    let skipped = theirs.len().saturating_sub(mine.len());
    assert!(skipped == 0 || film.name == "transport_cut");
    theirs[skipped..].starts_with(&mine)
}

#[test]
fn pictures_and_sound_have_the_times_that_ffprobe_sees() {
    for_each(&streams(), |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        let mut apart: Vec<f64> = Vec::new();
        for stream in playable(film, Edits::Apply) {
            let Ok((number, track)) = track(&index, film, &stream) else {
                continue;
            };
            let mine = samples(&index, number);
            let skipped = stream.packets.len() - mine.len();
            let ms = |ticks: i64| ticks_to_nanos(ticks, track.timescale) as f64 / 1e6;
            for (sample, packet) in mine.iter().zip(&stream.packets[skipped..]) {
                let theirs = packet.pts as f64 * 1e3 / f64::from(stream.timescale);
                // Program streams need not state it for each picture.
                if packet.has_pts {
                    apart.push(theirs - ms(sample.3));
                }
                if track.kind == Kind::Video && packet.key != sample.4 {
                    return Err(format!("key picture at {theirs} ms: {}", sample.4));
                }
            }
        }
        let first = *apart.first().ok_or("no samples")?;
        let most = apart
            .iter()
            .map(|apart| (apart - first).abs())
            .fold(0.0, f64::max);
        match most < 1.0 {
            true => Ok(()),
            false => Err(format!("times are off by {most} ms")),
        }
    });
}

#[test]
fn mpeg4_visual_has_the_bytes_and_times_of_the_same_stream_in_mp4() {
    for name in ["transport_mpeg4", "program_mpeg4"] {
        let film = films::film(name);
        let dir = temp_dir("remuxed");
        let path = dir.path().join("same.mp4");
        let (from, to) = (
            film.path.to_str().expect("UTF-8"),
            path.to_str().expect("UTF-8"),
        );
        let arguments = ["-i", from, "-map", "0:v:0", "-c", "copy", to];
        run(ffmpeg(arguments), Duration::from_secs(60)).expect(name);
        let (mine, same) = (super::good(&film), index(&path).expect("an index"));
        let (number, track) = mine.title.video().expect("a picture");
        let Codec::Mpeg4Visual(own) = &track.codec else {
            panic!("{name}: {:?}", track.codec)
        };
        let Codec::Mpeg4Visual(theirs) = &same.title.tracks[0].codec else {
            panic!("{name}: {:?}", same.title.tracks[0].codec)
        };
        assert_eq!(own, theirs, "{name}");
        let view = view(&film.path, &mine);
        let file = std::fs::read(&path).expect("the film in MP4");
        assert!(
            bodies(&view, &mine, number) == bodies(&file, &same, 0),
            "{name}: other pictures"
        );
        let times = |index: &Index, number: usize| -> Vec<i64> {
            let track = &index.title.tracks[number];
            let all = samples(index, number).into_iter();
            all.map(|sample| ticks_to_nanos(sample.3, track.timescale))
                .collect()
        };
        let (own, theirs) = (times(&mine, number), times(&same, 0));
        let mut shown = own.clone();
        shown.sort_unstable();
        let even: Vec<i64> = (0..125).map(|nth| nth * 40_000_000).collect();
        assert_eq!(shown, even, "{name}");
        // Where the stream states no time, ffmpeg assumes that a picture is shown when it is
        // decoded.
        if name == "program_mpeg4" {
            continue;
        }
        for (nth, (own, theirs)) in own.iter().zip(&theirs).enumerate() {
            assert!(
                (own - theirs).abs() < 1_000_000,
                "{name}: picture {nth} at {own} ns, in MP4 at {theirs}"
            );
        }
    }
}

#[test]
fn sound_that_becomes_another_on_the_way_is_left_out_until_it_is_as_before() {
    let dir = temp_dir("reconfigured");
    for (name, flags) in [("transport", "+resend_headers"), ("transport_latm", "latm")] {
        let film = films::film(name);
        let path = film.path.to_str().expect("UTF-8");
        let first = std::fs::read(&film.path).expect("the film");
        let own = index(&film.path).expect("an index");
        let whole = view(&film.path, &own);
        let own = bodies(&whole, &own, 1);
        for other in [["-ar", "44100"], ["-ac", "6"]] {
            let piece = dir.path().join("piece.ts");
            let to = piece.to_str().expect("UTF-8");
            let before = ["-i", path, "-c:v", "copy", "-c:a", "aac", "-b:a", "96k"];
            let behind = ["-f", "mpegts", "-mpegts_flags", flags, "-y", to];
            let arguments = [&before[..], &other, &behind].concat();
            run(ffmpeg(arguments), Duration::from_secs(60)).expect(name);
            let joined = dir.path().join("joined.ts");
            let second = std::fs::read(&piece).expect("the piece");
            std::fs::write(&joined, [&first[..], &second, &first].concat()).expect("room");
            let index = index(&joined).expect("an index");
            let view = view(&joined, &index);
            let mine = bodies(&view, &index, 1);
            // Whether the last frame of a cut-off piece is complete can only be seen from the next
            // one.
            let half = own.len() - 1;
            assert!(mine[..half] == own[..half], "{name} {other:?}");
            assert!(mine[mine.len() - half..] == own[1..], "{name} {other:?}");
            assert!(
                (2 * half..=2 * own.len()).contains(&mine.len()),
                "{name} {other:?}"
            );
            let notes = index.title.notes.join("; ");
            assert!(
                notes.contains("sound frames have another configuration of AAC than the first"),
                "{name} {other:?}: {notes}"
            );
        }
    }
}
