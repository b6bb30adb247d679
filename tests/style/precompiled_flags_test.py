#!/usr/bin/env python3
"""Checks that sources are compiled with the flags of the precompiled headers that they use.

Usage: precompiled_flags_test.py BUILD_FOLDER

GCC reports some differences between a source and a header, but crashes on others or accepts them silently. Definitions
for a single source (-D) may differ: no precompiled header of ours depends on them.
"""
import json
import pathlib
import re
import shlex
import sys
import unittest

HEADER = re.compile(r"^.*/cmake_pch\.hxx$")
MAKING = re.compile(r"-fpch-instantiate-templates$")  # flags of the header itself


def words_of(command):
    return [word for word in shlex.split(command) if word != "-Xclang"]


def matters(word):
    return re.match(r"-(?:O|f|m|g|std=|pthread$)", word) is not None and not MAKING.match(word)


def flags_of(words):
    """Returns the flags that must be equal: the last -O, and the set of the other flags that matter."""
    levels = [word for word in words if word.startswith("-O")]
    rest = {word for word in words if matters(word) and not word.startswith("-O")}
    return levels[-1] if levels else "-O0", frozenset(rest)


def used_header(words):
    """Returns the precompiled header that a command uses; None if it makes one or uses none."""
    if words[words.index("-c") + 1].endswith((".hxx.cxx", ".hxx.c")):
        return None
    for word, following in zip(words, words[1:]):
        if word == "-include" and HEADER.match(following):
            return following
    return None


def differences(entries):
    """Returns a line for each source whose flags differ from its header's, and how many sources use a header."""
    commands = [(entry["file"], words_of(entry["command"])) for entry in entries]
    made = {path.removesuffix(".cxx"): flags_of(words) for path, words in commands if path.endswith("cmake_pch.hxx.cxx")}
    found, num_users = [], 0
    for path, words in commands:
        header = used_header(words)
        if header is None:
            continue
        num_users += 1
        if flags_of(words) != made.get(header):
            found.append(f"{path}: {flags_of(words)}, its header {made.get(header)}")
    return found, num_users


class Differences(unittest.TestCase):
    MADE = {"file": "/b/cmake_pch.hxx.cxx", "command": "c++ -O2 -Og -fa -x c++-header -o x.gch -c /b/cmake_pch.hxx.cxx"}

    def of(self, command):
        return differences([self.MADE, {"file": "/x.cc", "command": command}])

    def test_the_same_flags_are_none(self):
        self.assertEqual(self.of("c++ -DX -fa -Og -include /b/cmake_pch.hxx -o x.o -c /x.cc"), ([], 1))

    def test_a_level_of_optimisation_a_flag_more_and_a_flag_less_are_some(self):
        for flags in ("-O2 -fa", "-Og -fa -fopenmp", "-Og", "-Og -fa -mavx2", "-Og -fa -g1"):
            found, _ = self.of(f"c++ {flags} -include /b/cmake_pch.hxx -o x.o -c /x.cc")
            self.assertEqual(len(found), 1, flags)

    def test_clang_names_the_header_behind_words_of_its_own(self):
        used = "-Xclang -include-pch -Xclang /b/cmake_pch.hxx.pch -Xclang -include -Xclang /b/cmake_pch.hxx"
        self.assertEqual(self.of(f"clang++ -Og -fa {used} -o x.o -c /x.cc"), ([], 1))
        self.assertEqual(len(self.of(f"clang++ -O0 -fa {used} -o x.o -c /x.cc")[0]), 1)

    def test_a_header_that_nobody_makes_is_one(self):
        self.assertEqual(len(self.of("c++ -Og -fa -include /c/cmake_pch.hxx -o x.o -c /x.cc")[0]), 1)

    def test_a_source_without_a_header_is_not_compared(self):
        self.assertEqual(self.of("c++ -O3 -o x.o -c /x.cc"), ([], 0))


class Build(unittest.TestCase):
    def test_each_source_has_the_flags_of_its_header(self):
        found, num_users = differences(json.loads((pathlib.Path(FOLDER) / "compile_commands.json").read_text()))
        self.assertEqual(found, [])
        self.assertGreater(num_users, 100)


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
