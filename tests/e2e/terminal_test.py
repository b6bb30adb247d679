#!/usr/bin/env python3
"""Runs `ampctl job watch` on a pseudo-terminal. It redraws in place, in colours, and restores the terminal. If stdout
is not a terminal, it prints plain text.

Usage: terminal_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from service import Service
from service_case import BINARIES, JOB, ServiceCase, main

SECONDS = 60  # limit for operations that take one or two seconds
ROWS, COLUMNS = 24, 80
ENDLESS = JOB.replace("name: small", "name: endless").replace("fp32", "fp16").replace("steps: 5", "steps: 100000000")

CTRL_C, CTRL_Z, ENTER = b"\x03", b"\x1a", b"\n"
EXIT_OK, EXIT_INTERRUPTED = 0, 130  # docs/cli.md
STOPPED = 128 + signal.SIGSTOP  # the status that a shell reports

HOME, CLEAR_BELOW, MAIN_SCREEN = "\x1b[H", "\x1b[J", "\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MODE = re.compile(r"\x1b\[\?(\d+)([hl])")
TAKEN = {"1049": "h", "25": "l", "7": "l"}  # second screen, no cursor, no wrapping
GIVEN_BACK = {"1049": "l", "25": "h", "7": "h"}
ECHO = re.compile(r"\^[CZ]")  # the terminal's echo of the keys, which may appear anywhere in the output
PROMPT = re.compile(r"shell: (\d+)\r\n\Z")
STEP = re.compile(r"step ([\d,]+)/100,000,000\b")

# Runs a command in the foreground, as a shell at a terminal does, and reports the status with which it ended or
# stopped. Enter continues it. The shell outlives the command, because unread output may be lost when a terminal's first
# process ends.
SHELL = "set -m; \"$@\"; while printf 'shell: %d\\n' $? >&2 && read -r; do fg >&2; done"


class Output:
    """The output read from a descriptor."""

    def __init__(self, descriptor):
        self.descriptor, self.content = descriptor, b""

    def text(self):
        return ECHO.sub("", self.content.decode(errors="replace"))

    def until(self, seen, what):
        """Reads until `seen`, called with all output so far, returns a true value. Returns that value."""
        deadline = time.monotonic() + SECONDS
        while not (value := seen(self.text())):
            ready = select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"not in {SECONDS} s: {what}, but {self.text()[-4000:]!r}"
            part = os.read(self.descriptor, 1 << 16)
            assert part, f"at its end: {what}, but {self.text()[-4000:]!r}"
            self.content += part
        return value


class Terminal(Output):
    """A pseudo-terminal on which a shell runs one command. With stdout=PIPE, stdout goes to `pipe` and the rest to the
    terminal."""

    def __init__(self, command, stdout=None, **environment):
        descriptor, its = pty.openpty()
        super().__init__(descriptor)
        self.resize(ROWS, COLUMNS)
        self.modes = termios.tcgetattr(descriptor)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("LC_") and name != "NO_COLOR"}
        self.shell = subprocess.Popen(
            ["bash", "-c", SHELL, "bash", *command], stdin=its, stdout=stdout or its, stderr=its, start_new_session=True,
            env=plain | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"} | environment,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # makes the terminal's keys send signals
        os.close(its)
        self.pipe = Output(self.shell.stdout.fileno()) if stdout else None

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.descriptor, (rows, columns))

    def type(self, key):
        os.write(self.descriptor, key)

    def prompt(self):
        """Returns the status that the shell reports once it has the terminal again."""
        return int(self.until(PROMPT.search, "the shell's prompt")[1])

    def close(self):
        if (group := os.tcgetpgrp(self.descriptor)) > 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)  # the command of a failed test, or the shell
        self.shell.kill()
        self.shell.wait(SECONDS)
        os.close(self.descriptor)
        if self.pipe:
            self.shell.stdout.close()


def frames(text):
    """Returns the rows of every complete frame, without colours."""
    return [[re.sub(r"\x1b\[[KJ]", "", COLOUR.sub("", row)).rstrip("\r") for row in frame.split("\n")]
            for frame in text.split(HOME)[1:-1]]


def steps(text):
    return [int(number.replace(",", "")) for number in STEP.findall(text)]


def moves(text):
    """Returns whether the last three steps shown are increasing. Earlier frames do not count: the first may show the
    step of the job's record, which may be ahead of the points that follow."""
    last = steps(text)[-3:]
    return len(last) == 3 and last[0] < last[1] < last[2]


