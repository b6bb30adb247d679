#!/usr/bin/env python3
"""Tests scripts/watch-picture: the last frame that a program drew on its terminal, and the SVG file made of it."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "watch-picture"
LOADER = importlib.machinery.SourceFileLoader("watch_picture", str(SCRIPT))
watch_picture = importlib.util.module_from_spec(importlib.util.spec_from_loader("watch_picture", LOADER))
LOADER.exec_module(watch_picture)

DRAWS_TWO_FRAMES = r"""print("\x1b[?1049h\x1b[H\x1b[Kfirst\x1b[J\x1b[H\x1b[K\x1b[32mgreen\x1b[0m plain\n\x1b[Ksecond\x1b[J\x1b[?1049l")"""


class WatchPicture(unittest.TestCase):
    def test_the_last_whole_frame_is_taken(self):
        lines = watch_picture.screen_of([sys.executable, "-c", DRAWS_TWO_FRAMES], rows=10, columns=40, seconds=30)
        self.assertEqual(lines, ["\x1b[32mgreen\x1b[0m plain", "second"])

    def test_a_line_has_pieces_by_colour(self):
        self.assertEqual(list(watch_picture.spans("a\x1b[1;31mbc\x1b[0md")),
                         [(0, "a", set()), (1, "bc", {1, 31}), (3, "d", set())])

    def test_text_braille_and_blocks_are_drawn(self):
        root = xml.etree.ElementTree.fromstring(watch_picture.svg(["loss <\x1b[31m!\x1b[0m ⠁█"], 20))
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual([text.text for text in root.iter(space + "text")], ["loss <", "!"])
        self.assertEqual([text.get("fill") for text in root.iter(space + "text")], [None, watch_picture.COLOURS[31]])
        dots, block = ("".join(path.get("d") for path in root.iter(space + "path"))).split("z")[:2]
        self.assertTrue(dots.endswith("h-2.4") and block.endswith("h-8.4"), (dots, block))


if __name__ == "__main__":
    unittest.main()
