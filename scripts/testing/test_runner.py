"""Tests the runner with real programs, a small crate and tests for Node, whose faults must show."""

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest

import cargo
import lists
import node
import output
from runner import Run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

MANIFEST = """
[package]
name = "tried"
version = "0.1.0"
edition = "2024"
[lib]
doctest = false
[dev-dependencies]
reelway-skip = { path = "%s/crates/skip" }
[workspace]
""" % ROOT

# Fails on the first attempt, and would pass on the second.
ONCE = """
fn once(name: &str) {
    let mark = std::env::temp_dir().join(name);
    assert!(std::fs::remove_file(&mark).is_err() == false, "the mark was not there: {}", {
        std::fs::write(&mark, "").unwrap();
        name
    });
}
"""

PROGRAMS = {
    "good": "#[test] fn one() {} #[test] fn two() { println!(\"quiet\") }",
    "flaky": "#[test] fn now_and_then() { once(\"flaky\") } #[test] fn always() {}" + ONCE,
    "aborts": "#[test] fn now_and_then() { once(\"aborts\") }"
    " #[test] fn z_crashes() { std::thread::sleep(std::time::Duration::from_millis(500)); std::process::abort() }"
    + ONCE,
    "bad": "#[test] fn never() { assert_eq!(1, 2, \"numbers differ\") }",
    "skips": "#[test] fn here() { reelway_skip::skipped!(\"no rings: {}\", 7) } #[test] fn there() {}"
    " #[test] #[ignore = \"too slow\"] fn left() {}",
    "leaves": "#[test] fn badly() { std::thread::spawn(|| {}); extern \"C\" fn end() { unsafe { _exit(3) } }"
    " unsafe extern \"C\" { fn atexit(f: extern \"C\" fn()) -> i32; fn _exit(status: i32) -> !; }"
    " unsafe { atexit(end) }; }",
    "hangs": "#[test] fn for_ever() { loop { std::thread::park() } }",
}

NODE = """
import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { describe, test } from "node:test";

const mark = process.env["TMPDIR"] + "/node";
test("is well", () => {});
test("is not here (never)", (t) => t.skip("no such thing"));
describe("a suite", () => {
  test("would pass at the second try", () => {
    const there = existsSync(mark);
    writeFileSync(mark, "");
    assert.ok(there, "the mark was not there");
  });
  test("never passes", () => assert.equal(1, 2, "numbers differ"));
});
"""


