"""Test programs for Node's test runner, run by web/scripts/test.mjs."""

import json
import os
import tempfile

from runner import how


def suite(run, title, directory, kind, files=(), at_once=1):
    """Runs the tests in web/test/KIND, or in these files of it, `at_once` at a time."""
    began = run.begin(title)
    status, results = events(run, directory, [kind, ",".join(files)], at_once)
    failures = {}
    for file, name, result in results:
        full = f"web::{file} {name}"
        if result["ok"] and result["skip"]:
            run.skipped[full] = result["skip"]
        elif result["ok"]:
            run.passed.add(full)
        else:
            failures[full] = result["message"]
    if not results or (status != 0) != bool(failures):
        run.fail(title, f"{how(status, run.limit)}; {len(failures)} tests failed")
    for name, message in sorted(failures.items()):
        run.fail(name, message)
    run.end(title, began)


def events(run, directory, arguments, at_once=1):
    """Returns (status, [(file, full name, result)])."""
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as file:
        env = {"REELWAY_TEST_EVENTS": file.name, "REELWAY_TEST_FILES": str(at_once)}
        status = run.program(["node", "scripts/test.mjs", *arguments], env, directory)
        results = [json.loads(line) for line in file]
    return status, [(os.path.basename(each["file"]).split(".")[0], each["name"], each) for each in results]
