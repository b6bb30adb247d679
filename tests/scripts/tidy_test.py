#!/usr/bin/env python3
"""Checks that scripts/tidy looks at every source of the tree.

Usage: tidy_test.py BUILD_FOLDER, which must be built with LibTorch and the tests.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import unittest

TIDY = pathlib.Path(__file__).resolve().parents[2] / "tools/build/tidy.py"


def load_tidy():
    sys.dont_write_bytecode = True  # no __pycache__ in tools
    loader = importlib.machinery.SourceFileLoader("tidy", str(TIDY))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    loader.exec_module(module)
    module.BUILD = pathlib.Path(BUILD)
    return module


class Sources(unittest.TestCase):
    def setUp(self):
        self.tidy = load_tidy()

    def test_every_source_of_the_tree_is_looked_at(self):
        own = {name for name in self.tidy.git("ls-files", "*.cc") if (self.tidy.ROOT / name).is_file()}
        self.assertGreater(len(own), 100)
        missing = own - set(self.tidy.all_commands())
        if missing != self.tidy.CUDA_SOURCES:  # without nvcc none of these sources is built
            self.assertEqual(sorted(missing), [], "neither built nor among what scripts/tidy has flags for")

    def test_what_scripts_tidy_has_flags_for_is_there_and_not_built(self):
        built = self.tidy.read_commands()
        unbuilt = self.tidy.unbuilt_commands(built)
        named = set(unbuilt) | self.tidy.CUDA_SOURCES
        self.assertEqual([name for name in named if not (self.tidy.ROOT / name).is_file()], [])
        self.assertEqual(sorted(set(unbuilt) & set(built)), [])

    def test_a_source_whose_flags_are_taken_and_which_is_not_built_is_named(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as stopped:
            self.tidy.unbuilt_commands({})
        self.assertEqual(stopped.exception.code, 2)
        self.assertIn("base/clock.cc, whose flags others are to have, is no source of build/release", said.getvalue())


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
