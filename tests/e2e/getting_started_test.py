#!/usr/bin/env python3
"""Runs every command of docs/getting-started.md on a terminal, in one empty folder, and compares what the commands
print with what the page shows.

The page's blocks ```console hold the commands and their output:

    $ COMMAND      a command; a line that ends in a backslash, or is followed by lines `> ...`, continues
    ^C             Ctrl-C in the terminal of `ampctl dev`; what dev then prints may follow on the same line
    ...            any lines, also none
    TEXT ...       one line that begins with TEXT
    other lines    the output of the command above

`ampctl dev` runs in the background for the rest of the page. The test adds `--port 0 --metrics-port 0` to it, because
tests use no fixed ports. A comment `<!-- exit code: N -->` before a block says with which code the block's only command
ends; all other commands end with 0.

With AMPD_UPDATE_GOLDEN=1 the test writes the real output into the page. Lines `...` and `TEXT ...` stay.

Usage: getting_started_test.py FOLDER_OF_BINARIES [REPORT.xml]. Runs with the test environment's Python, which has
safetensors and NumPy. Ends only the processes that it started, by their ids.
"""
import contextlib
import dataclasses
import difflib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from service import kill_below
from service_case import BINARIES, ServiceCase, main

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/getting-started.md"
SECONDS = 120  # limit for one command; the longest takes some ten seconds
ROWS, COLUMNS = 24, 100
# What the page shows in place of this machine's names.
READERS_FOLDER, READERS_HOST = "/home/ada/hour", "vm"

SHOWN = ("ampctl dev", "ampctl init", "ampctl policy list", "ampctl policy show", "ampctl estimate",
         "ampctl job submit", "ampctl job list", "ampctl job watch", "ampctl job wait", "ampctl job logs",
         "ampctl job pause", "ampctl job resume", "ampctl job cancel", "ampctl job show", "ampctl job retry",
         "ampctl job clone", "ampctl compare", "ampctl checkpoint list", "ampctl checkpoint export",
         "ampctl checkpoint download")

PROMPT, CONTINUED, CTRL_C = "$ ", "> ", "^C"
ANY_LINES, ANY_END = "...", " ..."
FENCE, END_OF_BLOCK = "```console", "```"
EXIT_CODE = re.compile(r"<!-- exit code: (\d+) -->")

NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
UNIT = r" ?(?:[KMGT]i?B|B|bytes|%)(?!\w)"
# What differs between runs and machines, in the order in which it is replaced.
MASKS = tuple((re.compile(pattern, re.MULTILINE), mask) for pattern, mask in (
    (r"^( *worker +)\S.*", r"\1<devices>"),  # of the greeting of `ampctl dev`
    (r"^ *(?:[\d.,]+ +)?\|[\u2800-\u28ff ]*$", "<row of a plot>"),
    (r"(?<=/cpu, ).+(?=, \d+ threads?$)", "<processor>"),
    (r"\bj-[a-z2-7]{16}\b", "<job>"),
    (r"\bc-[0-9a-f]{8}\b", "<comparison>"),
    (r"\b[0-9a-f]{12,64}\b", "<hash>"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| [A-Z]{3,5}\b)?", "<time>"),
    (r"(?<![\w.])(?:\d+(?:\.\d+)? ?(?:ms|us|ns|[smhd])(?![a-z]))+", "<number>"),
    (f"{NUMBER}(?:{UNIT})?(?!\\w)", "<number>"),
    (r"(?<=for speed use )\w+", "<preset>"),  # whichever the processor computes natively
    (r"[\u2580-\u259f]+", "<bar>"),  # block elements, of progress bars and histograms
    (r"(?<!\S)-+(?!\S)", "<number>"),  # stands in tables for a number that there is not
    (r"-{2,}", "--"),
    (r"[ \t]+", " "),
))

SECOND_SCREEN = re.compile(r"\x1b\[\?1049h.*?\x1b\[\?1049l", re.DOTALL)
ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclasses.dataclass
class Command:
    """A command of the page."""
    line: int  # of its first line, counted from 1
    text: str  # as a shell takes it, or CTRL_C
    expected: list  # the lines of output that the page shows
    output: slice  # where these lines are in the page, counted from 0
    code: int = 0

    def is_dev(self):
        return self.text.split()[:2] == ["ampctl", "dev"]


