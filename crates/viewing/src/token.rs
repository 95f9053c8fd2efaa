//! Tokens: viewer names, and the secret that authorises changes.

/// Length of a viewer's token in characters.
pub const TOKEN_LENGTH: usize = 24;

/// Whether this has the form of a viewer's token.
pub fn is_token(text: &str) -> bool {
    text.len() == TOKEN_LENGTH
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// Returns the token of an `Authorization: Bearer TOKEN` header (RFC 6750, section 2.1).
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares in constant time, so that timing does not reveal how much matched.
pub fn is_secret(given: &str, secret: &str) -> bool {
    let pairs = given.bytes().zip(secret.bytes());
    let different = pairs.fold(0, |different, (a, b)| different | (a ^ b));
    given.len() == secret.len() && std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_length_and_few_kinds_of_characters() {
        assert!(is_token("abcdefghijkmnpqrstuvwx29"));
        for other in ["", "abc", "Abcdefghijkmnpqrstuvwx29", &"-".repeat(24)] {
            assert!(!is_token(other), "{other}");
        }
    }

    #[test]
    fn a_bearer_brings_a_token_and_other_schemes_do_not() {
        assert_eq!(bearer("Bearer secret"), Some("secret"));
        assert_eq!(bearer("bearer  secret "), Some("secret"));
        assert_eq!(bearer("Basic secret"), None);
        assert_eq!(bearer("secret"), None);
    }

    #[test]
    fn a_secret_is_known_whole_or_not_at_all() {
        assert!(is_secret("secret", "secret"));
        for other in ["", "secre", "secrets", "Secret"] {
            assert!(!is_secret(other, "secret"), "{other}");
        }
    }
}
