"""Test programs built by cargo."""

import functools
import json
import os
import subprocess


def programs(arguments, cwd=None):
    """Builds the tests that `cargo test ARGUMENTS` would run. Returns None if they do not build,
    else [(name, executable, directory, environment)], sorted by name."""
    command = ["cargo", "test", "--no-run", "--locked", "--message-format=json-render-diagnostics", *arguments]
    build = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if build.returncode != 0:
        return None
    found = []
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        directory = os.path.dirname(message["manifest_path"])
        package = package_name(message["package_id"], directory)
        target = message["target"]
        # Distinguishes the tests of a library, of a binary, and of a file in tests/.
        kind = target["kind"][0]
        name = package
        if kind == "test":
            name = f"{package}::{target['name']}"
        elif kind in ("bin", "example", "bench"):
            name = f"{package}::{kind}/{target['name']}"
        env = {"CARGO_MANIFEST_DIR": directory, "CARGO_PKG_NAME": package}
        found.append((name, message["executable"], directory, env))
    return sorted(found)


def package_name(package_id, directory):
    """Returns the name in `path+file:///dir/name#0.1.0` or `path+file:///dir#name@0.1.0`."""
    fragment = package_id.rsplit("#", 1)[-1]
    return fragment.split("@")[0] if "@" in fragment else os.path.basename(directory)


def suite(run, title, arguments, env=None, cwd=None, wanted=lambda name: True, together=lambda name: False, at_once=3,
          first=()):
    """Runs the test programs of `cargo test ARGUMENTS` whose names are wanted: one after the other,
    then those that may run together, `at_once` at a time, beginning with those in `first`."""
    began = run.begin(f"{title}: build")
    found = programs(arguments, cwd)
    run.end(f"{title}: build", began)
    if found is None:
        return run.fail(f"{title}: build", "the tests do not build")
    found = [program for program in found if wanted(program[0])]
    if not found:
        return run.fail(title, "there are no tests")
    works = [
        (name, functools.partial(run.harness, name, [executable], {**its, **(env or {})}, directory))
        for name, executable, directory, its in found
    ]
    for name, work in works:
        if not together(name):
            work()
    order = {name: place for place, name in enumerate(first)}
    works.sort(key=lambda each: order.get(each[0], len(order)))
    run.side_by_side([work for name, work in works if together(name)], at_once)


def documentation(run, title, arguments, cwd=None):
    """Runs the examples in the documentation."""
    run.harness(title, ["cargo", "test", "--locked", "--no-fail-fast", "--doc", *arguments], cwd=cwd)
