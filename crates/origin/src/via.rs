//! The servers through which a film comes. They are tracked so that no server fetches a film from
//! itself. Pure.

use crate::fault::Fault;

/// Maximum number of servers through which a film may come.
const MOST_HOPS: usize = 8;

/// Maximum number of characters in a server's id.
const LONGEST_ID: usize = 64;

/// Whether this is a valid server id.
pub(crate) fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns `hops` (the nearest first) if the server with the id `own_id` may fetch the film through
/// them.
pub(crate) fn allowed(hops: Vec<String>, own_id: &str) -> Result<Vec<String>, Fault> {
    if !own_id.is_empty() && hops.iter().any(|id| id == own_id) {
        return Err(Fault::Loop(
            "loop of sources: the film comes from this server",
        ));
    }
    if hops.len() > MOST_HOPS {
        return Err(Fault::Loop("it passes more than 8 servers on its way"));
    }
    Ok(hops)
}

/// The ids of the Reelway servers that an answer has passed, from its `Via` lines, the nearest
/// first (RFC 9110 7.6.3). Other proxies are left out.
pub(crate) fn ids<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ids: Vec<String> = lines
        .flat_map(|line| line.split(','))
        .filter_map(|hop| {
            let mut words = hop.split_ascii_whitespace();
            let (_protocol, id, comment) = (words.next()?, words.next()?, words.next()?);
            (comment == "(Reelway)" && is_id(id)).then(|| id.to_owned())
        })
        .collect();
    ids.reverse();
    // One more than allowed is enough to detect that there are too many.
    ids.truncate(MOST_HOPS + 1);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_film_that_comes_from_this_server_or_by_too_many_is_not_taken() {
        assert_eq!(allowed(ids(&["b", "c"]), "a"), Ok(ids(&["b", "c"])));
        assert!(matches!(
            allowed(ids(&["b", "a"]), "a"),
            Err(Fault::Loop(_))
        ));
        assert_eq!(allowed(ids(&[""]), ""), Ok(ids(&[""])), "an old server");
        let far = ids(&["x"; MOST_HOPS + 1]);
        assert!(matches!(allowed(far.clone(), "a"), Err(Fault::Loop(_))));
        assert!(allowed(far[1..].to_vec(), "a").is_ok());
    }

    #[test]
    fn an_answer_names_the_servers_it_has_passed() {
        let passed = |lines: &[&str]| super::ids(lines.iter().copied());
        assert!(passed(&[]).is_empty());
        let lines = [
            "1.1 c (Reelway), 1.1 varnish (Varnish/7.1)",
            "1.0 fred, 1.1  b  (Reelway)",
        ];
        assert_eq!(passed(&lines), ids(&["b", "c"]));
        let many = "1.1 x (Reelway),".repeat(100);
        assert_eq!(passed(&[&many]).len(), MOST_HOPS + 1);
        assert!(passed(&[",, (Reelway) ,1.1 (Reelway)", "1.1 a-b (Reelway)"]).is_empty());
        assert!(passed(&[&format!("1.1 {} (Reelway)", "x".repeat(65))]).is_empty());
    }
}
