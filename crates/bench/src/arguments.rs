//! How every experiment reads its arguments.

/// The arguments of an experiment; wrong usage ends the process as everywhere.
pub(crate) fn arguments<A: clap::Parser>(name: &str, args: &[String]) -> A {
    let name = format!("reelway bench {name}");
    let command = A::command().bin_name(&name).after_help(
        "--json FILE and --markdown DIR work with every experiment: see reelway bench --help",
    );
    let parsed = command.try_get_matches_from(std::iter::once(&name).chain(args));
    let parsed = parsed.and_then(|matches| A::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| error.exit())
}
