#!/usr/bin/env python3
"""Tests which texts scripts/draw-texts finds in sources and pages, and that a seed draws the same texts again."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "draw-texts"
LOADER = importlib.machinery.SourceFileLoader("draw_texts", str(SCRIPT))
draw_texts = importlib.util.module_from_spec(importlib.util.spec_from_loader("draw_texts", LOADER))
LOADER.exec_module(draw_texts)


class DrawTexts(unittest.TestCase):
    def test_comment_blocks_come_with_the_code_below(self):
        text = "// Returns the number of jobs\n// that wait.\nint Count();\n\n// Too short.\nint x;\n"
        self.assertEqual(list(draw_texts.comment_blocks("a.h", text)),
                         [("a.h:1", "// Returns the number of jobs\n// that wait.\nint Count();")])

    def test_lines_for_people_are_whole_messages(self):
        text = 'f("--flag", "How long it waits "\n  "for a worker");\n// "not a text"\nStrCat("job (", id(n), ") is lost again");'
        self.assertEqual(sorted(line for _, line in draw_texts.lines_for_people("a.cc", text)),
                         ["How long it waits for a worker", "job (…) is lost again"])

    def test_alternatives_of_a_message_are_separate_lines(self):
        text = 'StrCat(n, " of the jobs are ", late ? "late" : "early", late ? StrCat(" by ", time) : "", ",\\n", name());'
        self.assertEqual([line for _, line in draw_texts.lines_for_people("a.cc", text)],
                         ["… of the jobs are late by …,\n…", "… of the jobs are early,\n…"])

    def test_dots_stand_for_what_is_joined_to_a_literal(self):
        text = 'Printf("%s: read %lld files, %.1f%% of them\\n"); f(id + " ended before it started"); g("; see the server\'s \':\' log");'
        self.assertEqual([line for _, line in draw_texts.lines_for_people("a.cc", text)],
                         ["…: read … files, …% of them", "… ended before it started", "…; see the server's ':' log"])

    def test_texts_that_code_looks_for_are_not_messages(self):
        self.assertEqual(list(draw_texts.lines_for_people("a.cc", 'StrContains(error, "index is out of bounds")')), [])

    def test_paragraphs_leave_out_headings_tables_and_code(self):
        text = "# A title of several words\n\n```\nsome code\n```\n\n| a | table that has more words |\n\nThis is a paragraph of a page.\n"
        self.assertEqual([found for _, found in draw_texts.paragraphs("a.md", text)], ["This is a paragraph of a page."])

    def test_items_of_a_list_are_paragraphs(self):
        text = "* The first item of the list.\n* The second item, which has\n  two lines of text.\n"
        self.assertEqual([found for _, found in draw_texts.paragraphs("a.md", text)],
                         ["* The first item of the list.", "* The second item, which has\n  two lines of text."])

    def test_a_seed_draws_the_same_texts_again(self):
        first, again, other = (subprocess.run([SCRIPT, seed], capture_output=True, text=True, check=True).stdout
                               for seed in ("1", "1", "2"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertIn("## Comments: 60 of ", first)
        self.assertIn("## Help, events and messages: 30 of ", first)
        self.assertIn("## Paragraphs: 20 of ", first)


if __name__ == "__main__":
    unittest.main()
