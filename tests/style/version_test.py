#!/usr/bin/env python3
"""Checks that CMakeLists.txt is the only source of the version: every program prints that number, and no other file
holds it.

Usage: version_test.py SOURCE_FOLDER FOLDER_OF_BINARIES
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT, BINARIES = map(pathlib.Path, sys.argv[1:3])
VERSION = re.search(r"^project\(ampd VERSION (\d+\.\d+\.\d+) ", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
# The files that may hold the version. The changelog names every version.
HOLDERS = {"CMakeLists.txt", "CHANGELOG.md"}
SOURCES = {".cc", ".h", ".cu", ".proto", ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".yaml"}


class Version(unittest.TestCase):
    def test_every_program_prints_it(self):
        for program in ("ampctl", "ampd-server", "ampd-worker", "ampd-trainer"):
            path = BINARIES / program
            if path.exists():  # A build without LibTorch has no trainer.
                done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, f"{program} {VERSION}\n")

    def test_no_other_file_holds_it(self):
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        number = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.]*\d)")
        found = [name for name in names
                 if name not in HOLDERS and pathlib.Path(name).suffix in SOURCES and (ROOT / name).is_file()
                 and number.search((ROOT / name).read_text(errors="replace"))]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