def blocks(lines):
    """Returns [(start, end, exit code or None)] of the page's blocks of commands. The lines start to end - 1, counted
    from 0, are what is between the fences."""
    found, start, code, language = [], None, None, None
    for i, line in enumerate(lines):
        if language is not None:
            if line == END_OF_BLOCK:
                if language == FENCE:
                    found.append((start, i, code))
                start = code = language = None
        elif line.startswith(END_OF_BLOCK):
            start, language = i + 1, line
            assert code is None or language == FENCE, f"line {i + 1}: an exit code before a block without commands"
        elif match := EXIT_CODE.fullmatch(line):
            code = int(match[1])
        elif line:
            assert code is None, f"line {i + 1}: an exit code without a block"
    assert language is None, "the last block has no end"
    return found


def block_commands(lines, start, end):
    """Returns the commands of one block."""
    commands, i = [], start
    while i < end:
        first = i
        if lines[i].startswith(PROMPT):
            text = [lines[i].removeprefix(PROMPT)]
            while i + 1 < end and (lines[i + 1].startswith(CONTINUED) or text[-1].endswith("\\")):
                i += 1
                text.append(lines[i].removeprefix(CONTINUED))
            i += 1
        elif lines[i].startswith(CTRL_C):
            text = [CTRL_C]
        else:
            raise AssertionError(f"line {i + 1}: output without a command: {lines[i]}")
        output = i
        while i < end and (i == first or not lines[i].startswith((PROMPT, CTRL_C))):
            i += 1
        commands.append(Command(first + 1, "\n".join(text), lines[output:i], slice(output, i)))
    return commands


def parse(page):
    """Returns the commands of a page in order."""
    lines, commands = page.split("\n"), []
    for start, end, code in blocks(lines):
        found = block_commands(lines, start, end)
        if code is not None:
            assert len(found) == 1, f"line {start}: an exit code before {len(found)} commands; it must be one"
            found[0].code = code
        commands += found
    return commands


def as_shown(output, folder, host):
    """Returns the lines that a terminal shows in the end of what was written to it, with the page's names for folder
    and host."""
    text = ESCAPE_SEQUENCE.sub("", SECOND_SCREEN.sub("", output)).replace("\r\n", "\n")
    text = text.replace(folder, READERS_FOLDER)
    text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", READERS_HOST, text)
    return [line.rstrip() for line in text.removesuffix("\n").split("\n")] if text else []


def normalised(lines):
    """Returns the lines without what differs between runs and machines."""
    text = "\n".join(lines)
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return [line.strip() for line in text.split("\n")] if lines else []


def unwrapped(lines):
    """Returns the lines without the line breaks that ampctl makes where a line is too long for the terminal: the next
    line is indented, and its first word would not have fitted. Where that is depends on the lengths of numbers."""
    joined = []
    last = 0  # The length of the last line that was printed.
    for line in lines:
        words = line.split()
        if joined and words and line.startswith("  ") and last + 1 + len(words[0]) > COLUMNS:
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
        last = len(line)
    return joined


def segments(lines):
    """Returns the lines between the lines `...`: one list more than there are such lines."""
    parts = [[]]
    for line in lines:
        if line == ANY_LINES:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def same(expected, printed):
    """Returns whether a printed line is as expected. Both are normalised."""
    if expected.endswith(ANY_END):
        return printed.startswith(expected.removesuffix(ANY_END))
    return expected == printed


def place(expected, printed):
    """Returns where in `printed` each segment of `expected` is, as a list of slices, or None if it does not match.
    Compares normalised lines."""
    parts, lines = [normalised(part) for part in segments(expected)], normalised(printed)
    places, at = [], 0
    for i, part in enumerate(parts):
        if i == len(parts) - 1:
            candidates = [len(lines) - len(part)]
        elif i == 0:
            candidates = [0]
        else:
            candidates = range(at, len(lines) - len(part) + 1)
        at = next((c for c in candidates if c >= at and all(map(same, part, lines[c:c + len(part)]))), None)
        if at is None or (len(parts) == 1 and len(lines) != len(part)):
            return None
        places.append(slice(at, at + len(part)))
        at += len(part)
    return places


def difference(expected, printed):
    """Returns a text that shows where the output differs from the page, or "" if it does not."""
    if place(expected, printed) is not None or place(unwrapped(expected), unwrapped(printed)) is not None:
        return ""
    return "\n".join(difflib.unified_diff(normalised(expected), normalised(printed), "the page", "the command",
                                          lineterm="", n=3)) + "\n\nThe command printed:\n" + "\n".join(printed)


