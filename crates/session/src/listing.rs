//! Listings of all sessions: pages in order of their beginning, and counts. Texts are only made for
//! the sessions shown.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use reelway_catalogue::{Catalogue, Watched};

use crate::protocol::Protocol;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::view::{SessionView, State};

/// Filter and order of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only those of this title.
    pub title: Option<String>,
    /// Only those delivered by this protocol.
    pub protocol: Option<Protocol>,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
}

impl Wanted {
    fn has(&self, session: &Session) -> bool {
        let title = self.title.as_ref();
        title.is_none_or(|title| title == session.title())
            && self
                .protocol
                .is_none_or(|protocol| protocol == session.protocol())
    }
}

impl Sessions {
    /// Returns the number of matching sessions, and at most `most` of them after the first `skip`.
    pub fn page(&self, wanted: &Wanted, skip: usize, most: usize) -> (usize, Vec<SessionView>) {
        let mut found = self.in_order();
        found.retain(|session| wanted.has(session));
        if wanted.newest_first {
            found.reverse();
        }
        let shown = found.iter().skip(skip).take(most);
        (found.len(), shown.map(Session::view).collect())
    }

    /// Returns the number of sessions by protocol and state.
    pub fn tally(&self) -> BTreeMap<(Protocol, State), usize> {
        let mut tally = BTreeMap::new();
        for session in self.in_order() {
            let moment = session.moment();
            let of = (moment.protocol, moment.progress.state);
            *tally.entry(of).or_default() += 1;
        }
        tally
    }

    /// Returns the films with the most viewers, at most `most`. Films whose version cannot be
    /// compared between two servers are left out.
    pub fn watched(&self, catalogue: &dyn Catalogue, most: usize) -> Vec<Watched> {
        let sessions = self.in_order();
        let mut viewers: HashMap<&str, u64> = HashMap::new();
        for session in &sessions {
            *viewers.entry(session.title()).or_default() += 1;
        }
        let mut titles: Vec<(&str, u64)> = viewers.into_iter().collect();
        titles.sort_by_key(|(title, viewers)| (Reverse(*viewers), *title));
        let films = titles.into_iter().filter_map(|(title, viewers)| {
            let film = catalogue.film(title).ok()?;
            Some(Watched {
                film: film.identity.number()?,
                viewers,
                rate: film.rate().saturating_mul(viewers),
            })
        });
        films.take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{EndReason, Limits, NewSession};

    fn sessions(titles: &[&str]) -> (Sessions, Vec<Session>) {
        let sessions = Sessions::new(Limits::default());
        let open = |(number, title): (usize, &&str)| {
            let newcomer = NewSession {
                protocol: [Protocol::Hls, Protocol::Dash][number % 2],
                peer: "127.0.0.1:1".parse().unwrap(),
                connection: number as u64,
                title: (*title).to_owned(),
                duration: Duration::from_secs(10),
                user_agent: None,
                query: None,
                wants: None,
            };
            sessions.open(newcomer).unwrap()
        };
        let opened = titles.iter().enumerate().map(open).collect();
        (sessions, opened)
    }

    fn titles(page: &(usize, Vec<SessionView>)) -> Vec<&str> {
        page.1.iter().map(|view| view.title.as_str()).collect()
    }

    #[test]
    fn pages_follow_the_order_in_which_sessions_began() {
        let (sessions, opened) = sessions(&["a", "b", "c", "d", "e"]);
        let all = Wanted::default();
        let page = sessions.page(&all, 2, 2);
        assert_eq!((page.0, titles(&page)), (5, vec!["c", "d"]));
        opened[2].end(EndReason::Left);
        let page = sessions.page(&all, 2, 2);
        assert_eq!((page.0, titles(&page)), (4, vec!["d", "e"]));
        let newest = Wanted {
            newest_first: true,
            ..Wanted::default()
        };
        assert_eq!(titles(&sessions.page(&newest, 0, 2)), ["e", "d"]);
        assert_eq!(sessions.page(&all, 9, 2).1.len(), 0);
    }

    #[test]
    fn sessions_are_found_by_title_and_protocol_and_counted() {
        let (sessions, _opened) = sessions(&["a", "b", "a", "a"]);
        let wanted = |title: Option<&str>, protocol| Wanted {
            title: title.map(str::to_owned),
            protocol,
            newest_first: false,
        };
        assert_eq!(sessions.page(&wanted(Some("a"), None), 0, 9).0, 3);
        let both = wanted(Some("a"), Some(Protocol::Dash));
        assert_eq!(sessions.page(&both, 0, 9).0, 1);
        let tally = sessions.tally();
        assert_eq!(tally[&(Protocol::Hls, State::Ready)], 2);
        assert_eq!(tally.values().sum::<usize>(), 4);
    }
}
