//! Parsing of the experiments' command-line arguments.

use std::str::FromStr;

/// Parses a finite number greater than 0, such as a number of seconds or minutes.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    match number.is_finite() && number > 0.0 {
        true => Ok(number),
        false => Err("must be more than 0".to_owned()),
    }
}

/// Parses an integer of at least 1, such as a number of rounds or films.
pub(crate) fn one_or_more<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number: T = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    match number >= T::from(1) {
        true => Ok(number),
        false => Err("must be at least 1".to_owned()),
    }
}

/// Parses the arguments of an experiment; exits the process with clap's message if they are wrong.
pub(crate) fn arguments<A: clap::Parser>(name: &str, args: &[String]) -> A {
    let name = format!("reelway bench {name}");
    let command = A::command().bin_name(&name).after_help(
        "--json FILE and --markdown DIR work with every experiment: see reelway bench --help",
    );
    let parsed = command.try_get_matches_from(std::iter::once(&name).chain(args));
    let parsed = parsed.and_then(|matches| A::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_experiment_are_refused() {
        for text in ["0", "-1", "nan", "inf", "1e999", "", "five"] {
            assert!(positive(text).is_err(), "{text}");
            assert!(one_or_more::<u32>(text).is_err(), "{text}");
        }
        assert_eq!(positive("0.5"), Ok(0.5));
        assert_eq!(one_or_more::<usize>("7"), Ok(7));
    }
}
