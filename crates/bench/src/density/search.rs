//! The search for the largest number of viewers that a server keeps up with: doubled until it does
//! not, then by bisection. Pure except for the trial that callers pass.

/// Result of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The largest number that the server kept up with; 0 if there was none.
    pub most: u32,
    /// The smallest number that it did not keep up with; `None` if the limit was reached, or time
    /// ran out on the way up.
    pub too_many: Option<u32>,
}

/// Searches from `first` up to `limit`, until the bounds are within a twentieth of each other or
/// `goes_on` returns false.
///
/// # Errors
/// The error of a trial that `keeps_up` could not carry out.
pub fn largest(
    first: u32,
    limit: u32,
    mut goes_on: impl FnMut() -> bool,
    mut keeps_up: impl FnMut(u32) -> anyhow::Result<bool>,
) -> anyhow::Result<SearchResult> {
    let mut found = SearchResult::default();
    let mut next = first.min(limit).max(1);
    while goes_on() {
        if keeps_up(next)? {
            found.most = next;
        } else {
            found.too_many = Some(next);
        }
        next = match found.too_many {
            None if found.most >= limit => break,
            None => (found.most * 2).min(limit),
            Some(too_many) => {
                let between = too_many - found.most;
                if between <= (too_many / 20).max(2) {
                    break;
                }
                found.most + between / 2
            }
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(truth: u32, limit: u32) -> (SearchResult, u32) {
        let mut trials = 0;
        let found = largest(
            50,
            limit,
            || true,
            |viewers| {
                trials += 1;
                Ok(viewers <= truth)
            },
        );
        (found.unwrap(), trials)
    }

    #[test]
    fn the_bounds_close_around_the_truth() {
        for truth in [3, 49, 50, 51, 160, 777, 2999] {
            let (found, trials) = search(truth, 4000);
            let too_many = found.too_many.unwrap();
            assert!(
                found.most <= truth && truth < too_many,
                "{truth}: {found:?}"
            );
            assert!(
                too_many - found.most <= (too_many / 20).max(2) && trials < 16,
                "{truth}: {found:?} in {trials}"
            );
        }
    }

    #[test]
    fn it_stops_at_the_limit_and_when_told() {
        assert_eq!(
            search(10_000, 400),
            (
                SearchResult {
                    most: 400,
                    too_many: None
                },
                4
            )
        );
        assert_eq!(
            largest(50, 400, || false, |_| Ok(true)).unwrap(),
            SearchResult::default()
        );
    }
}