class TheRunner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.makedirs(f"{ROOT}/target", exist_ok=True)
        cls.directory = tempfile.TemporaryDirectory(dir=f"{ROOT}/target", prefix="runner-")
        cls.crate = os.path.join(cls.directory.name, "crate")
        os.makedirs(f"{cls.crate}/src")
        os.makedirs(f"{cls.crate}/tests")
        write(f"{cls.crate}/Cargo.toml", MANIFEST)
        write(f"{cls.crate}/src/lib.rs", "#[test] fn of_the_crate() {}")
        for name, text in PROGRAMS.items():
            write(f"{cls.crate}/tests/{name}.rs", text)
        env = {**os.environ, "CARGO_TARGET_DIR": f"{cls.crate}/target"}
        subprocess.run(["cargo", "generate-lockfile", "--quiet", "--offline"], cwd=cls.crate, check=True)
        subprocess.run(["cargo", "test", "--quiet", "--no-run", "--offline"], cwd=cls.crate, env=env, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=self.directory.name)
        os.makedirs(f"{self.root}/tests/skipped")
        self.before = dict(os.environ)
        os.environ["TMPDIR"] = self.root
        os.environ["CARGO_TARGET_DIR"] = f"{self.crate}/target"

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.before)

    def run_of(self, program, limit=60):
        """Runs one program of the crate; returns the run."""
        return self.seen(lambda run: cargo.suite(run, "crate", arguments(program), cwd=self.crate), limit)

    def seen(self, what, limit=60):
        said = io.StringIO()
        run = Run(self.root, "machine", limit)
        with contextlib.redirect_stdout(said):
            what(run)
            run.good = run.verdict()
        run.said = said.getvalue()
        run.last = run.said.splitlines()[-1]
        return run

    def test_a_good_program_is_good(self):
        run = self.run_of("good")
        self.assertTrue(run.good, run.said)
        self.assertEqual(run.last, "2 passed, 0 failed, 0 skipped")

    def test_a_crates_own_tests_are_named_by_it(self):
        run = self.run_of(None)
        self.assertEqual(run.passed, {"tried of_the_crate"})

    def test_what_fails_now_and_then_has_failed(self):
        run = self.run_of("flaky")
        self.assertFalse(run.good)
        self.assertEqual(run.last, "1 passed, 1 failed, 0 skipped")
        self.assertRegex(run.said, r"FAILED tried::flaky now_and_then: tests/flaky.rs:\d+:\d+: the mark was not there")

    def test_a_program_that_aborts_beside_a_failed_test_is_a_failure_that_names_it(self):
        run = self.run_of("aborts")
        self.assertFalse(run.good)
        self.assertIn("FAILED tried::aborts: it died of SIGABRT", run.said)
        self.assertEqual(run.last, "0 passed, 2 failed, 0 skipped")

    def test_what_never_passes_has_failed_once(self):
        run = self.run_of("bad")
        self.assertFalse(run.good)
        self.assertRegex(run.said, r"FAILED tried::bad never: tests/bad.rs:1:\d+: assertion `left == right` failed: num")
        self.assertEqual(run.last, "0 passed, 1 failed, 0 skipped")

    def test_an_error_after_the_tests_is_a_failure(self):
        run = self.run_of("leaves")
        self.assertFalse(run.good)
        self.assertIn("FAILED tried::leaves: it ended with status 3", run.said)

    def test_a_program_that_hangs_is_ended_and_a_failure(self):
        run = self.run_of("hangs", limit=2)
        self.assertFalse(run.good)
        self.assertIn("FAILED tried::hangs: not done after 2 s", run.said)

    def test_programs_side_by_side_are_counted_and_shown_one_after_the_other(self):
        programs = ["--test", "good", "--test", "aborts", "--test", "bad", "--test", "skips"]
        both = lambda name: name not in ("tried::good", "tried::skips")
        run = self.seen(lambda run: cargo.suite(run, "crate", ["--offline", *programs], cwd=self.crate, together=both))
        self.assertFalse(run.good)
        self.assertIn("FAILED tried::aborts: it died of SIGABRT", run.said)
        self.assertIn("FAILED tried::bad never: ", run.said)
        self.assertEqual(run.last, "3 passed, 5 failed, 2 skipped")
        begun = [line for line in run.said.splitlines() if line.startswith(("== tried", "-- tried"))]
        names = [line.split()[1].removesuffix(":") for line in begun]
        self.assertEqual(names[0::2], names[1::2], run.said)
        self.assertEqual(names[:4], ["tried::good", "tried::good", "tried::skips", "tried::skips"])

    def test_a_skipped_test_is_bad_unless_it_is_listed_with_its_reason(self):
        run = self.run_of("skips")
        self.assertFalse(run.good)
        self.assertIn("SKIPPED tried::skips here: no rings: 7", run.said)
        self.assertIn("FAILED tried::skips left: skipped, and not in tests/skipped/machine.txt: too slow", run.said)
        self.assertEqual(run.last, "1 passed, 2 failed, 2 skipped")
        skips = f"{self.root}/tests/skipped/machine.txt"
        write(skips, "tried::skips here: no wheels\ntried::skips left: too slow\n")
        self.assertIn("FAILED tried::skips here: skipped, and not in", self.run_of("skips").said)
        write(skips, "tried::skips here: no rings\ntried::skips left: too slow\n")
        run = self.run_of("skips")
        self.assertTrue(run.good, run.said)
        self.assertEqual(run.last, "1 passed, 0 failed, 2 skipped")

    def test_tests_that_do_not_build_are_a_failure(self):
        run = self.seen(lambda run: cargo.suite(run, "crate", ["--test", "nothing"], cwd=self.crate))
        self.assertFalse(run.good)
        self.assertEqual(run.last, "0 passed, 1 failed, 0 skipped")

    def test_a_run_without_tests_is_bad(self):
        run = self.seen(lambda run: None)
        self.assertFalse(run.good)

    def test_a_step_that_fails_is_a_failure(self):
        run = self.seen(lambda run: run.step("a step", ["sh", "-c", "exit 3"]))
        self.assertIn("FAILED a step: it ended with status 3", run.said)

    def test_tests_of_node_are_treated_alike(self):
        web = os.path.join(self.root, "web")
        os.makedirs(f"{web}/test/unit")
        shutil.copytree(f"{ROOT}/web/scripts", f"{web}/scripts")
        os.symlink(f"{ROOT}/web/node_modules", f"{web}/node_modules")
        write(f"{web}/test/unit/tried.test.ts", NODE)
        write(f"{self.root}/tests/skipped/machine.txt", "web::tried is not here (never): no such thing\n")
        run = self.seen(lambda run: node.suite(run, "pages", web, "unit"))
        self.assertFalse(run.good)
        self.assertEqual(run.last, "1 passed, 2 failed, 1 skipped", run.said)
        self.assertIn("FAILED web::tried a suite > would pass at the second try: the mark was not there", run.said)
        self.assertIn("FAILED web::tried a suite > never passes: numbers differ", run.said)


class Lists(unittest.TestCase):
    def test_kinds_of_environments_are_told_apart(self):
        none = lambda path: False
        mount = "22 1 254:0 {} / rw - {} /dev/vda rw"
        self.assertEqual(lists.kind_of(mount.format("/", "ext4"), none), "machine")
        self.assertEqual(lists.kind_of(mount.format("/@", "btrfs"), none), "machine")
        self.assertEqual(lists.kind_of(mount.format("/var/tmp/root", "ext4"), none), "bare-root")
        self.assertEqual(lists.kind_of(mount.format("/", "overlay"), none), "container")
        self.assertEqual(lists.kind_of("", lambda path: path == "/.dockerenv"), "container")

    def test_a_line_about_a_skip_is_found_behind_what_others_print(self):
        self.assertEqual(output.skip("SKIPPED a::b: no: rings"), ("a::b", "no: rings"))
        self.assertEqual(output.skip("test a ... SKIPPED b: c"), ("b", "c"))
        self.assertIsNone(output.skip("it SKIPPED nothing"))

    def test_what_did_not_hold_is_shown(self):
        said = [
            "thread 'a' panicked at a.rs:7:5:",
            "assertion `left == right` failed: 40 viewers: 1 harmed",
            "  x 1 x lost",
            "",
            "  left: 1",
            "note: run with `RUST_BACKTRACE=1`",
            "later",
        ]
        shown = "a.rs:7:5: assertion `left == right` failed: 40 viewers: 1 harmed | x 1 x lost | left: 1"
        self.assertEqual(output.cause(said), shown)
        self.assertEqual(output.cause(["thread 'a' panicked at a.rs:7:5:", "x" * 10_000]), "a.rs:7:5: " + "x" * 590)


def arguments(program):
    return ["--offline", *(["--test", program] if program else ["--lib"])]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    unittest.main()
