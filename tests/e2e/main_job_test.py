#!/usr/bin/env python3
"""Runs the main job with the real programs: submit it with ampctl, train, kill the trainer with SIGKILL, resume, and
read the metrics page.

Usage: main_job_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from service import Client, kill_if_there, wait_for
from service_case import BINARIES, main

SEED = int(os.environ.get("AMPD_SEED", "1"))
KILLS = {"fp32": 7, "bf16": 7, "fp16": 6}
STEPS = 240

JOB = """
name: main-job
model: {{lenet: {{widths: [4, 8], hidden: 16}}}}
data:
  train: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 4096, seed: 3}}}}
  eval: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 512, seed: 3}}}}
  batch_size: 32
precision: {precision}
optimizer: {{adamw: {{learning_rate: 1e-3}}}}
schedule: {{warmup_steps: 20, cosine: {{final_ratio: 0.1}}}}
train: {{steps: {steps}, clip_grad_norm: 1.0, seed: 5, num_threads: 1}}
checkpoint: {{every_steps: 30, keep: 2}}
"""
PRECISIONS = {
    "fp32": "{preset: fp32}",
    "bf16": "{preset: bf16}",
    # The loss scale overflows at first and grows again later, so the scaler's state must survive the kill too.
    "fp16": "{preset: fp16, loss_scale: {dynamic: {initial: 1073741824, cap: 1073741824, growth_interval: 25}}}",
}


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-main-job-"))
        cls.log = open(cls.folder / "dev.log", "w+", encoding="utf-8")
        cls.dev = subprocess.Popen([BINARIES / "ampctl", "dev", "--port", "0", "--metrics-port", "0"], cwd=cls.folder,
                                   stdout=subprocess.PIPE, stderr=cls.log, text=True, start_new_session=True)
        cls.client = Client(BINARIES, cls.folder)
        cls.metrics = ""
        for line in cls.dev.stdout:
            if "metrics http://" in line and not cls.metrics:  # the server's address; the worker's comes later
                cls.metrics = re.search(r"http://\S+/metrics", line).group()
            if "Ctrl-C" in line:  # the last line of the greeting, after which everything is up
                return
        raise AssertionError(f"ampctl dev did not start; see {cls.log.name}")

    @classmethod
    def tearDownClass(cls):
        cls.dev.send_signal(signal.SIGINT)
        cls.dev.wait(timeout=60)
        cls.dev.stdout.close()
        cls.log.close()
        shutil.rmtree(cls.folder)

    def submit(self, precision):
        return self.client.submit(JOB.format(precision=PRECISIONS[precision], steps=STEPS))

    def final_metrics(self, job):
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        return job["attempts"][-1]["outcome"]["finalMetrics"]

    def trainer_of(self, job):
        """Returns the pid of the trainer that has the job's checkpoint folder or socket open below our folder."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except (OSError, NotADirectoryError):
                continue
            ours = str(self.folder).encode() in b" ".join(command)
            if ours and command[0] == str(BINARIES / "ampd-trainer").encode():
                spawn = pathlib.Path(command[command.index(b"--spawn-folder") + 1].decode())
                if any(job.encode() in record.read_bytes() for record in spawn.iterdir() if record.is_file()):
                    return int(entry.name)
        return None

    def kill_at(self, job, step):
        """Kills the job's trainer with SIGKILL once the stream has shown a step at or past `step`."""
        with subprocess.Popen([BINARIES / "ampctl", "job", "watch", job, "-o", "jsonl"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watch:
            for line in watch.stdout:
                steps = json.loads(line).get("steps", {}).get("step", [])
                if steps and int(steps[-1]) >= step:
                    break
            pid = self.trainer_of(job)
            if pid is not None:
                kill_if_there(pid)
            watch.terminate()
            watch.stdout.close()

    def test_a_killed_trainer_goes_on_bit_for_bit(self):
        generator = random.Random(SEED)
        for precision, kills in KILLS.items():
            whole = self.submit(precision)
            expected = self.final_metrics(self.client.finished(whole))
            expected_numbers = self.client.numbers(whole)
            self.assertEqual(sorted(expected_numbers[0]), list(range(1, STEPS + 1)))
            # A kill that comes after the job's end tests nothing, so it is repeated with another job.
            hits = 0
            for _ in range(2 * kills):
                step = generator.randrange(35, STEPS - 60)
                with self.subTest(precision=precision, step=step, seed=SEED):
                    job = self.submit(precision)
                    self.kill_at(job, step)
                    final = self.client.finished(job)
                    self.assertEqual(self.final_metrics(final)["stateHash"], expected["stateHash"])
                    self.assertEqual(self.client.numbers(job), expected_numbers)
                    hits += final["numAttempts"] > 1
                if hits == kills:
                    break
            self.assertEqual(hits, kills, "too few kills hit a running trainer")
            if precision == "fp16":
                self.assertGreater(int(expected["skippedSteps"]), 3)

    def test_the_log_tells_what_the_trainer_did(self):
        job = self.submit("bf16")
        self.final_metrics(self.client.finished(job))
        code, log, err = self.client.ampctl("job", "logs", job)
        self.assertEqual(code, 0, err)
        for words in (f"attempt 1 of job {job}", "device cpu, 1 threads, LibTorch 2.11", "precision bf16",
                      "samples for training", "evaluation over", ": checkpoint ", ": FINISHED (SUCCEEDED_NORMALLY)"):
            self.assertIn(words, log)

    def page_with(self, series):
        with urllib.request.urlopen(self.metrics, timeout=30) as page:
            text = page.read().decode()
        return text if series.search(text) else None

    def test_the_metrics_page_is_clean(self):
        job = self.submit("fp32")
        self.final_metrics(self.client.finished(job))
        # The page shows the snapshot of the server's last tick, which may be older than the start of a quick job.
        series = re.compile(rf'(?m)^ampd_job_steps_total{{job_id="{job}",tenant="default"}} [0-9]+$')
        text = wait_for(lambda: self.page_with(series), "the job's series")
        check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                               check=False)
        self.assertEqual(check.returncode, 0, check.stderr + check.stdout)

    def test_a_missing_data_file_fails_the_job_and_the_next_one_runs(self):
        failed = self.client.finished(self.client.submit(JOB.format(precision="{preset: fp32}", steps=5).replace(
            "train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 4096, seed: 3}}",
            "train: {idx: {images: fashion-mnist/nowhere.gz, labels: fashion-mnist/train-labels-idx1-ubyte.gz}}")))
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "DATA_ERROR"))
        self.assertIn("nowhere.gz", failed["message"])
        code, log, err = self.client.ampctl("job", "logs", failed["id"])
        self.assertEqual(code, 0, err)
        self.assertIn("nowhere.gz", log)
        self.final_metrics(self.client.finished(self.submit("fp32")))


if __name__ == "__main__":
    main()
