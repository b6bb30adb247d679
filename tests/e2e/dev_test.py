#!/usr/bin/env python3
"""Runs `ampctl dev` as users do. It prints a greeting, finds earlier jobs, refuses a second instance, and leaves no
process.

Usage: dev_test.py FOLDER_OF_BINARIES [REPORT]. Ends only the processes that it started, by their ids.
"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from service import below, kill_below
from service_case import BINARIES, main

# What is for another server changes nothing for the server of `ampctl dev`, and for commands in its folder.
os.environ.update(AMPD_TOKEN="of-another-server", AMPD_CA="/none/ca.pem")
SECONDS = 90  # limit for operations that take one or two seconds
JOB = """
name: dev-job
model: {mlp: {in_features: 16, hidden: [8], num_classes: 4}}
data:
  train: {synthetic: {shape: [16], num_classes: 4, num_samples: 256, seed: 1}}
  batch_size: 16
optimizer: {sgd: {learning_rate: 0.1}}
train: {steps: %d, seed: 1, num_threads: 1}
"""


class Dev:
    """One `ampctl dev` in a folder. The constructor returns once it is up."""

    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen(
            [BINARIES / "ampctl", "dev", "--port", "0", "--metrics-port", "0", *arguments], cwd=folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.greeting = ""
        for line in self.process.stdout:
            self.greeting += line
            if "Ctrl-C" in line:
                return
        raise AssertionError(self.process.stderr.read())

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(timeout=SECONDS)
        err = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, err


class DevTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-dev-"))
        self.devs = []

    def tearDown(self):
        for dev in self.devs:
            if dev.process.poll() is None:
                dev.end(signal.SIGTERM)
        kill_below(self.folder)  # a killed worker leaves its warm trainer, which waits for the next worker
        shutil.rmtree(self.folder)

    def start(self, *arguments):
        self.devs.append(Dev(self.folder, *arguments))
        return self.devs[-1]

    def ampctl(self, *arguments, **options):
        result = subprocess.run([BINARIES / "ampctl", *arguments], cwd=self.folder, capture_output=True, text=True,
                                timeout=SECONDS, check=False, **options)
        return result.returncode, result.stdout, result.stderr

    def test_greets_with_addresses_that_answer_and_what_to_type(self):
        greeting = self.start().greeting
        address = re.search(r"server +(127\.0\.0\.1:\d+)", greeting).group(1)
        self.assertEqual(self.ampctl("context", "show")[1], f"{address}  (from .ampd/context)\n")
        self.assertEqual(self.ampctl("health")[0], 0)
        self.assertRegex(greeting, r"worker +cpu, .+, \d+ MiB")
        pages = [urllib.request.urlopen(url, timeout=SECONDS).read().decode()
                 for url in re.findall(r"metrics (http://127\.0\.0\.1:\d+/metrics)", greeting)]
        self.assertEqual(len(pages), 2)
        self.assertIn("\nampd_build_info{", pages[0])
        self.assertIn("\nampd_worker_build_info{", pages[1])
        self.assertIn("ampctl job submit -f job.yaml --follow", greeting)
        self.assertLessEqual(max(map(len, greeting.splitlines())), 100, greeting)

    def test_ctrl_c_ends_the_whole_tree_with_zero(self):
        dev = self.start()
        self.assertGreaterEqual(len(below(self.folder)), 2, "server and worker name the folder")
        code, err = dev.end()
        self.assertEqual(code, 0, err)
        self.assertEqual(below(self.folder), {})
        self.assertFalse((self.folder / ".ampd" / "context").exists())

    def test_a_killed_dev_takes_its_server_and_worker_with_it(self):
        dev = self.start()
        servers = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and
                   entry.name != str(dev.process.pid) and str(self.folder) in self.command_of(entry)]
        ends = [os.pidfd_open(pid) for pid in servers]
        dev.process.kill()
        dev.process.wait(timeout=SECONDS)
        dev.process.stdout.close()
        dev.process.stderr.close()
        for end in ends:
            os.set_blocking(end, False)
            self.assertTrue(self.readable(end), "a child of a killed dev goes on")
            os.close(end)

    @staticmethod
    def command_of(entry):
        try:
            return (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""

    @staticmethod
    def readable(descriptor):
        return bool(select.select([descriptor], [], [], SECONDS)[0])

    def test_a_second_dev_in_the_folder_says_so_in_one_line(self):
        self.start()
        code, out, err = self.ampctl("dev", "--port", "0", "--metrics-port", "0")
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(len(err.strip().split("\n")), 1, err)
        self.assertIn("another ampctl dev is running in", err)
        self.assertEqual(self.ampctl("health")[0], 0, "the first one is left alone")

    def test_a_worker_that_dies_ends_dev_with_an_error_that_names_it(self):
        dev = self.start()
        workers = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and
                   "ampd-worker" in self.command_of(entry) and str(self.folder) in self.command_of(entry)]
        self.assertEqual(len(workers), 1)
        os.kill(workers[0], signal.SIGKILL)
        code = dev.process.wait(timeout=SECONDS)
        err = dev.process.stderr.read()
        dev.process.stdout.close()
        dev.process.stderr.close()
        self.assertEqual(code, 1)
        self.assertIn("ampd-worker ended, signal 9; its log: ", err)
        self.assertLess(err.index("ampd-worker ended"), err.index("stopping worker and server"), "why comes before the wait")

    def answer(self, answer, *arguments):
        """Runs ampctl with a terminal as its standard input, on which `answer` is typed."""
        ours, its = pty.openpty()
        os.write(ours, answer)
        try:
            return self.ampctl(*arguments, stdin=its)
        finally:
            os.close(ours)
            os.close(its)

    def test_clean_asks_and_deletes_after_a_yes_alone(self):
        dev = self.start()
        (self.folder / "job.yaml").write_text(JOB % 5)
        job = self.ampctl("job", "submit", "-q", "-f", "job.yaml")[1].strip()
        self.assertEqual(self.ampctl("job", "wait", job)[0], 0)
        dev.end()
        for answer in (b"n\n", b"\n", b"\x04"):
            code, out, err = self.answer(answer, "dev", "--clean", "--port", "0", "--metrics-port", "0")
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(f"delete everything in {self.folder.resolve()}/.ampd: checkpoints of 1 job (", err)
            self.assertIn("nothing was deleted, and nothing was started", err)
        code, _, err = self.ampctl("dev", "--clean", "--port", "0", "--metrics-port", "0", stdin=subprocess.DEVNULL)
        self.assertEqual(code, 2, err)
        self.assertIn("ampctl dev --clean --yes", err)
        dev = self.start()
        self.assertEqual(self.ampctl("job", "list", "-o", "name")[1], job + "\n")
        dev.end()
        self.start("--clean", "--yes")
        self.assertEqual(self.ampctl("job", "list", "-o", "name")[1], "")
        self.assertEqual(list((self.folder / ".ampd" / "checkpoints").iterdir()), [])

    def test_data_roots_must_be_name_and_path(self):
        code, _, err = self.ampctl("dev", "--data-root", "mnist")
        self.assertEqual(code, 2, err)
        self.assertIn("NAME=PATH", err)
        self.assertFalse((self.folder / ".ampd").exists())

    def test_a_job_runs_to_its_end_and_is_there_at_the_next_start(self):
        dev = self.start()
        code, out, err = self.ampctl("job", "submit", "-f", "-", "--follow", input=JOB % 20)
        self.assertEqual(code, 0, err)
        self.assertIn("step 20/20", out)
        self.assertIn("SUCCEEDED", err)
        code, err = dev.end()
        self.assertEqual(code, 0, err)
        self.start()
        self.assertIn("SUCCEEDED", self.ampctl("job", "list")[1])

    def test_a_job_that_is_cut_short_leaves_nobody_behind_and_goes_on_at_the_next_start(self):
        dev = self.start()
        job = self.ampctl("job", "submit", "-q", "-f", "-", "--name", "cut", input=JOB % 20000)[1].strip()
        with subprocess.Popen([BINARIES / "ampctl", "job", "watch", job, "-o", "jsonl"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watch:
            for line in watch.stdout:
                if json.loads(line).get("steps", {}).get("step"):
                    break
            watch.send_signal(signal.SIGINT)
            watch.stdout.read()  # reads to the end, because a closed pipe would end the program in another way
            self.assertEqual(watch.wait(timeout=SECONDS), 130)
        code, err = dev.end()
        self.assertEqual(code, 0, err)
        self.assertEqual(below(self.folder), {})
        self.start()
        self.assertEqual(self.ampctl("job", "wait", job, "--timeout", "80s")[0], 0)
        attempts = json.loads(self.ampctl("job", "show", job, "-o", "json")[1])["attempts"]
        self.assertEqual([int(attempt.get("fromStep", 0)) > 0 for attempt in attempts], [False, True],
                         "one attempt before and one from its checkpoint after")


if __name__ == "__main__":
    main()
