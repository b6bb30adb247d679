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
import time
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

    def test_groups_whose_time_is_over_are_not_checked_and_counted(self):
        looked = []
        self.tidy.look = lambda names, flags: looked.append(names) or [(names, [])]
        groups = [(["a.cc", "b.cc"], ()), (["c.cc"], ())]
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(self.tidy.look_at_all(groups, 1, time.monotonic() - 1, lambda names: None), (0, 3))
            self.assertEqual(looked, [])
            self.assertEqual(self.tidy.look_at_all(groups, 1, time.monotonic() + 3600, lambda names: None), (0, 0))
        self.assertEqual(looked, [["a.cc", "b.cc"], ["c.cc"]])

    def test_what_changed_last_comes_first(self):
        self.tidy.ages = lambda: {"old.cc": 9, "older.cc": 12, "new.cc": 2}
        groups = [(["older.cc"], ()), (["old.cc", "new.cc"], ()), (["uncommitted.cc"], ())]
        self.assertEqual([group[0][-1] for group in self.tidy.newest_first(groups)],
                         ["uncommitted.cc", "new.cc", "older.cc"])

    def test_the_age_of_a_file_is_a_number_of_commits(self):
        ages = self.tidy.ages()
        newest = self.tidy.git("log", "-1", "--format=", "--name-only")
        self.assertTrue(newest)
        self.assertEqual({ages[name] for name in newest}, {1})


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
