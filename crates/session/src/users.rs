//! Which user a viewer is, verified by a signature: `?user=NAME&sign=…` in the film's URL, signed
//! with a key that only the operator's portal has.
//!
//! The name serves to count a user's viewers ([`reelway_admission::Limits`]); it grants no access.
//! Anybody can read the URLs that carry it, and a viewer with another user's URL counts as that
//! user's.

use std::fmt;

use percent_encoding::percent_decode_str;
use reelway_admission::Refusal;
use ring::hmac::{HMAC_SHA256, Key, verify};

/// Minimum key length in bytes: too long to guess.
const LEAST_KEY: usize = 16;
/// Maximum length of a name in bytes.
const MOST_NAME: usize = 64;

/// Identifies users by their URLs. Without a key no user is known, and names in URLs are ignored.
#[derive(Clone, Default)]
pub struct Users(Option<Key>);

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Do not print the key.
        let known = self.0.as_ref().map(|_| "by their signatures");
        f.debug_tuple("Users").field(&known).finish()
    }
}

impl Users {
    /// Creates an identifier of users whose names are signed with this key.
    ///
    /// # Errors
    /// The key is shorter than 16 bytes; returns a message.
    pub fn signed_with(key: &[u8]) -> Result<Users, String> {
        if key.len() < LEAST_KEY {
            let len = key.len();
            return Err(format!(
                "a key of {len} bytes can be guessed: at least {LEAST_KEY} are needed"
            ));
        }
        Ok(Users(Some(Key::new(HMAC_SHA256, key))))
    }

    /// Whether signatures are checked.
    pub fn are_known(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the user named by this query; `None` if it names none, or users are not known here.
    ///
    /// # Errors
    /// It names a user, but the signature does not match the name.
    pub(crate) fn of(&self, query: Option<&str>) -> Result<Option<String>, Refusal> {
        let (Some(key), Some(query)) = (&self.0, query) else {
            return Ok(None);
        };
        let Some(name) = part(query, "user") else {
            return Ok(None);
        };
        let refused = |words: &str| Refusal {
            reason: words.to_owned(),
            retry_after: None,
        };
        let name = percent_decode_str(name).decode_utf8();
        let sound =
            |name: &str| (1..=MOST_NAME).contains(&name.len()) && !name.contains(char::is_control);
        let Some(name) = name.ok().filter(|name| sound(name)) else {
            return Err(refused(
                "user= in the address must be a name of 1 to 64 bytes",
            ));
        };
        let sign = part(query, "sign").and_then(bytes);
        match sign.is_some_and(|sign| verify(key, name.as_bytes(), &sign).is_ok()) {
            true => Ok(Some(name.into_owned())),
            false => Err(refused(
                "sign= in the address is not a signature of its user=; get a new address from where you got this one",
            )),
        }
    }
}

/// Returns the value of a query parameter. Some clients append a path to a whole URL, including its
/// query.
fn part<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = query.split('&').filter_map(|part| part.split_once('='));
    let (_, value) = parts.find(|(of, _)| *of == name)?;
    value.split('/').next()
}

/// Decodes 64 hexadecimal digits.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    // `from_str_radix` accepts a sign.
    let are_digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (hex.len() == 64 && are_digits).then(|| pairs.map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf ann | openssl dgst -sha256 -hmac 0123456789abcdef`
    const ANN: &str = "fb385915a0623c0be3e7b0a7134dbb620a2771faff45e92eb8647d11aa2947cf";

    fn users() -> Users {
        Users::signed_with(b"0123456789abcdef").unwrap()
    }

    #[test]
    fn a_signed_name_is_known_and_nobody_needs_one() {
        let of = |query: &str| users().of(Some(query));
        assert_eq!(of(&format!("user=ann&sign={ANN}")), Ok(Some("ann".into())));
        assert_eq!(
            of(&format!("s=x&sign={ANN}/track=1&user=%61nn")),
            Ok(Some("ann".into())),
            "in any order, encoded, with a track that a client appended"
        );
        assert_eq!(of("s=x"), Ok(None));
        assert_eq!(users().of(None), Ok(None));
        assert_eq!(Users::default().of(Some("user=ann&sign=0")), Ok(None));
    }

    #[test]
    fn what_is_not_signed_is_refused_for_good() {
        let long = format!("user={}&sign={ANN}", "a".repeat(65));
        for query in [
            "user=ann",
            "user=ann&sign=",
            "user=ann&sign=é",
            &format!("user=bob&sign={ANN}"),
            &format!("user=ann&sign={}", ANN.replace('f', "0")),
            &format!("user=ann&sign={}", ANN.replace("0b", "+b")),
            &format!("user=&sign={ANN}"),
            &format!("user=%ff&sign={ANN}"),
            &long,
        ] {
            let refused = users().of(Some(query)).unwrap_err();
            assert_eq!(refused.retry_after, None, "{query}: {}", refused.reason);
        }
        assert!(Users::signed_with(b"short").is_err());
    }
}
