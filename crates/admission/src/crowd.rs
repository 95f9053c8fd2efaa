//! Counts the viewers of each title, address and user.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of viewers of one kind; 0 for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of one title.
    pub title: u32,
    /// From one address (IPv6: from one /64).
    pub address: u32,
    /// Of one user; viewers without a name count with all others at their address who have none.
    pub user: u32,
}

/// A key by which viewers are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Title(String),
    Address(IpAddr),
    User(String),
    Nameless(IpAddr),
}

/// The keys by which one viewer is counted.
#[derive(Clone, Debug)]
pub(crate) struct Member(Vec<Key>);

impl Member {
    pub fn new(title: &str, address: IpAddr, user: Option<&str>) -> Member {
        let home = household(address);
        let user = user.map_or(Key::Nameless(home), |user| Key::User(user.into()));
        Member(vec![Key::Title(title.into()), Key::Address(home), user])
    }
}

/// The viewer counts and their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    limits: Limits,
    counts: BTreeMap<Key, u32>,
}

impl Crowd {
    pub fn new(limits: Limits) -> Crowd {
        Crowd {
            limits,
            counts: BTreeMap::new(),
        }
    }

    /// Why one more viewer of this kind has no place, in words.
    pub fn full(&self, member: &Member) -> Option<String> {
        let key = self.full_key(member)?;
        let (most, setting, whom) = match key {
            Key::Title(title) => (self.limits.title, "per_title", format!("of '{title}'")),
            Key::Address(address) => (
                self.limits.address,
                "per_address",
                format!("from {address}"),
            ),
            Key::User(user) => (self.limits.user, "per_user", format!("of user '{user}'")),
            Key::Nameless(address) => (
                self.limits.user,
                "per_user",
                format!("from {address} that name no user"),
            ),
        };
        Some(format!(
            "there are {} viewers {whom}, and `admission.{setting}` is {most}",
            self.present(key)
        ))
    }

    /// Whether `other` takes one of the places that are missing for `member`.
    pub fn shares_full(&self, member: &Member, other: &Member) -> bool {
        self.full_key(member)
            .is_some_and(|key| other.0.contains(key))
    }

    fn present(&self, key: &Key) -> u32 {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// The first key whose limit is reached.
    fn full_key<'a>(&self, member: &'a Member) -> Option<&'a Key> {
        member.0.iter().find(|key| {
            let most = match key {
                Key::Title(_) => self.limits.title,
                Key::Address(_) => self.limits.address,
                Key::User(_) | Key::Nameless(_) => self.limits.user,
            };
            most > 0 && self.present(key) >= most
        })
    }

    pub fn enter(&mut self, member: &Member) {
        for key in &member.0 {
            *self.counts.entry(key.clone()).or_default() += 1;
        }
    }

    pub fn leave(&mut self, member: &Member) {
        for key in &member.0 {
            if let Some(count) = self.counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(key);
                }
            }
        }
    }
}

/// The address of the subscriber: with IPv6, a subscriber has a whole /64 (RFC 6177).
pub(crate) fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_an_address_and_a_user_are_counted_apart_and_who_leaves_makes_room() {
        let mut crowd = Crowd::new(Limits {
            title: 2,
            address: 1,
            user: 1,
        });
        let of =
            |title: &str, address: &str, user| Member::new(title, address.parse().unwrap(), user);
        let first = of("a", "10.0.0.1", Some("ann"));
        crowd.enter(&first);
        assert!(
            crowd
                .full(&of("b", "10.0.0.1", None))
                .is_some_and(|words| words.contains("10.0.0.1"))
        );
        assert!(
            crowd
                .full(&of("b", "10.0.0.2", Some("ann")))
                .is_some_and(|words| words.contains("ann"))
        );
        let second = of("a", "2001:db8::1", None);
        assert_eq!(crowd.full(&second), None);
        crowd.enter(&second);
        assert!(crowd.full(&of("b", "2001:db8::2", None)).is_some());
        assert!(
            crowd
                .full(&of("a", "10.0.0.3", None))
                .is_some_and(|words| words.contains("'a'"))
        );
        crowd.leave(&first);
        assert_eq!(crowd.full(&first), None);
        crowd.leave(&second);
        assert!(crowd.counts.is_empty());
    }

    #[test]
    fn to_name_no_user_does_not_help_against_a_limit_for_users() {
        let mut crowd = Crowd::new(Limits {
            user: 1,
            ..Limits::default()
        });
        let home = "10.0.0.1".parse().unwrap();
        crowd.enter(&Member::new("a", home, Some("ann")));
        let nameless = Member::new("a", home, None);
        assert_eq!(crowd.full(&nameless), None);
        crowd.enter(&nameless);
        assert!(
            crowd
                .full(&nameless)
                .is_some_and(|words| words.contains("10.0.0.1"))
        );
    }
}
