//! A player over HTTP: fetches while its buffer has room, shows media on time, and stalls when the
//! buffer is empty.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::mpd;
use super::playlist::{self, Playlist, Rendition};
use super::track::Played;
use crate::course::Course;
use crate::histogram::Histogram;
use crate::playback::{OnlinePlayer, Playback};
use crate::progress::{Now, Progress};
use crate::reference::Reference;
use crate::story::TrackStory;
use crate::trouble::Trouble;
use crate::verdict::Finding;

/// How far ahead a player fetches, in nanoseconds: the default of hls.js and dash.js.
const AHEAD: i64 = 30_000_000_000;
/// Maximum time between two checks whether the run is over.
const LOOK: Duration = Duration::from_millis(500);

/// Options of the player.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long to watch; `None`: to the film's end.
    pub duration: Option<Duration>,
    /// How much media must be buffered before playback begins.
    pub depth: Duration,
    /// Timeout for silence of the server.
    pub patience: Duration,
    /// Whether to check the contents of segments, or only to count and time them.
    pub look: bool,
    /// Source address of the player.
    pub source: Option<IpAddr>,
    /// Receives the viewer's progress.
    pub progress: Arc<Progress>,
}

/// The results of a viewer, and the error that ended playback early.
#[derive(Debug, Default)]
pub struct Watched {
    /// Tracks, as far as the segments show them.
    pub tracks: Vec<TrackStory>,
    /// Number of segments that arrived.
    pub segments: u64,
    /// Their total length in bytes.
    pub bytes: u64,
    /// Time from the request for the playlist to the first segment.
    pub start: Option<Duration>,
    /// Time from the request for the playlist to the first picture.
    pub shown: Option<Duration>,
    /// What the player showed.
    pub playback: Playback,
    /// Lateness of segments.
    pub late: Histogram,
    /// Playback second by second; only if the contents of segments are checked.
    pub course: Course,
    /// Contradictions between segments and playlist.
    pub findings: Vec<Finding>,
    /// Why playback ended early.
    pub trouble: Option<Trouble>,
}

/// Plays a film and returns the results, however it ended. `over` says whether to end now; `came`
/// is called for each segment with its length and lateness.
pub async fn watch(
    url: &str,
    options: &Options,
    reference: Option<&Reference>,
    (over, came): (impl Fn() -> bool, impl FnMut(u64, Duration)),
) -> Watched {
    let mut watched = Watched::default();
    let asked = reelway_clock::real().nanos();
    let mut client = Client::new(options.patience, options.source);
    match begin(url, &mut client).await {
        Ok(mut tracks) => {
            let played = play(
                &mut client,
                &mut tracks,
                options,
                reference,
                asked,
                &mut watched,
                (over, came),
            );
            watched.trouble = played.await.err();
            for track in tracks {
                watched.tracks.extend(track.stories);
                watched.findings.extend(track.findings);
            }
        }
        Err(trouble) => watched.trouble = Some(trouble),
    }
    watched
}

/// Returns the tracks of a film.
async fn begin(url: &str, client: &mut Client) -> Result<Vec<Played>, Trouble> {
    let wrong = |url: &str, why: String| Trouble::Protocol(format!("{url}: {why}"));
    let (text, found) = client.text(url).await?;
    let path = found.split('?').next().unwrap_or_default();
    let mut renditions: Vec<Rendition> = Vec::new();
    if path.ends_with(".mpd") || text.trim_start().starts_with("<?xml") {
        renditions = mpd::parse(&text, &found).map_err(|why| wrong(url, why))?;
    } else {
        match playlist::parse(&text, &found).map_err(|why| wrong(url, why))? {
            Playlist::Media(rendition) => renditions.push(rendition),
            Playlist::Multivariant(picture, sound) => {
                for url in std::iter::once(picture).chain(sound) {
                    let (text, found) = client.text(&url).await?;
                    match playlist::parse(&text, &found).map_err(|why| wrong(&url, why))? {
                        Playlist::Media(rendition) => renditions.push(rendition),
                        Playlist::Multivariant(..) => {
                            return Err(wrong(&url, "a playlist of playlists of playlists".into()));
                        }
                    }
                }
            }
        }
    }
    let mut tracks: Vec<Played> = renditions.into_iter().map(Played::new).collect();
    for track in &mut tracks {
        if let Some((url, range)) = track.rendition.init.clone() {
            let fetched = client.get(&url, range, true).await?;
            track.begin(&fetched.body);
        }
    }
    Ok(tracks)
}

