"""Tests the installation of programs: one at a time, not during tests, from one complete list."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A package manager that fails if another one is running, as dpkg does, and "installs" a program.
APT = """#!/bin/sh
mkdir "$STATE/busy" || { echo "another package manager is at work" >&2; exit 100; }
echo "$*" >>"$STATE/calls"
sleep 0.3
for last; do :; done
case " $* " in *" install "*) printf '#!/bin/sh\\n' >"$STATE/bin/$last" && chmod +x "$STATE/bin/$last" ;; esac
rmdir "$STATE/busy"
"""


class Need(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.state = self.directory.name
        os.mkdir(f"{self.state}/bin")
        for name, text in (("apt-get", APT), ("sudo", "#!/bin/sh\nexit 1\n")):
            with open(f"{self.state}/bin/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(f"{self.state}/bin/{name}", 0o755)

    def tearDown(self):
        self.directory.cleanup()

    def need(self, *programs, **env):
        return subprocess.Popen(
            [f"{ROOT}/scripts/need", *programs],
            env={**os.environ, "PATH": f"{self.state}/bin:{os.environ['PATH']}", "STATE": self.state, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def calls(self):
        path = f"{self.state}/calls"
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_two_at_once_install_one_after_the_other(self):
        if os.getuid() != 0:
            print("SKIPPED scripts/need two_at_once_install_one_after_the_other: not root", file=sys.stderr)
            return
        env = {"REELWAY_INSTALL": "yes"}
        both = [self.need("reelway-one", **env), self.need("reelway-two", **env)]
        said = [each.communicate()[1] for each in both]
        self.assertEqual([each.returncode for each in both], [0, 0], said)
        self.assertEqual(len(self.calls()), 4, "an update and an installation each")

    def test_nothing_is_installed_while_tests_run(self):
        need = self.need("reelway-one", REELWAY_INSTALL="no")
        said = need.communicate()[1]
        self.assertEqual(need.returncode, 1)
        self.assertIn("missing: reelway-one", said)
        self.assertEqual(self.calls(), [])

    def test_the_list_has_whatever_tests_ask_for(self):
        with open(f"{ROOT}/scripts/need-tests", encoding="utf-8") as file:
            listed = re.search(r"^programs=\((.*?)^\)", file.read(), re.M | re.S)[1]
        listed = re.sub(r"#.*", "", listed).split()
        asked = set()
        for path in glob.glob(f"{ROOT}/crates/*/tests/**/*.rs", recursive=True):
            with open(path, encoding="utf-8") as file:
                for call in re.findall(r"\bneed\(&\[(.*?)\]\)", file.read(), re.S):
                    asked.update(re.findall(r'"([^"]+)"', call))
        for path in [f"{ROOT}/lab/library.sh", *glob.glob(f"{ROOT}/lab/tests/*/test")]:
            with open(path, encoding="utf-8") as file:
                for words in re.findall(r"^ *(?:\"\$root/scripts/need\"|put_tools) ([a-z][a-z0-9_ -]*)$", file.read(), re.M):
                    asked.update(words.split())
        self.assertIn("psql", asked)
        self.assertIn("qemu-system-x86_64", asked)
        self.assertIn("ethtool", asked)
        self.assertEqual(sorted(asked - set(listed)), [])


if __name__ == "__main__":
    unittest.main()
