#!/usr/bin/env python3
"""Tests which arguments cmake/ccache-launch passes to ccache, and which files it leaves beside a precompiled header."""
import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "ccache-launch"
# A fake ccache: records its arguments and environment, and creates the file behind -o.
FAKE = """#!/bin/sh
printf '%s\\n' "$@" >words
env >environment
[ -e fails ] && exit 7
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && printf made >"$2"
  shift
done
exit 0
"""


class Launch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        fake = self.folder / "ccache"
        fake.write_text(FAKE)
        fake.chmod(0o755)

    def launch(self, *words):
        """Returns the exit status and the CCACHE_ variables that ccache received."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("CCACHE_")}
        run = subprocess.run([LAUNCH, self.folder / "ccache", "/the/root", *words], cwd=self.folder, env=clean, check=False)
        self.assertEqual((self.folder / "words").read_text().split("\n")[:-1], list(words))
        lines = (self.folder / "environment").read_text().splitlines()
        told = {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines if line.startswith("CCACHE_")}
        return run.returncode, told

    def sums(self):
        return sorted(path.name for path in self.folder.glob("*.sum"))

    def test_a_source_is_compiled_under_ccache_with_paths_below_the_root(self):
        status, told = self.launch("c++", "-O2", "-DNAME=a b", "-o", "x.o", "-c", "x.cc")
        self.assertEqual(status, 0)
        self.assertEqual(told["CCACHE_BASEDIR"], "/the/root")
        self.assertEqual((told["CCACHE_DEPEND"], told["CCACHE_PCH_EXTSUM"]), ("1", "1"))
        self.assertNotIn("CCACHE_DISABLE", told)
        self.assertEqual(self.sums(), [])

    def test_beside_a_precompiled_header_lies_its_sum(self):
        for name in ("a.hxx.gch", "a.hxx.pch"):
            status, _ = self.launch("c++", "-x", "c++-header", "-o", name, "-c", "a.hxx.cxx")
            self.assertEqual(status, 0)
            text = (self.folder / f"{name}.sum").read_text()
            self.assertEqual(text.split()[0], hashlib.sha256(b"made").hexdigest())

    def test_only_clangs_precompiled_headers_are_made_without_the_cache(self):
        self.assertEqual(self.launch("clang++", "-o", "a.hxx.pch", "-c", "a.hxx.cxx")[1].get("CCACHE_DISABLE"), "1")
        self.assertNotIn("CCACHE_DISABLE", self.launch("c++", "-o", "a.hxx.gch", "-c", "a.hxx.cxx")[1])

    def test_who_uses_clangs_precompiled_header_is_cached_and_makes_no_sum(self):
        (self.folder / "a.hxx.pch").write_text("as it was made")
        status, told = self.launch("clang++", "-Xclang", "-include-pch", "-Xclang", "a.hxx.pch", "-o", "x.o", "-c", "x.cc")
        self.assertEqual(status, 0)
        self.assertNotIn("CCACHE_DISABLE", told)
        self.assertEqual(self.sums(), [])

    def test_a_failure_keeps_its_exit_status_and_leaves_no_sum(self):
        (self.folder / "fails").touch()
        self.assertEqual(self.launch("c++", "-o", "a.hxx.gch", "-c", "a.hxx.cxx")[0], 7)
        self.assertEqual(self.sums(), [])


if __name__ == "__main__":
    unittest.main()
