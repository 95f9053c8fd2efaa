"""Runs steps and test programs once, and counts failures and skipped tests.

* A program that ends with a signal, with an error but no failed test, or not at all is a failure.
* A skipped test that is not in the list of the environment is a failure.
"""

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lists
import output

# Seconds after which a test program is killed.
LIMIT = 1800


def say(line):
    """Prints a line at once."""
    print(line, flush=True)


class Run:
    """A run of the suite. `root` holds tests/skipped/KIND.txt."""

    def __init__(self, root, kind, limit=LIMIT):
        self.kind = kind
        self.limit = limit
        self.skip_list = lists.read(os.path.join(root, f"tests/skipped/{kind}.txt"))
        self.passed = set()
        self.failed = {}
        self.skipped = {}
        self.times = []
        self._saying = threading.Lock()

    # Programs

    def program(self, command, env=None, cwd=None, out=None, about=None, say=say):
        """Runs a program, shows its output, and returns its status; None if it did not end in time.
        `out` gets each line of standard output; `about` turns the name in a SKIPPED line into the
        test's."""
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

        def read(stream, take):
            for line in stream:
                line = line.rstrip("\n")
                if take:
                    take(line)
                if said := output.skip(line):
                    name = about(said[0]) if about else said[0]
                    self.skipped.setdefault(name, said[1])
                say(line)

        readers = [
            threading.Thread(target=read, args=(child.stdout, out), daemon=True),
            threading.Thread(target=read, args=(child.stderr, None), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            status = child.wait(self.limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            # Processes that a program leaves behind would keep the pipes open and the machine busy.
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # All have ended, or one runs as another user.
            child.wait()
        for reader, stream in zip(readers, (child.stdout, child.stderr)):
            reader.join(30)
            if not reader.is_alive():
                stream.close()
        return status

    def step(self, name, command, say=say, **options):
        """Runs a part that passes or fails as a whole: a lint, a build, a fuzz target."""
        began = self.begin(name, say)
        status = self.program(command, say=say, **options)
        if status != 0:
            self.fail(name, how(status, self.limit), say)
        self.end(name, began, say)
        return status == 0

    def begin(self, name, say=say):
        say(f"\n== {name}")
        return time.monotonic()

    def end(self, name, began, say=say):
        took = time.monotonic() - began
        self.times.append((took, name))
        say(f"-- {name}: {took:.1f} s")

    def fail(self, name, message, say=say):
        say(f"-- FAILED {name}: {message}")
        self.failed.setdefault(name, message)

    def side_by_side(self, works, at_once):
        """Runs several works, `at_once` at a time. Each gets a function for its output, which is
        shown when the work is done."""

        def whole(work):
            lines = []
            work(lines.append)
            with self._saying:
                for line in lines:
                    say(line)

        with ThreadPoolExecutor(at_once) as pool:
            for done in [pool.submit(whole, work) for work in works]:
                done.result()

    # Test programs

    def harness(self, program, command, env=None, cwd=None, say=say):
        """Runs a program with Rust's test harness; `program` is its name."""
        began = self.begin(program, say)
        name_of = lambda test: f"{program} {test}"
        seen = output.Harness()
        status = self.program(command, env, cwd, seen.line, name_of, say)
        for test in seen.passed:
            self.passed.add(name_of(test))
        for test, reason in seen.ignored.items():
            self.skipped.setdefault(name_of(test), reason)
        counted = seen.counted()
        if not seen.ends or status not in (0, 101):
            where = f"; {len(seen.passed)} tests had passed"
            self.fail(program, how(status, self.limit) + where, say)
        elif counted[1] != len(seen.failed) or (status == 0) != (counted[1] == 0):
            named = f"it ended with {status} and counts {counted[1]} failures, {len(seen.failed)} are named"
            self.fail(program, named, say)
        elif counted[0] != len(seen.passed):
            # A line was garbled by a child's output: the harness knows the number of tests.
            for number in range(counted[0] - len(seen.passed)):
                self.passed.add(name_of(f"(not named, {number})"))
        for test, message in sorted(seen.failed.items()):
            # A test of the same name may have passed elsewhere in the output.
            self.passed.discard(name_of(test))
            self.fail(name_of(test), message, say)
        self.end(program, began, say)

    # The end

    def verdict(self):
        """Prints a summary, the counts last; returns whether the run was good."""
        failed = dict(self.failed)
        skipped = {name: reason for name, reason in self.skipped.items() if name not in failed}
        passed = self.passed - set(skipped) - set(failed)
        for name, reason in skipped.items():
            if not lists.knows_skip(self.skip_list, name, reason):
                failed[name] = f"skipped, and not in tests/skipped/{self.kind}.txt: {reason}"
        print("\n== summary")
        for took, name in sorted(self.times, reverse=True)[:15]:
            print(f"{took:7.1f} s  {name}")
        print()
        for title, found in (("SKIPPED", skipped), ("FAILED", failed)):
            for name, words in sorted(found.items()):
                print(f"{title} {name}: {words}")
        if not passed and not failed:
            failed["the suite"] = "no test ran"
            print("FAILED the suite: no test ran")
        print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True)
        return not failed


def how(status, limit):
    """Returns how a program ended, in words."""
    if status is None:
        return f"not done after {limit} s, and ended"
    if status < 0:
        return f"it died of {signal.Signals(-status).name}"
    return f"it ended with status {status}"
