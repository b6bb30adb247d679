#!/usr/bin/env python3
"""Compares real jobs under several precision policies with `ampctl compare`, and estimates them with `ampctl estimate`.

Usage: compare_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import json
import signal
import subprocess

from service import Service, wait_for
from service_case import BINARIES, ServiceCase, main

JOB = """
name: small
model: {lenet: {widths: [4, 8], hidden: 16}}
data:
  train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 1024, seed: 3}}
  eval: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 512, seed: 3}}
  batch_size: 32
optimizer: {adamw: {learning_rate: 1e-3}}
train: {steps: 60, seed: 5, num_threads: 1}
eval: {every_steps: 20}
"""
# Every scaled gradient overflows, so the job never updates a parameter.
OVERFLOWS = JOB + "precision: {preset: fp16, loss_scale: {static: {scale: 1.0e+30}}}\n"
LONG = JOB.replace("steps: 60", "steps: 1000000")


class Compare(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.service.start_worker()

    def compare(self, *arguments, text=None):
        code, out, err = self.service.ampctl("compare", *arguments, "-o", "json", text=text, seconds=300)
        self.assertIn(code, (0, 1), err)
        return code, json.loads(out), err

    def test_every_policy_runs_under_every_seed_and_an_emulated_one_is_not_taken(self):
        report = self.service.folder / "report.html"
        code, compared, err = self.compare("-f", "-", "--policies", "fp32,bf16,fp16", "--repeats", "2", "--html",
                                           report, text=JOB)
        self.assertEqual(code, 0, err)
        policies = {policy["name"]: policy for policy in compared["policies"]}
        self.assertEqual(list(policies), ["fp32", "bf16", "fp16"])
        for policy in policies.values():
            self.assertEqual([(run["seed"], run["state"], run["steps"]) for run in policy["runs"]],
                             [(5, "SUCCEEDED", 60), (6, "SUCCEEDED", 60)])
            for run in policy["runs"]:
                for fact in ("stepSeconds", "samplesPerSecond", "meanMemoryBytes", "peakMemoryBytes", "trainLoss",
                             "evalLoss", "evalAccuracy"):
                    self.assertGreater(run[fact], 0, fact)
                self.assertEqual(run["numThreads"], 1)
                self.assertTrue(run["device"].startswith("w1/cpu"), run["device"])
            self.assertGreater(policy["largestBatch"], 32)
        self.assertTrue(all(run["emulated"] for run in policies["fp16"]["runs"]))
        self.assertEqual(policies["fp16"]["difference"]["numPairs"], 2)
        self.assertIn(compared["recommended"], ("fp32", "bf16"))
        self.assertIn("95% t interval over 2 seeds", compared["basis"])
        # How even the pace is depends on what else runs on this machine.
        self.assertEqual([warning for warning in compared["warnings"]
                          if not warning.startswith("The pace ") and "took times that differ" not in warning], [])
        page = report.read_text()
        self.assertIn(compared["verdict"].split(":")[0], page)
        self.assertEqual(page.count("<svg viewBox"), 2)

        label = compared["compare"]
        jobs = self.service.read("job", "list", "--filter", f"labels.compare={label}")
        self.assertEqual(len(jobs), 6)
        again = self.compare("--label", label)[1]
        self.assertEqual(again["policies"], compared["policies"])
        of_two = self.compare(*(policies[name]["runs"][0]["jobId"] for name in ("fp32", "bf16")))[1]
        self.assertEqual([policy["name"] for policy in of_two["policies"]], ["fp32", "bf16"])

    def test_an_estimate_takes_its_time_from_an_earlier_job(self):
        rate = "optimizer.adamw.learning_rate=0.01"  # does not change the time of a step
        code, out, err = self.service.ampctl("estimate", "-f", "-", "--policies", "fp32", "--set", "data.batch_size=16",
                                             text=JOB)
        self.assertEqual(code, 0, err)
        self.assertIn("no past run", out)
        job = self.service.finished(self.service.submit(JOB, "--set", "data.batch_size=16"))
        self.assertEqual(job["state"], "SUCCEEDED")
        code, out, err = self.service.ampctl("estimate", "-f", "-", "--policies", "fp32", "--set", "data.batch_size=16",
                                             "--set", rate, text=JOB)
        self.assertEqual(code, 0, err)
        self.assertIn(f"as {job['id']} on w1/cpu", out)

    def test_a_policy_under_which_nothing_trains_is_not_taken(self):
        code, compared, err = self.compare("-f", "-", "--policies", "fp32,file", text=OVERFLOWS)
        self.assertEqual(code, 0, err)
        self.assertEqual(compared["recommended"], "fp32")
        standings = {policy["name"]: policy["standing"] for policy in compared["policies"]}
        self.assertEqual(standings, {"fp32": "BASELINE", "file": "DIVERGED"})

    def test_ctrl_c_leaves_the_jobs(self):
        err = self.service.folder / "compare.err"
        with open(err, "w", encoding="utf-8") as log:
            process = subprocess.Popen([BINARIES / "ampctl", "--address", self.service.address, "compare", "-f", "-",
                                        "--policies", "fp32,bf16"], stdin=subprocess.PIPE, stdout=log, stderr=log,
                                       text=True)
            process.stdin.write(LONG)
            process.stdin.close()
            wait_for(lambda: "verdict:" in err.read_text(), "the jobs are submitted")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 130, err.read_text())
        label = err.read_text().rpartition(" compare --label ")[2].strip()
        jobs = self.service.read("job", "list", "--filter", f"labels.compare={label}")
        self.assertEqual(len(jobs), 2)
        self.service.ampctl("job", "cancel", *(job["id"] for job in jobs))
        for job in jobs:
            self.assertEqual(self.service.finished(job["id"])["state"], "CANCELLED")
        code, compared, _ = self.compare("--label", label)
        self.assertEqual(code, 1, "no policy can be taken")
        self.assertIsNone(compared["recommended"])


if __name__ == "__main__":
    main()
