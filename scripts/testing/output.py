"""Parses the output of test programs. Pure: text in, results out."""

import re
from dataclasses import dataclass, field

TEST = re.compile(r"^test (.+?)(?: - should panic(?: - compile fail)?)? \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")
END = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
SKIPPED = re.compile(r"^(?:.*\s)?SKIPPED (.+?): (.*)$")
PANIC = re.compile(r"^thread .* panicked at (.*):$")


def skip(line):
    """Returns (name, reason) of a line that reports a skipped test, or None."""
    found = SKIPPED.match(line)
    return (found[1], found[2].strip()) if found else None


@dataclass
class Harness:
    """Parses the output of Rust's test harness, line by line."""

    passed: set = field(default_factory=set)
    failed: dict = field(default_factory=dict)  # name: message
    ignored: dict = field(default_factory=dict)  # name: reason
    # (passed, failed, ignored) as counted by each harness; empty if none got that far.
    ends: list = field(default_factory=list)
    _about: str = ""
    _said: list = field(default_factory=list)

    def line(self, line):
        """Parses the next line of standard output."""
        if found := TEST.match(line):
            name, result, reason = found[1], found[2], found[3]
            if result == "ok":
                self.passed.add(name)
            elif result == "ignored":
                self.ignored[name] = reason or "ignored"
            else:
                self.failed.setdefault(name, "")
        elif found := END.match(line):
            self._message()
            self.ends.append(tuple(int(count) for count in found.groups()))
        elif line.startswith("---- ") and line.endswith(" stdout ----"):
            self._message()
            self._about = line[5:-12]
        elif line == "failures:":
            self._message()
        elif self._about:
            self._said.append(line)

    def _message(self):
        if self._about:
            self.failed[self._about] = cause(self._said)
        self._about, self._said = "", []

    def counted(self):
        """Returns the sums of (passed, failed, ignored) that the harnesses counted."""
        return tuple(sum(end[place] for end in self.ends) for place in range(3))


# How much of a failure's message is shown: its first lines name the failed condition.
LINES, CHARACTERS = 6, 600


def cause(lines):
    """Returns the first failure in a test's output: where, and the beginning of its message."""
    for place, line in enumerate(lines):
        if found := PANIC.match(line):
            message = [line.strip() for line in lines[place + 1 :]]
            end = next((at for at, line in enumerate(message) if line.startswith("note: ")), len(message))
            shown = " | ".join([line for line in message[:end] if line][:LINES])
            return f"{found[1]}: {shown}"[:CHARACTERS]
    return next((line.strip() for line in lines if line.strip()), "no message")