async fn play(
    client: &mut Client,
    tracks: &mut [Played],
    options: &Options,
    reference: Option<&Reference>,
    asked: u64,
    watched: &mut Watched,
    (over, mut tell): (impl Fn() -> bool, impl FnMut(u64, Duration)),
) -> Result<(), Trouble> {
    let began = tracks.iter().map(Played::buffered).min().unwrap_or(0);
    // Nothing is shown before enough is buffered; after that, every segment is due at its time.
    let mut player = OnlinePlayer::new(Duration::ZERO);
    let mut shows = false;
    loop {
        let now = reelway_clock::real().nanos();
        let passed = Duration::from_nanos(now.saturating_sub(asked));
        if over() || options.duration.is_some_and(|most| passed >= most) {
            break;
        }
        // The track whose buffer runs out first is fetched first.
        let next = (0..tracks.len())
            .filter(|number| tracks[*number].next().is_some())
            .min_by_key(|number| tracks[*number].buffered());
        let Some(number) = next else {
            break;
        };
        let position = player.position(now).unwrap_or(began);
        let ahead = tracks[number].buffered() - position;
        if shows && ahead > AHEAD {
            let room = Duration::from_nanos((ahead - AHEAD) as u64);
            tokio::time::sleep(room.min(LOOK)).await;
            continue;
        }
        let Some(segment) = tracks[number].next().cloned() else {
            break;
        };
        let fetched = client
            .get(&segment.url, segment.range, options.look)
            .await?;
        let came = reelway_clock::real().nanos();
        watched.segments += 1;
        watched.bytes += fetched.bytes;
        watched
            .start
            .get_or_insert(Duration::from_nanos(came.saturating_sub(asked)));
        if options.look {
            watched.course.came(came, fetched.bytes);
            tracks[number].look(&fetched.body, reference);
        }
        tracks[number].fetched += 1;
        let late = match shows {
            true => player.segment(segment.start, came),
            false => 0,
        };
        watched.late.add(Duration::from_nanos(late));
        tell(fetched.bytes, Duration::from_nanos(late));
        if shows {
            if options.look {
                watched.course.late(came, late);
            }
        } else {
            let ready = tracks.iter().map(Played::buffered).min().unwrap_or(0) - began;
            let all = tracks.iter().all(|track| track.next().is_none());
            if all || ready >= options.depth.as_nanos() as i64 {
                shows = true;
                player.begin(began);
                player.came(came);
                watched.shown = Some(Duration::from_nanos(came.saturating_sub(asked)));
            }
        }
        watched.playback = player.shown().clone();
        options.progress.is_at(Now {
            media: tracks[number].buffered() - began,
            came: watched.segments,
            lost: 0,
            playback: watched.playback.clone(),
        });
    }
    // What has been fetched is watched to its end.
    while shows && !over() {
        let now = reelway_clock::real().nanos();
        let passed = Duration::from_nanos(now.saturating_sub(asked));
        let end = tracks.iter().map(Played::buffered).max().unwrap_or(0);
        let left = end - player.position(now).unwrap_or(end);
        let left = Duration::from_nanos(left.max(0) as u64);
        let left = options
            .duration
            .map_or(left, |most| left.min(most.saturating_sub(passed)));
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
    Ok(())
}
