#!/usr/bin/env python3
"""Tests the output of scripts/setup while it installs, on a terminal and elsewhere, with fake apt-get, pip and venv."""
import contextlib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "setup"
SECONDS = 30  # limit for operations that take one or two seconds

FAKES = {
    "dpkg-query": '[ -e "$FAKES/installed" ] && echo "install ok installed"',
    "id": "echo 0",
    "tput": "echo 60",
    # The fake apt-get waits at the gate, a pipe, until the test continues the installation or makes it fail.
    "apt-get": """
echo "apt-get $1" >> "$FAKES/calls"
[ "$1" = update ] && exit 0
echo "Get:1 a package"; echo "Setting up libfoo-dev (1.2) with a line that is wider than the terminal that it is for"
read -r go < "$FAKES/gate"
[ "$go" = on ] || { echo "E: no space left"; exit 100; }
touch "$FAKES/installed"
""",
    # The fake venv creates a python whose pip creates the files that setup checks for at its end.
    "python3": """
echo "venv" >> "$FAKES/calls"
mkdir -p .deps/venv/bin .deps/venv/lib/python3.11/site-packages/torch/lib
cp "$FAKES/pip" .deps/venv/bin/python
""",
    "pip": """
[ "$1" = -c ] && exit 0
echo "pip $3" >> "$FAKES/calls"
echo "Downloading torch"
touch .deps/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
""",
}


class Setup(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ampd-setup-"))
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "scripts").mkdir()
        shutil.copy(SETUP, self.root / "scripts" / "setup")
        shutil.copytree(SETUP.parent / "wheels", self.root / "scripts" / "wheels")
        self.fakes = self.root / "fakes"
        self.fakes.mkdir()
        os.mkfifo(self.fakes / "gate")
        for name, text in FAKES.items():
            (self.fakes / name).write_text(f"#!/bin/bash\n{text}")
            (self.fakes / name).chmod(0o700)

    def start(self, stdout):
        environment = os.environ | {"FAKES": str(self.fakes), "PATH": f"{self.fakes}:{os.environ['PATH']}"}
        process = subprocess.Popen([self.root / "scripts" / "setup"], stdin=subprocess.DEVNULL, stdout=stdout,
                                   stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """Kills the process and, after a failed test, the programs that still wait at the gate."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def open_gate(self, word):
        with open(self.fakes / "gate", "w", encoding="ascii") as gate:
            gate.write(f"{word}\n")

    def calls(self):
        """Returns the calls that change something, in order."""
        return (self.fakes / "calls").read_text().splitlines()

    def test_on_a_terminal_one_line_that_is_written_over_tells_what_is_being_installed(self):
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        process = self.start(its)
        os.close(its)
        said = ""
        # apt-get waits at the gate, so it can't continue before the test has seen this output.
        while "Setting up" not in said:
            self.assertTrue(select.select([ours], [], [], SECONDS)[0], f"silent after {said!r}")
            said += os.read(ours, 4096).decode()
        self.open_gate("on")
        with contextlib.suppress(OSError):  # reading from a closed terminal raises this
            while part := os.read(ours, 4096):
                said += part.decode()
        self.assertEqual(process.wait(SECONDS), 0, said)
        line = re.search(r"\r\x1b\[K(setup: Debian packages, \d+ s: Setting up libfoo-dev[^\r]*)\r", said)
        self.assertIsNotNone(line, said)
        self.assertEqual(len(line[1]), 59, "one less than the terminal is wide")
        self.assertRegex(said, r"\r\x1b\[Ksetup: Debian packages: done in \d+ s\r\n")
        self.assertTrue(said.endswith("setup: done\r\n"), said)

    def test_elsewhere_each_part_ends_with_a_line_that_tells_how_long_it_took(self):
        process = self.start(subprocess.PIPE)
        self.open_gate("on")
        said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, said)
        self.assertNotIn(b"\x1b", said)
        for part in (b"lists of Debian packages", b"Debian packages", b"wheels of scripts/wheels/full.txt", b"wheels of the tests"):
            self.assertRegex(said, b"(?m)^setup: " + part + rb": done in \d+ s$")
        self.assertEqual(self.calls(), ["apt-get update", "apt-get install", "venv", "pip install", "pip install"])

    def test_a_second_call_does_nothing_more(self):
        first = self.start(subprocess.PIPE)
        self.open_gate("on")
        said, _ = first.communicate(timeout=SECONDS)
        self.assertEqual(first.returncode, 0, said)
        calls = self.calls()
        second = self.start(subprocess.PIPE)
        said, _ = second.communicate(timeout=SECONDS)
        self.assertEqual(second.returncode, 0, said)
        self.assertEqual(said.decode().splitlines(),
                         ["setup: Debian packages: all there", "setup: wheels: all there", "setup: done"])
        self.assertEqual(self.calls(), calls)

    def test_a_part_that_fails_is_one_line_with_the_last_lines_of_its_log(self):
        process = self.start(subprocess.PIPE)
        self.open_gate("stop")
        said, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertNotIn(b"setup: Debian packages: done", said)
        self.assertIn(b"setup: error: apt-get install failed; the last lines: ", said.splitlines()[-1])
        self.assertIn(b"E: no space left", said.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
