#!/usr/bin/env python3
"""Count the test cases that ran in build folders and print "N passed, N failed, N skipped".

Usage: count_tests.py BUILD_FOLDER...

Reads reports/*.xml, one GoogleTest report a program, and programs.xml, CTest's own report. A program that failed without
a failed case in its report (it crashed, ran out of time, or was not built) counts as one failed case. Failed cases are
listed, and skipped ones as one line a program, so that nothing is left out silently. Exits with 1 when a case failed or
none ran.
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def case_outcome(case):
    """Returns the outcome of one GoogleTest case: "passed", "failed" or "skipped"."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("result") == "skipped":
        return "skipped"
    return "passed"


def program_cases(report):
    """Yields (case name, outcome) of one program's report; yields nothing if it is missing or truncated."""
    try:
        root = ElementTree.parse(report)
    except (OSError, ElementTree.ParseError):
        return
    for case in root.iter("testcase"):
        if case.get("status") == "run":
            yield f"{case.get('classname')}.{case.get('name')}", case_outcome(case)


def folder_cases(folder):
    """Yields (program, case name, outcome) for everything that CTest ran in one build folder."""
    for program in ElementTree.parse(folder / "programs.xml").iter("testcase"):
        name = program.get("name")
        cases = list(program_cases(folder / "reports" / f"{name}.xml"))
        for case, outcome in cases:
            yield name, case, outcome
        program_failed = program.get("status") != "run"
        if program_failed and not any(outcome == "failed" for _, outcome in cases):
            yield name, "(the program itself)", "failed"
        elif not cases and not program_failed:
            yield name, "(a script)", "passed"


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped = collections.defaultdict(list)
    failed = []
    for folder in map(pathlib.Path, sys.argv[1:]):
        try:
            results = list(folder_cases(folder))
        except (OSError, ElementTree.ParseError) as error:
            results = [(str(folder), f"no report of the run: {error}", "failed")]
        for program, case, outcome in results:
            counts[outcome] += 1
            if outcome == "skipped":
                skipped[program].append(case)
            elif outcome == "failed":
                failed.append(f"failed: {program}: {case}")
    for program, cases in skipped.items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        print(f"skipped: {program}: {cases[0]}{more}")
    print("".join(f"{line}\n" for line in failed), end="")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


sys.exit(main())
