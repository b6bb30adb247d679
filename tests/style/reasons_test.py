#!/usr/bin/env python3
"""Checks base/reasons.h, the table of reasons, against the sources: every reason that an error can have is in the table
with its status code, every row of the table is used, and so is every value of ampd.v1.Reason.Code."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("base", "client", "data", "graph", "models", "precision", "server", "worker")
ROW = re.compile(r'\{"(\w+)",\s*"([A-Z_ ]*)",\s*MetBy::k')
# Error(CODE, REASON, ...) and ErrorWithMetadata. CODE and REASON may be expressions without a comma.
CALL = re.compile(r"\bError(?:WithMetadata)?\(\s*([^,;(]+(?:\(\))?),\s*([^,;]+),")
CODE = re.compile(r"^(?:absl::)?StatusCode::k(\w+)$")
LITERAL = re.compile(r'"([A-Z][A-Z0-9_]*)"')
COMPARED = re.compile(r'(?:\breason|\bReasonOf\([\w.()]*\)) [!=]= "([A-Z][A-Z0-9_]*)"')
# Reasons that code passes in a variable, not as a literal in the call.
PASSED = {"WAIT_TIMED_OUT"}


def snake(name):
    """Returns INVALID_ARGUMENT for InvalidArgument."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def sources():
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in {".cc", ".h", ".cu"} and path.name != "reasons.h":
                yield path.relative_to(ROOT), path.read_text()


def uses(text):
    """Yields (reason, status code or None) for each error that a source makes."""
    for code, reason in CALL.findall(text):
        named = CODE.match(code.strip())
        for literal in LITERAL.findall(reason):
            yield literal, snake(named[1]) if named else None


class Reasons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = {reason: codes.split() for reason, codes in ROW.findall((ROOT / "base/reasons.h").read_text())}
        proto = (ROOT / "proto/ampd/v1/job.proto").read_text()
        enum = re.search(r"message Reason \{\n  enum Code \{(.*?)\n  \}", proto, re.DOTALL)[1]
        cls.outcomes = set(re.findall(r"^\s*(\w+) = \d+;", enum, re.MULTILINE)) - {"REASON_UNSPECIFIED"}

    def test_every_reason_of_an_error_has_a_row_with_its_status_code(self):
        for name, text in sources():
            for reason, code in uses(text):
                self.assertIn(reason, self.table, f"{name}: add a row to base/reasons.h")
                if code is not None and self.table[reason]:
                    self.assertIn(code, self.table[reason], f"{name}: {reason}")

    def test_every_reason_that_is_compared_has_a_row(self):
        for name, text in sources():
            for reason in COMPARED.findall(text):
                self.assertIn(reason, self.table, f"{name}: add a row to base/reasons.h")

    def test_every_reason_of_an_outcome_has_a_row(self):
        self.assertEqual(self.outcomes - set(self.table), set())

    def test_every_row_is_used(self):
        used = {reason for _, text in sources() for reason, _ in uses(text)} | self.outcomes | PASSED
        self.assertEqual(set(self.table) - used, set(), "rows that no source uses")

    def test_the_patterns_find_errors_of_every_form(self):
        text = '''return Error(absl::StatusCode::kNotFound, "A_B", "x"); ErrorWithMetadata(StatusCode::kDataLoss,
            "C", y, z); Error(code, error == E ? "D" : "E", z)'''
        self.assertEqual(list(uses(text)), [("A_B", "NOT_FOUND"), ("C", "DATA_LOSS"), ("D", None), ("E", None)])
        self.assertEqual(COMPARED.findall('if (ReasonOf(read.status()) == "X_Y" && reason != "Z")'), ["X_Y", "Z"])


if __name__ == "__main__":
    unittest.main()
