//! Who the viewers are.
//!
//! A viewer over HLS or DASH begins with the multivariant playlist or the MPD, and gets a token
//! that all URLs below it carry (`?s=TOKEN`). A token is a name, not a permission: a well-formed,
//! unknown token (the session expired in a pause, or the server was restarted) makes the caller a
//! newcomer of that name. Ended tokens, and tokens of another film, are refused. Segments requested
//! without a token, and files, belong to a viewer identified by address and program.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_time::Monotonic;

use crate::token::is_token;

/// How long an ended token is refused.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// How long a viewer without a token is kept out after being ended.
const KEPT_OUT: Duration = Duration::from_secs(60);
/// Longest query that is kept, in bytes: a user name and signature take less.
const LONGEST_QUERY: usize = 1024;
/// Maximum number of past viewers that are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// How a film is delivered over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// As segments of an HLS playlist.
    Hls,
    /// As segments of an HLS playlist that are slices of a transport stream as it is.
    TransportStream,
    /// As segments of a DASH manifest.
    Dash,
    /// As a file.
    File,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Their address.
    pub peer: SocketAddr,
    /// The number of the connection.
    pub connection: u64,
    /// The program: `User-Agent`.
    pub agent: Option<String>,
    /// The token in the URL.
    pub token: Option<String>,
    /// The whole query string; it may identify the user.
    pub query: Option<String>,
}

impl Caller {
    /// Returns the token in the URL, if there is one.
    ///
    /// # Errors
    /// It is not a valid token.
    pub fn checked_token(&self) -> Result<Option<&str>, Denied> {
        let token = self.token.as_deref();
        match token.is_none_or(is_token) {
            true => Ok(token),
            false => Err(Denied::Forbidden(
                "this is not a viewer's token; open the film's playlist again",
            )),
        }
    }
}

/// Why a caller is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Access is denied, with the reason: 403.
    Forbidden(&'static str),
    /// Their session is over, with the reason: 410.
    Gone(String),
}

/// How a viewer is recognised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A token.
    Token(String),
    /// An address and a program, for one film.
    Anonymous {
        /// The address.
        ip: IpAddr,
        /// The program.
        agent: Option<String>,
        /// The film.
        title: String,
        /// How it is delivered.
        delivery: Delivery,
        /// The query, if users are known: two users may share an address.
        query: Option<String>,
    },
}

impl Key {
    /// Returns the token; empty for viewers without one.
    pub fn token(&self) -> &str {
        match self {
            Key::Token(token) => token,
            Key::Anonymous { .. } => "",
        }
    }
}

/// A film that is being watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Film<'a> {
    /// Its name.
    pub title: &'a str,
    /// Identifies the film; unchanged while a recording grows.
    pub edition: &'a str,
    /// Whether it is sent as the transport stream that its file is, which is booked differently.
    pub as_stream: bool,
}

/// What is known about a caller.
#[derive(Clone, Debug)]
pub struct KnownCaller<V> {
    /// How they are recognised.
    pub key: Key,
    /// How they began: a returning viewer keeps their delivery.
    pub delivery: Delivery,
    /// The query of the URL they began with. URLs below the playlist do not identify them again.
    pub query: Option<String>,
    /// Their current session, if they have one.
    pub present: Option<Present<V>>,
}

/// A viewer with a current session.
#[derive(Clone, Debug)]
pub struct Present<V> {
    /// The owner's data about them.
    pub viewer: V,
    number: u64,
    title: Arc<str>,
    edition: Arc<str>,
    as_stream: bool,
}

/// Why a request does not match what the viewer watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// They watch another film.
    OtherFilm,
    /// They watch the film in another form.
    OtherForm,
    /// The file they began to watch was replaced.
    Replaced,
}