class TerminalTest(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.worker = cls.service.start_worker()
        cls.ended = cls.service.finished(cls.service.submit(JOB))["id"]
        cls.job = cls.service.submit(ENDLESS)
        cls.worker.await_step(cls.job)

    def watch(self, job, *flags, **options):
        terminal = Terminal([BINARIES / "ampctl", "--address", self.service.address, "job", "watch", job, *flags], **options)
        self.addCleanup(terminal.close)
        return terminal

    def expect_given_back(self, terminal):
        """Checks that the terminal is restored and shows the job's last state. Returns its rows without colours."""
        said = terminal.text()
        self.assertEqual(dict(MODE.findall(said)), GIVEN_BACK, said[-4000:])
        self.assertEqual(termios.tcgetattr(terminal.descriptor), terminal.modes)
        left = COLOUR.sub("", said.rpartition(MAIN_SCREEN)[2])
        self.assertNotIn("\x1b", left)
        self.assertLess(left.count("\n"), ROWS, "its first row is out of sight")
        return left

    def test_on_a_terminal_a_screen_in_colours_is_redrawn_in_place(self):
        terminal = self.watch(self.job)
        terminal.until(lambda text: moves(text.rpartition(HOME)[0]), "frames of three steps")
        said = terminal.text()
        self.assertEqual(dict(MODE.findall(said.partition(HOME)[0])), TAKEN)
        self.assertEqual(MODE.findall(said.partition(HOME)[2]), [], "a screen that is taken once")
        for frame in frames(said):
            self.assertLessEqual(len(frame), ROWS, "the terminal scrolls")
            self.assertLessEqual(max(map(len, frame)), COLUMNS, frame)
            self.assertEqual(frame[-1], "Ctrl-C detaches; the job continues")
        for frame in said.split(HOME)[1:-1]:
            self.assertEqual(frame.count(CLEAR_BELOW), 1, "a longer frame leaves a trace")
        shown = "\n".join(frames(said)[-1])
        for words in (rf"^endless   {self.job}   RUNNING\s+attempt 1 on w1\s+fp16( \(emulated\))?$",
                      r"^\[[█░]+\] +\d+%  step [\d,]+/100,000,000  \d+s, ETA \d+", r"^loss [\d.e-]+   grad norm [\d.e-]+",
                      r"^memory [\d.]+ [KMG]iB, peak ", r"^ *[\d.]+ \|.*[⠁-⣿]",
                      r"^loss scale [\d.e+]+ \(2\^\d+\)   \d+ steps? skipped"):
            self.assertRegex(shown, re.compile(words, re.M))
        for painted in ("\x1b[1mendless\x1b[0m", "\x1b[32mRUNNING\x1b[0m", "\x1b[2mCtrl-C detaches"):
            self.assertIn(painted, said)

    def test_with_no_color_it_is_redrawn_without_colours(self):
        terminal = self.watch(self.job, NO_COLOR="1")
        terminal.until(lambda text: moves(text.rpartition(HOME)[0]), "frames of three steps")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.prompt(), EXIT_INTERRUPTED)
        self.assertIn(f"{self.job}   RUNNING", self.expect_given_back(terminal))
        self.assertEqual(COLOUR.findall(terminal.text()), [])

    def test_on_a_dumb_terminal_there_are_lines_without_escapes(self):
        terminal = self.watch(self.job, "--interval", "100ms", TERM="dumb")
        terminal.until(moves, "lines of three steps")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.prompt(), EXIT_INTERRUPTED)
        self.assertNotIn("\x1b", terminal.text())
        self.assertRegex(terminal.text(), r"(?m)^RUNNING  step [\d,]+/100,000,000  loss [\d.e-]+  loss scale [\d.e+]+ ")

    def test_piped_from_a_terminal_there_are_lines_without_escapes(self):
        terminal = self.watch(self.job, "--interval", "100ms", stdout=subprocess.PIPE)
        terminal.pipe.until(moves, "lines of three steps")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.prompt(), EXIT_INTERRUPTED)
        self.assertNotIn("\x1b", terminal.pipe.text())
        self.assertRegex(terminal.pipe.text(), r"(?m)^RUNNING  step [\d,]+/100,000,000  loss [\d.e-]+  loss scale [\d.e+]+ ")
        self.assertRegex(terminal.text(), r"^detached; .*\r\n  ampctl --address \S+ job watch .*\r\nshell: 130\r\n$")

    def test_ctrl_c_gives_the_terminal_back_and_the_job_goes_on(self):
        terminal = self.watch(self.job)
        terminal.until(lambda text: moves(text.rpartition(HOME)[0]), "frames of three steps")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.prompt(), EXIT_INTERRUPTED)
        left = self.expect_given_back(terminal)
        self.assertGreaterEqual(steps(left)[-1], steps("".join(map("".join, frames(terminal.text()))))[-1])
        self.assertIn("detached; the job continues. To attach again:\r\n"
                      f"  ampctl --address {self.service.address} job watch {self.job}\r\n", left)
        self.worker.await_step(self.job, self.worker.last_step(self.job).number + 1)
        self.assertEqual(self.service.job(self.job)["state"], "RUNNING")

    def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(self):
        terminal = self.watch(self.job)
        terminal.until(lambda text: moves(text.rpartition(HOME)[0]), "frames of three steps")
        terminal.type(CTRL_Z)
        self.assertEqual(terminal.prompt(), STOPPED)
        self.expect_given_back(terminal)
        before = terminal.text()
        terminal.type(ENTER)
        terminal.until(lambda text: moves(text[len(before):].rpartition(HOME)[0]), "frames of three steps after it")
        self.assertEqual(dict(MODE.findall(terminal.text())), TAKEN)
        self.assertGreater(steps(terminal.text())[-1], steps(before)[-1])
        terminal.type(CTRL_C)
        self.assertEqual(terminal.prompt(), EXIT_INTERRUPTED)
        self.expect_given_back(terminal)

    def test_frames_take_the_size_that_the_terminal_has(self):
        terminal = self.watch(self.job)
        for rows, columns in ((ROWS, COLUMNS), (ROWS, 40), (40, 100)):
            terminal.resize(rows, columns)

            def fill(text):
                """Returns whether the last three frames are as wide as the terminal, no longer, and at most ten rows
                shorter."""
                last = frames(text)[-3:]
                return len(last) == 3 and all(max(map(len, frame)) == columns and rows - 10 <= len(frame) <= rows
                                              for frame in last)
            terminal.until(fill, f"frames of {rows} rows and {columns} columns")

    def test_a_job_that_has_ended_is_left_on_the_terminal(self):
        terminal = self.watch(self.ended)
        self.assertEqual(terminal.prompt(), EXIT_OK)
        self.assertRegex(self.expect_given_back(terminal), r"(?s)^small   .*\r\n\[█+\] 100%  step 5/5  .*\nSUCCEEDED")
        self.assertIn("\x1b[32mSUCCEEDED\x1b[0m", terminal.text().rpartition(MAIN_SCREEN)[2])


if __name__ == "__main__":
    main()
