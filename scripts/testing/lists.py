"""The lists of tests that may be skipped, and the environment of a run."""

import os


def read(path):
    """Returns the lines of a list without comments."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = (line.strip() for line in file)
        return [line for line in lines if line and not line.startswith("#")]


def knows_skip(entries, name, reason):
    """Returns whether a list of `name: words` has this test, and the reason contains its words."""
    start = f"{name}: "
    return any(entry.startswith(start) and entry[len(start) :] in reason for entry in entries)


def kind_of(mountinfo, has):
    """Returns where the tests run: in a `container`, in a `bare-root` (a directory is their root),
    or on a `machine`. `mountinfo` is the text of /proc/self/mountinfo (proc(5)); `has` returns
    whether a path exists."""
    if has("/.dockerenv") or has("/run/.containerenv"):
        return "container"
    for line in mountinfo.splitlines():
        words = line.split()
        if len(words) > 6 and words[4] == "/":
            filesystem = words[words.index("-") + 1]
            if filesystem == "overlay":
                return "container"
            # Btrfs mounts a subvolume as the root of a machine.
            if words[3] != "/" and filesystem != "btrfs":
                return "bare-root"
    return "machine"


def kind():
    """Returns the kind of this environment."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return kind_of(file.read(), os.path.exists)