impl<V> Present<V> {
    /// Checks that it is this film that they watch.
    ///
    /// # Errors
    /// They watch another film, another form of it, or the file was replaced.
    pub fn check(&self, film: Film<'_>) -> Result<(), Mismatch> {
        if *self.title != *film.title {
            Err(Mismatch::OtherFilm)
        } else if self.as_stream != film.as_stream {
            Err(Mismatch::OtherForm)
        } else if *self.edition != *film.edition {
            Err(Mismatch::Replaced)
        } else {
            Ok(())
        }
    }
}

impl From<Mismatch> for Denied {
    fn from(mismatch: Mismatch) -> Denied {
        match mismatch {
            Mismatch::OtherFilm => {
                Denied::Forbidden("this token belongs to a viewer of another film")
            }
            Mismatch::OtherForm => Denied::Forbidden(
                "this token belongs to a viewer of another form of the film; open its playlist",
            ),
            Mismatch::Replaced => {
                Denied::Gone("the film was replaced while it was watched; open it again".into())
            }
        }
    }
}

/// A viewer's entry, returned when their session ends.
#[derive(Clone, Debug)]
pub struct Entry {
    key: Key,
    number: u64,
    delivery: Delivery,
    query: Option<String>,
}

/// How a session ended, as far as it matters when its viewer returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was ended by the operator.
    Kicked,
    /// It could not go on, for this reason.
    Failed(String),
    /// Silent for too long, or not begun when others needed the room: the viewer may return.
    Silent,
    /// Any other end.
    Over,
}

/// What is remembered of a past viewer.
#[derive(Clone, Debug)]
struct Past {
    /// When the entry expires.
    until: Monotonic,
    /// Why they were ended and may not return, as a message suffix; `None` after mere silence.
    ended: Option<Arc<str>>,
    delivery: Delivery,
    /// The query of the URL they began with, if users are known.
    query: Option<String>,
}

/// All viewers over HTTP.
#[derive(Debug)]
pub struct Viewers<V> {
    knows_users: bool,
    present: BTreeMap<Key, Present<V>>,
    past: BTreeMap<Key, Past>,
    /// Number of viewers so far.
    last: u64,
}

impl<V: Clone> Viewers<V> {
    /// Creates an empty list. If `knows_users` is set, the query says who a viewer is.
    pub fn new(knows_users: bool) -> Viewers<V> {
        Viewers {
            knows_users,
            present: BTreeMap::new(),
            past: BTreeMap::new(),
            last: 0,
        }
    }

    /// Identifies the sender of a request for a film.
    ///
    /// # Errors
    /// The token is invalid, or its session was ended.
    pub fn find(
        &self,
        caller: &Caller,
        title: &str,
        delivery: Delivery,
        now: Monotonic,
    ) -> Result<KnownCaller<V>, Denied> {
        let key = match caller.checked_token()? {
            Some(token) => Key::Token(token.to_owned()),
            None => Key::Anonymous {
                ip: caller.peer.ip(),
                agent: caller.agent.clone(),
                title: title.to_owned(),
                delivery,
                query: self.kept(caller.query.as_ref()),
            },
        };
        let past = self.past.get(&key).filter(|past| now < past.until);
        if let Some(why) = past.and_then(|past| past.ended.as_deref()) {
            return Err(Denied::Gone(format!(
                "this viewer's session was ended{why}"
            )));
        }
        let query = past.and_then(|past| past.query.clone());
        Ok(KnownCaller {
            delivery: past.map_or(delivery, |past| past.delivery),
            query: query.or(caller.query.clone()),
            present: self.present.get(&key).cloned(),
            key,
        })
    }

    /// Returns the viewer recognised by this key.
    pub fn get(&self, key: &Key) -> Option<&Present<V>> {
        self.present.get(key)
    }

    /// Enters a viewer of a film, replacing any other with the same key.
    pub fn enter(
        &mut self,
        key: Key,
        film: Film<'_>,
        (delivery, query): (Delivery, Option<&String>),
        viewer: V,
    ) -> Entry {
        self.last += 1;
        let present = Present {
            viewer,
            number: self.last,
            title: film.title.into(),
            edition: film.edition.into(),
            as_stream: film.as_stream,
        };
        self.present.insert(key.clone(), present);
        Entry {
            key,
            number: self.last,
            delivery,
            query: self.kept(query),
        }
    }

