#!/usr/bin/env python3
"""Checks that the commands of every page of docs/operator are run by a test: a test names the page as the one that it
reads, and the CMakeLists.txt of its folder runs that test."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/operator").glob("*.md"))
# How a test names the page that it reads.
READ = re.compile(r'^\s*(?:\w+\s*=\s*).*"docs/operator/([\w-]+\.md)"', re.MULTILINE)


class OperatorPages(unittest.TestCase):
    def test_a_test_runs_the_commands_of_every_page(self):
        read = {}
        for test in sorted((ROOT / "tests").rglob("*_test.py")):
            for page in READ.findall(test.read_text()):
                lists = test.with_name("CMakeLists.txt")
                # The list has the file's name, or the name without "_test.py" in a loop.
                self.assertRegex(lists.read_text(), rf"\b{test.stem.removesuffix('_test')}(_test\.py)?\b",
                                 f"{lists} does not run {test.name}")
                read.setdefault(page, []).append(test.name)
        self.assertGreater(len(PAGES), 5)
        self.assertEqual([page.name for page in PAGES if page.name not in read], [],
                         'no test has a line like PAGE = ROOT / "docs/operator/NAME.md" for these pages')
        self.assertEqual(sorted(set(read) - {page.name for page in PAGES}), [], "pages that tests read and that do not exist")


if __name__ == "__main__":
    unittest.main()
