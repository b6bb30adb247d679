#!/usr/bin/env python3
"""Checks the pages for readers: links lead to files, every page is in docs/README.md, README stays short, and every
page, program and script that is named in a page exists."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/.-])((?:docs|scripts|tools|examples|tests)/[\w/.-]*\w)")
README_LINES = 200
PICTURE_BYTES = 200_000


def prose(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


class Docs(unittest.TestCase):
    def test_links_lead_to_files(self):
        for page in PAGES:
            for target in LINK.findall(prose(page.read_text())):
                if not target.startswith(("http://", "https://")):
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")

    def test_named_files_exist(self):
        for page in PAGES:
            for name in NAMED.findall(page.read_text()):
                self.assertTrue((ROOT / name).exists(), f"{page.name}: {name}")

    def test_every_page_is_in_the_index(self):
        index = (ROOT / "docs/README.md").read_text()
        for page in (ROOT / "docs").rglob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.relative_to(ROOT / 'docs')})", index)

    def test_readme_and_pictures_stay_small(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)
        for picture in (ROOT / "docs/pictures").iterdir():
            self.assertLessEqual(picture.stat().st_size, PICTURE_BYTES, picture.name)


if __name__ == "__main__":
    unittest.main()