    /// Removes the viewer of this entry.
    pub fn leave(&mut self, entry: Entry, end: End, now: Monotonic) {
        let Entry {
            key,
            number,
            delivery,
            query,
        } = entry;
        // They may have begun a new session meanwhile.
        let present = self.present.get(&key);
        if present.is_some_and(|present| present.number == number) {
            self.present.remove(&key);
        }
        let (ended, keep) = match (end, &key) {
            (End::Failed(why), Key::Token(_)) => (Some(format!(": {why}")), REMEMBERED),
            (End::Kicked, Key::Token(_)) => (Some(String::new()), REMEMBERED),
            (End::Kicked, Key::Anonymous { .. }) => (Some(String::new()), KEPT_OUT),
            (End::Silent, Key::Token(_)) => (None, REMEMBERED),
            _ => return,
        };
        let past = &mut self.past;
        if past.len() >= MOST_REMEMBERED {
            past.retain(|_, past| now < past.until && past.ended.is_some());
        }
        if past.len() < MOST_REMEMBERED {
            let past = Past {
                until: now + keep,
                ended: ended.map(Arc::from),
                delivery,
                query,
            };
            self.past.insert(key, past);
        }
    }

    /// Returns a caller's first query if it is kept: users are known, and it is not too long.
    fn kept(&self, query: Option<&String>) -> Option<String> {
        let query = query.filter(|query| self.knows_users && query.len() <= LONGEST_QUERY);
        query.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "abcdefghijkmnpqrstuvwx29";
    const FILM: Film<'static> = Film {
        title: "film",
        edition: "1",
        as_stream: false,
    };

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    fn caller(token: Option<&str>, query: &str) -> Caller {
        Caller {
            peer: "192.0.2.1:1000".parse().unwrap(),
            connection: 1,
            agent: Some("player".into()),
            token: token.map(str::to_owned),
            query: Some(query.to_owned()),
        }
    }

    fn find(
        viewers: &Viewers<u32>,
        caller: &Caller,
        seconds: u64,
    ) -> Result<KnownCaller<u32>, Denied> {
        viewers.find(caller, FILM.title, Delivery::Hls, at(seconds))
    }

    fn viewer_of(viewers: &Viewers<u32>, caller: &Caller, seconds: u64) -> Option<u32> {
        let found = find(viewers, caller, seconds).ok()?;
        found.present.map(|present| present.viewer)
    }

    fn enter(viewers: &mut Viewers<u32>, caller: &Caller, viewer: u32) -> Entry {
        let found = find(viewers, caller, 0).unwrap();
        let began = (found.delivery, found.query.as_ref());
        viewers.enter(found.key, FILM, began, viewer)
    }

    #[test]
    fn a_viewer_is_known_by_a_token_from_anywhere_or_else_by_address_and_program() {
        let mut viewers = Viewers::new(false);
        let named = caller(Some(TOKEN), "s=…");
        enter(&mut viewers, &named, 1);
        let elsewhere = Caller {
            peer: "192.0.2.9:1".parse().unwrap(),
            agent: None,
            ..named
        };
        assert_eq!(viewer_of(&viewers, &elsewhere, 0), Some(1));
        let nameless = caller(None, "");
        assert_eq!(viewer_of(&viewers, &nameless, 0), None);
        enter(&mut viewers, &nameless, 2);
        assert_eq!(viewer_of(&viewers, &caller(None, "x"), 0), Some(2));
        let other = Caller {
            agent: Some("another player".into()),
            ..nameless
        };
        assert_eq!(viewer_of(&viewers, &other, 0), None);
        let no_token = find(&viewers, &caller(Some("no token"), ""), 0);
        assert!(matches!(no_token, Err(Denied::Forbidden(_))));
    }