def updated(expected, printed):
    """Returns the lines that the page should show: `printed`, with `...` where `expected` has it. Lines between two
    lines `...` stay as they are if they are not found."""
    parts = segments(expected)
    if places := place(expected, printed):
        fresh = [[old if old.endswith(ANY_END) else new for old, new in zip(part, printed[where], strict=True)]
                 for part, where in zip(parts, places, strict=True)]
    elif len(parts) == 1:
        return printed
    else:
        first, last = len(parts[0]), len(parts[-1])
        if first + last > len(printed):
            return expected
        fresh = [printed[:first], *parts[1:-1], printed[len(printed) - last:]]
    lines = fresh[0]
    for part in fresh[1:]:
        lines = [*lines, ANY_LINES, *part]
    return lines


def rewritten(page, outputs):
    """Returns the page with the outputs [(command, lines that it printed)]."""
    lines = page.split("\n")
    for command, printed in reversed(outputs):
        fresh = updated(command.expected, printed)
        if command.text == CTRL_C:
            fresh = [CTRL_C + fresh[0], *fresh[1:]] if fresh and not fresh[0].startswith(CTRL_C) else fresh or [CTRL_C]
        lines[command.output] = fresh
    return "\n".join(lines)


class Reader:
    """A reader who follows a page in an empty folder, with an empty home. Used in a `with` statement. The folder
    remains if the page fails after `ampctl dev` has started, because the logs are in it."""

    def __init__(self, binaries):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ampd-page-"))
        self.folder, home = self.root / "hour", self.root / "home"
        self.folder.mkdir()
        home.mkdir()
        python = pathlib.Path(sys.executable).parent
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("AMPD_", "XDG_"))}
        self.environment |= {"PATH": f"{binaries}:{python}:{os.environ['PATH']}", "HOME": str(home), "TZ": "UTC",
                             "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "NO_COLOR": "1"}
        self.dev = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.dev is not None and self.dev.poll() is None:
            self.dev.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.dev.wait(timeout=SECONDS)
        kill_below(self.root)  # what a dev that was killed leaves
        if self.dev is not None:
            self.dev.stdout.close()
        if kind is None or self.dev is None:
            shutil.rmtree(self.root)
        else:
            print(f"the reader's folder is kept: {self.root}", flush=True)

    def start(self, command, **streams):
        return subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, start_new_session=True,
                                umask=0o022, **streams)  # jobs read only files that all users may read

    def run(self, command):
        """Runs a command on a terminal. Returns what the terminal shows in the end, as lines, and the exit code."""
        ours, its = pty.openpty()
        termios.tcsetwinsize(its, (ROWS, COLUMNS))
        process = self.start(command, stdin=its, stdout=its, stderr=its)
        os.close(its)
        try:
            output = self.read(ours, command)
            return as_shown(output, str(self.folder), socket.gethostname()), process.wait(timeout=SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            os.close(ours)

    @staticmethod
    def read(terminal, command):
        """Reads until every process has closed the terminal."""
        output, deadline = b"", time.monotonic() + SECONDS
        while True:
            ready = select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"did not end in {SECONDS} s: {command}\n{output.decode(errors='replace')}"
            try:
                output += os.read(terminal, 1 << 16)
            except OSError:  # EIO, the end
                return output.decode(errors="replace")

    def start_dev(self, command):
        """Starts `ampctl dev`. Returns its greeting and the exit code 0, as run() does."""
        assert self.dev is None, "a second ampctl dev"
        self.dev = self.start(f"exec {command} --port 0 --metrics-port 0", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        greeting = ""
        for line in self.dev.stdout:
            greeting += line
            if "Ctrl-C" in line:
                return as_shown(greeting, str(self.folder), socket.gethostname()), 0
        return as_shown(greeting, str(self.folder), socket.gethostname()), self.dev.wait(timeout=SECONDS)

    def end_dev(self):
        """Does what Ctrl-C does. Returns what dev prints then, after the terminal's `^C`, and its exit code."""
        assert self.dev is not None, "no ampctl dev is running"
        self.dev.send_signal(signal.SIGINT)
        code = self.dev.wait(timeout=SECONDS)
        return as_shown(CTRL_C + self.dev.stdout.read(), str(self.folder), socket.gethostname()), code

    def follow(self, command):
        if command.text == CTRL_C:
            return self.end_dev()
        return self.start_dev(command.text) if command.is_dev() else self.run(command.text)


def walk(commands, reader, update=False):
    """Runs the commands and returns [(command, lines that it printed)]. Raises AssertionError at the first command
    that ends with another code than the page says or, unless the page is to be updated, prints something else."""
    outputs = []
    for command in commands:
        start = time.monotonic()
        printed, code = reader.follow(command)
        print(f"  {time.monotonic() - start:6.2f} s  {command.text.splitlines()[0]}", flush=True)
        where = f"{PAGE.name}:{command.line}: {command.text}"
        assert code == command.code, f"{where}\nended with {code} instead of {command.code}:\n" + "\n".join(printed)
        if not update and (text := difference(command.expected, printed)):
            raise AssertionError(f"{where}\nprints something else; AMPD_UPDATE_GOLDEN=1 updates the page\n{text}")
        outputs.append((command, printed))
    return outputs


class GettingStarted(ServiceCase):
    def test_the_page_can_be_followed_from_top_to_bottom(self):
        text, update = PAGE.read_text(), "AMPD_UPDATE_GOLDEN" in os.environ
        with Reader(BINARIES) as reader:
            outputs = walk(parse(text), reader, update)
            self.assertIsNotNone(reader.dev, "the page starts no ampctl dev")
            self.assertIsNotNone(reader.dev.poll(), "the page leaves ampctl dev running")
        if update:
            PAGE.write_text(rewritten(text, outputs))
            for command, printed in zip(parse(PAGE.read_text()), (printed for _, printed in outputs), strict=True):
                self.assertEqual(difference(command.expected, printed), "", f"edit by hand: {command.text}")

    def test_the_page_shows_every_verb_that_a_new_user_needs(self):
        texts = [command.text for command in parse(PAGE.read_text())]
        missing = [shown for shown in SHOWN if not any(text.startswith(shown) for text in texts)]
        self.assertEqual(missing, [])


def page(*lines):
    return "\n".join(["# A page", "", FENCE, *lines, END_OF_BLOCK, ""])


class Parsing(unittest.TestCase):
    def test_commands_have_the_lines_up_to_the_next_command_as_output(self):
        one, two = parse(page("$ echo a; echo b", "a", "b", "$ true"))
        self.assertEqual((one.line, one.text, one.expected, one.code), (4, "echo a; echo b", ["a", "b"], 0))
        self.assertEqual((two.line, two.text, two.expected), (7, "true", []))

    def test_a_command_continues_after_a_backslash_and_at_secondary_prompts(self):
        one, two = parse(page("$ echo a \\", ">   b", "a b", "$ python3 -c '", "> print(1)", "> '", "1"))
        self.assertEqual((one.text, one.expected), ("echo a \\\n  b", ["a b"]))
        self.assertEqual((two.text, two.expected), ("python3 -c '\nprint(1)\n'", ["1"]))

    def test_ctrl_c_is_a_command_whose_output_begins_on_its_line(self):
        one, two = parse(page("^Cstopping", "stopped", "$ ls"))
        self.assertEqual((one.text, one.expected), (CTRL_C, ["^Cstopping", "stopped"]))
        self.assertEqual(two.text, "ls")

    def test_only_blocks_of_console_are_read(self):
        text = "```sh\n$ one\n```\n" + page("$ two") + "```\n$ three\n```\n" + page("$ four")
        self.assertEqual([command.text for command in parse(text)], ["two", "four"])

    def test_an_exit_code_belongs_to_the_only_command_of_the_next_block(self):
        text = page("$ one").replace(FENCE, "<!-- exit code: 3 -->\n\n" + FENCE) + page("$ two")
        self.assertEqual([command.code for command in parse(text)], [3, 0])
        with self.assertRaisesRegex(AssertionError, "before 2 commands"):
            parse(page("$ one", "$ two").replace(FENCE, "<!-- exit code: 3 -->\n" + FENCE))
        with self.assertRaisesRegex(AssertionError, "without a block"):
            parse("<!-- exit code: 3 -->\nText.\n" + page("$ one"))

    def test_damaged_pages_are_refused(self):
        with self.assertRaisesRegex(AssertionError, "line 4: output without a command: a"):
            parse(page("a", "$ echo a"))
        with self.assertRaisesRegex(AssertionError, "no end"):
            parse("```console\n$ echo a\n")


class Normalising(unittest.TestCase):
    def expect_equal(self, one, two):
        self.assertEqual(normalised(one.split("\n")), normalised(two.split("\n")))

    def expect_different(self, one, two):
        self.assertNotEqual(normalised(one.split("\n")), normalised(two.split("\n")))

    def test_numbers_sizes_durations_and_rates_are_equal(self):
        self.expect_equal("loss 0.3841, 12.12 steps/s", "loss 2e-05, 9 steps/s")
        self.expect_equal("took 9s, 62,947 (23.5 GiB)", "took 1m02s, 1 (512 KiB)")
        self.expect_equal("7.8 s  +81%", "2m00s  -3.5%")
        self.expect_equal("2^-24..2^-6", "2^-2..2^-1")
        self.expect_equal("j-kpprkd56bo45y6en/1/step-200", "j-3jmddbq53qo577hb/1/step-1000")

    def test_times_ids_and_hashes_are_equal(self):
        self.expect_equal("2026-11-27 17:43:19 UTC  created", "2027-01-01 00:00:00 CEST  created")
        self.expect_equal("2026-11-27T17:43:19Z of j-kpprkd56bo45y6en", "2027-01-01T00:00:00.25Z of j-3jmddbq53qo577hb")
        self.expect_equal("sha256 0123456789ab", "sha256 " + "f" * 64)

    def test_widths_bars_and_missing_numbers_of_tables_are_equal(self):
        self.expect_equal("ID    NAME\n----  ----\n1     -   ", "ID  NAME\n--------  --\n1   12.5%")
        self.expect_equal("layers.2  \u2581\u2582\u2588", "layers.2  \u2588")

    def test_where_a_long_line_is_broken_makes_no_difference(self):
        start = "x" * (COLUMNS - 4)
        self.assertEqual(difference([start, "  1,234 steps/s"], [f"{start} 2", "  steps/s"]), "")
        self.assertNotEqual(difference([start, "  1,234 steps/s"], [f"{start} 2", "  samples/s"]), "")
        self.assertEqual(unwrapped(["short", "  indented"]), ["short", "  indented"])

    def test_devices_and_processors_are_equal(self):
        self.expect_equal("  worker   cpu, AMD EPYC, 24105 MiB", "  worker   cpu, Intel, 1 MiB; gpu0, H100, 2 MiB")
        self.expect_equal("2 runs on vm/cpu, AMD EPYC, 2 threads", "2 runs on vm/cpu, Intel(R) Xeon(R), 1 threads")
        self.expect_equal("emulated; for speed use fp32", "emulated; for speed use bf16")

    def test_rows_of_plots_are_equal(self):
        self.expect_equal("  2.316 |\u2847\n        | \u2847", " 17.5 |  \u28ff \u2840\n       |")
        self.expect_different("  2.316 |\u2847", "  2.316 |\u2847 SUCCEEDED")

    def test_words_names_and_formats_are_different(self):
        self.expect_different("SUCCEEDED  fp32", "FAILED  fp32")
        self.expect_different("SUCCEEDED  fp32", "SUCCEEDED  fp16")
        self.expect_different("parameter layers.0.weight", "parameter layers.2.weight")
        self.expect_different("took 9s", "ETA 9s")
        self.expect_different("a\nb", "a b")
        self.expect_different("", "a")

    def test_the_terminals_second_screen_and_this_machines_names_are_not_shown(self):
        output = "\x1b[?1049h\x1b[Hredrawn\x1b[?1049l\x1b[32mleft\x1b[0m  \r\n\r\nin /tmp/x/.ampd on box/cpu\r\n"
        self.assertEqual(as_shown(output, "/tmp/x", "box"),
                         ["left", "", f"in {READERS_FOLDER}/.ampd on {READERS_HOST}/cpu"])
        self.assertEqual(as_shown("no-box boxes", "/tmp/x", "box"), ["no-box boxes"])
        self.assertEqual(as_shown("", "/tmp/x", "box"), [])


class Matching(unittest.TestCase):
    def expect_match(self, expected, printed):
        self.assertEqual(difference(expected.split(), printed.split()), "")

    def expect_difference(self, expected, printed, *words):
        text = difference(expected.split(), printed.split())
        self.assertNotEqual(text, "")
        for word in words:
            self.assertIn(word, text)

    def test_equal_lines_match(self):
        self.expect_match("a 1 b", "a 2 b")
        self.expect_match("", "")

    def test_a_wrong_missing_or_extra_line_is_a_difference(self):
        self.expect_difference("a SUCCEEDED b", "a FAILED b", "-SUCCEEDED", "+FAILED")
        self.expect_difference("a b", "a", "-b")
        self.expect_difference("a", "a b", "+b")
        self.expect_difference("", "a")
        self.expect_difference("a", "")

    def test_dots_match_any_lines_in_their_place(self):
        for printed in ("a b", "a x b", "a b x a b"):
            self.expect_match("a ... b", printed)
        self.expect_match("...", "")
        self.expect_match("... b", "x b")
        self.expect_match("a ... c d ... b", "a x c c d y b")

    def test_dots_at_the_end_of_a_line_match_the_rest_of_that_line(self):
        self.assertEqual(difference(["Keep fp32: ...", "b"], ["Keep fp32: it is fast", "b"]), "")
        self.assertNotEqual(difference(["Keep fp32: ..."], ["Take fp16: it is fast"]), "")
        self.assertNotEqual(difference(["Keep fp32: ..."], ["Keep fp32: it is", "fast"]), "")

    def test_dots_do_not_hide_what_is_around_them(self):
        self.expect_difference("a ... b", "a x")
        self.expect_difference("a ... b", "x b")
        self.expect_difference("a ... a", "a")
        self.expect_difference("a ... c ... b", "a x b")
        self.expect_difference("a ... c ... d ... b", "a d c b")


class Updating(unittest.TestCase):
    def update(self, text, *outputs):
        return rewritten(text, list(zip(parse(text), outputs, strict=True)))

    def test_outputs_are_replaced_and_everything_else_stays(self):
        text = "Text.\n" + page("$ one", "old", "$ two \\", "> more", "$ three", "1", "2") + "End.\n"
        self.assertEqual(self.update(text, ["new", "lines"], ["first"], []),
                         "Text.\n" + page("$ one", "new", "lines", "$ two \\", "> more", "first", "$ three") + "End.\n")

    def test_dots_stay_where_they_are(self):
        self.assertEqual(self.update(page("$ one", "a 1", "...", "b 1", "...", "c 1"), ["a 2", "x", "b 2", "c 2"]),
                         page("$ one", "a 2", "...", "b 2", "...", "c 2"))
        self.assertEqual(self.update(page("$ one", "old", "...", "old"), ["a", "x", "b"]),
                         page("$ one", "a", "...", "b"))
        text = page("$ one", "a 1", "Keep fp32: ...")
        self.assertEqual(self.update(text, ["a 2", "Keep fp32: it is fast"]), page("$ one", "a 2", "Keep fp32: ..."))

    def test_what_cannot_be_placed_stays(self):
        text = page("$ one", "a", "b", "...", "c")
        self.assertEqual(self.update(text, ["a"]), text)

    def test_what_follows_ctrl_c_stays_on_its_line(self):
        self.assertEqual(self.update(page("^C"), ["^Cstopping", "stopped"]), page("^Cstopping", "stopped"))


class Walking(unittest.TestCase):
    def walk(self, *lines, code=0):
        commands = parse(page(*lines))
        commands[-1].code = code
        with Reader(BINARIES) as reader:
            return [printed for _, printed in walk(commands, reader)]

    def test_commands_run_on_a_terminal_in_one_folder_that_is_empty_at_first(self):
        self.walk("$ ls -A; cd ~; ls -A", "$ echo a > file; cat file", "a", "$ test -t 0 && test -t 1 && ls", "file")

    def test_a_wrong_output_on_the_page_is_found(self):
        with self.assertRaisesRegex(AssertionError, "prints something else(.|\n)*-b\n(.|\n)*a"):
            self.walk("$ echo a", "b")

    def test_a_command_that_does_not_exist_is_found(self):
        with self.assertRaisesRegex(AssertionError, "ended with 127 instead of 0"):
            self.walk("$ ampctl-that-does-not-exist", "...")
        with self.assertRaisesRegex(AssertionError, "ended with 2 instead of 0"):
            self.walk("$ ampctl job mend", "...")

    def test_another_exit_code_than_that_of_the_page_is_found(self):
        self.walk("$ exit 3", code=3)
        with self.assertRaisesRegex(AssertionError, "ended with 0 instead of 3"):
            self.walk("$ true", code=3)

    def test_ctrl_c_needs_a_dev(self):
        with self.assertRaisesRegex(AssertionError, "no ampctl dev is running"):
            self.walk("^C")


if __name__ == "__main__":
    main()
