"""Runs the whole suite, or the given steps. `scripts/test --list` lists them."""

import functools
import os
import sys
import time
import tomllib

import cargo
import lists
import node
from runner import Run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# All tests are built with one set of features: with another, cargo would rebuild everything.
ALL = ["--workspace"]
# Programs that run alone on the machine: they measure times to the microsecond, how fast a download
# is or whether a full link carries everything admitted, or use all processors. All others mostly
# wait for players and films, and run side by side.
ALONE = {
    "reelway-clock",
    "reelway-clock-preload::contract",
    "reelway-clock::threads",
    "reelway-sim::seeds",
    "reelway-tests::crowd",
    "reelway-tests::downloads",
}


def lints(run):
    run.step("formatting", ["cargo", "fmt", "--all", "--check"])
    clippy = ["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]
    run.step("lints", clippy)
    doc = ["cargo", "doc", "--workspace", "--no-deps", "--locked", "--quiet"]
    run.step("documentation", doc, env={"RUSTDOCFLAGS": "-D warnings"})


def runner(run):
    run.step("the runner's own tests", ["scripts/test-the-runner"])


def server(run):
    # The test among the targets, a small one, makes cargo choose the dependencies' features as it does
    # for the tests. With others, it would compile nearly everything twice.
    run.step("server", ["cargo", "build", "--locked", *ALL, "--bin", "reelway", "--test", "workspace"])


def is_end_to_end(program):
    return program.split("::")[0] == "reelway-tests"


# The longest of the others. They begin first, so that none of them runs on alone at the end.
LONGEST = {
    "crates": ["reelway-sender::lab", "reelway-clock-preload::lab"],
    "end to end": [
        "reelway-tests::rtsp_ffmpeg",
        "reelway-tests::director",
        "reelway-tests::origins",
        "reelway-tests::unplayed",
        "reelway-tests::rtsp_gstreamer",
        "reelway-tests::unread",
    ],
}


def may_share(name):
    return name not in ALONE


def crates(run):
    others = lambda name: not is_end_to_end(name)
    cargo.suite(run, "crates", ALL, wanted=others, together=may_share, first=LONGEST["crates"])
    cargo.documentation(run, "examples in the documentation", ALL)


def fuzzing(run):
    targets = sorted(name.removesuffix(".rs") for name in os.listdir("fuzz/fuzz_targets"))
    # Enough to find what a change has broken. For a longer search, run fuzz/run by hand.
    bounds = ["-runs=100000", "-max_total_time=20"]
    works = [
        functools.partial(run.step, f"fuzzing: {target}", ["fuzz/run", target, *bounds]) for target in targets
    ]
    run.side_by_side(works, 2)


def end_to_end(run):
    # Few tests at the same time in each program: the machine may be small.
    env = {"RUST_TEST_THREADS": "2"}
    cargo.suite(run, "end to end", ALL, env, wanted=is_end_to_end, together=may_share, at_once=4,
                first=LONGEST["end to end"])


# Browser tests that measure how films are played, and therefore run alone on the machine.
PLAY = ["growing", "players", "sync"]


def pages(run):
    suffix = ".test.ts"
    files = [name.removesuffix(suffix) for name in os.listdir("web/test/browser") if name.endswith(suffix)]
    others = [name for name in sorted(files) if name not in PLAY]
    run.step("types of the pages", ["npm", "--prefix", "web", "run", "--silent", "check"])
    node.suite(run, "parts of the pages", "web", "unit")
    node.suite(run, "pages in a browser", "web", "browser", others, 2)
    node.suite(run, "players in a browser", "web", "browser", PLAY)


STEPS = {
    "lints": lints,
    "runner": runner,
    "server": server,
    "crates": crates,
    "fuzzing": fuzzing,
    "end-to-end": end_to_end,
    "pages": pages,
}
# Steps that run the server, some of them in the lab.
NEED_SERVER = {"crates", "end-to-end", "pages"}


def main(wanted):
    if "--list" in wanted:
        print("\n".join(STEPS))
        return 0
    unknown = [name for name in wanted if name not in STEPS]
    if unknown:
        print(f"no such step: {unknown[0]}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    os.environ["RUST_BACKTRACE"] = "1"
    # Tests also build with cargo outside the project, where rustup would use another toolchain.
    with open("rust-toolchain.toml", "rb") as file:
        os.environ["RUSTUP_TOOLCHAIN"] = tomllib.load(file)["toolchain"]["channel"]
    os.environ["REELWAY_BIN"] = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "debug/reelway")
    began = time.monotonic()
    run = Run(ROOT, lists.kind())
    print(f"the tests run in this kind of environment: {run.kind}")
    wanted = list(wanted or STEPS)
    if NEED_SERVER & set(wanted) and "server" not in wanted:
        wanted.insert(0, "server")
    for name in wanted:
        STEPS[name](run)
    run.times.append((time.monotonic() - began, "all of it"))
    return 0 if run.verdict() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