    #[test]
    fn where_users_are_known_two_of_them_may_share_an_address() {
        let mut viewers = Viewers::new(true);
        enter(&mut viewers, &caller(None, "user=a"), 1);
        enter(&mut viewers, &caller(None, "user=b"), 2);
        assert_eq!(viewer_of(&viewers, &caller(None, "user=a"), 0), Some(1));
        assert_eq!(viewer_of(&viewers, &caller(None, "user=b"), 0), Some(2));
    }

    #[test]
    fn a_token_that_was_ended_is_refused_for_a_day_and_others_for_a_minute() {
        let mut viewers = Viewers::new(false);
        let (named, nameless) = (caller(Some(TOKEN), ""), caller(None, ""));
        for (caller, seconds) in [(&named, 24 * 3600), (&nameless, 60)] {
            let entry = enter(&mut viewers, caller, 1);
            viewers.leave(entry, End::Kicked, at(0));
            let refused = find(&viewers, caller, seconds - 1).unwrap_err();
            assert_eq!(
                refused,
                Denied::Gone("this viewer's session was ended".into())
            );
            assert!(find(&viewers, caller, seconds).unwrap().present.is_none());
        }
        let mut viewers = Viewers::new(false);
        let entry = enter(&mut viewers, &named, 1);
        viewers.leave(entry, End::Failed("it broke".into()), at(0));
        let refused = find(&viewers, &named, 1).unwrap_err();
        assert_eq!(
            refused,
            Denied::Gone("this viewer's session was ended: it broke".into())
        );
    }

    #[test]
    fn a_viewer_who_comes_back_after_a_silence_is_who_they_were() {
        let mut viewers = Viewers::new(true);
        let named = caller(Some(TOKEN), "user=a");
        let entry = viewers.enter(
            Key::Token(TOKEN.into()),
            FILM,
            (Delivery::Dash, named.query.as_ref()),
            1,
        );
        viewers.leave(entry, End::Silent, at(0));
        let back = find(&viewers, &caller(Some(TOKEN), "s=…"), 9).unwrap();
        assert!(back.present.is_none());
        assert_eq!(back.delivery, Delivery::Dash);
        assert_eq!(back.query.as_deref(), Some("user=a"));
    }

    #[test]
    fn a_viewer_who_came_anew_stays_when_the_old_viewing_ends() {
        let mut viewers = Viewers::new(false);
        let named = caller(Some(TOKEN), "");
        let old = enter(&mut viewers, &named, 1);
        enter(&mut viewers, &named, 2);
        viewers.leave(old, End::Over, at(0));
        assert_eq!(viewer_of(&viewers, &named, 0), Some(2));
    }

    #[test]
    fn a_viewer_watches_one_film_and_one_file_of_it() {
        let mut viewers = Viewers::new(false);
        let named = caller(Some(TOKEN), "");
        enter(&mut viewers, &named, 1);
        let present = find(&viewers, &named, 0).unwrap().present.unwrap();
        let check = |title, edition| {
            present.check(Film {
                title,
                edition,
                as_stream: false,
            })
        };
        assert_eq!(check("film", "1"), Ok(()));
        assert_eq!(check("film", "2"), Err(Mismatch::Replaced));
        let as_stream = Film {
            as_stream: true,
            ..FILM
        };
        assert_eq!(present.check(as_stream), Err(Mismatch::OtherForm));
        assert_eq!(check("other", "1"), Err(Mismatch::OtherFilm));
    }

    #[test]
    fn of_those_who_were_there_a_bounded_number_is_remembered_the_ended_first() {
        let mut viewers = Viewers::new(false);
        let token = |number: usize| format!("{number:024}");
        for number in 0..MOST_REMEMBERED + 1 {
            let entry = enter(&mut viewers, &caller(Some(&token(number)), ""), 1);
            let end = match number {
                0 => End::Kicked,
                _ => End::Silent,
            };
            viewers.leave(entry, end, at(0));
        }
        assert_eq!(viewers.past.len(), 2, "the ended one and the last");
        assert!(find(&viewers, &caller(Some(&token(0)), ""), 1).is_err());
    }
}
