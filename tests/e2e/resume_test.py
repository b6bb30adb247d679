#!/usr/bin/env python3
"""Checks that a job whose trainer is killed at a random step ends like a job that ran through, for every model under
every kind of policy.

Usage: resume_test.py FOLDER_OF_BINARIES [REPORT.xml]. AMPD_SEED chooses the steps and is printed. AMPD_RESUME_KILLS=N
runs every model under every policy with N kills each, instead of the pairs of resume_jobs.CHOSEN with one kill each;
AMPD_RESUME_ONLY=gpt2/fp8 runs only that pair. Ends only the processes that it started, by their ids.
"""
import hashlib
import os
import random

import resume_jobs
from service_case import DataRootCase, main

SEED = int(os.environ.get("AMPD_SEED", "1"))
KILLS = int(os.environ.get("AMPD_RESUME_KILLS", "0"))
ONLY = os.environ.get("AMPD_RESUME_ONLY", "")
MOST_MISSES = 5


def combinations():
    """Yields the (model, policy) pairs of this run, grouped by model."""
    for model, entry in resume_jobs.MODELS.items():
        for policy in entry.policies() if KILLS or ONLY else resume_jobs.CHOSEN[model]:
            if ONLY in ("", f"{model}/{policy}"):
                yield model, policy


class Resume(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        resume_jobs.write_files(cls.root)

    def ended(self, job):
        """Returns the final job, and the results that must be equal in every run: the numbers of all steps and
        evaluations, the hash of the training state, and the hashes of the last checkpoint's files."""
        final = self.service.finished(job)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        last = self.worker.checkpoints / final["checkpoints"][-1]["path"]
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in last.iterdir()
                 if path.name != "state.json"}  # state.json differs, because it holds the attempt
        self.assertLessEqual({"model.safetensors", "optimizer.safetensors"}, set(files))
        metrics = final["attempts"][-1]["outcome"]["finalMetrics"]
        return final, (*self.service.numbers(job), metrics["stateHash"], files)

    def ran_through(self, entry, text):
        final, ending = self.ended(self.service.submit(text))
        self.assertEqual(final["numAttempts"], 1)
        self.assertEqual(sorted(ending[0]), list(range(1, entry.steps + 1)))
        self.assertGreaterEqual(len(ending[1]), 4 if entry.evaluates else 0)
        self.service.ampctl("job", "delete", "--yes", final["id"])
        return ending

    def killed(self, text, steps, draw):
        """Runs a job whose trainer is killed while it computes, and returns how it ended. Retries if the kill came too
        late."""
        for _ in range(MOST_MISSES):
            job = self.service.submit(text)
            drawn = draw.randrange(2, steps - steps // 8)
            step = self.worker.kill_trainer(job, drawn)
            final, ending = self.ended(job)
            self.service.ampctl("job", "delete", "--yes", job)
            if step is not None and final["numAttempts"] > 1:
                attempts = [step.number for step in self.worker.steps(job) if step.attempt > 1]
                print(f"  killed in step {step} (drawn: {drawn}), went on with step {attempts[0]}", flush=True)
                self.went_on.append(attempts[0] > 1)
                return ending
        self.fail(f"{MOST_MISSES} kills in a row came after the end")

    def expect_equal(self, ending, expected):
        for what, is_now, was in zip(("steps", "evaluations"), ending, expected):
            for step in sorted(was):
                self.assertEqual(is_now.get(step), was[step], f"the first of the {what} that differ is that of step {step}")
        self.assertEqual(ending, expected)

    def test_a_killed_trainer_goes_on_to_the_same_bits(self):
        self.went_on = []  # for each pair: whether the job resumed from a checkpoint or started over
        for model, policy in combinations():
            entry = resume_jobs.MODELS[model]
            text = entry.job(policy)
            with self.subTest(f"AMPD_SEED={SEED} AMPD_RESUME_ONLY={model}/{policy} AMPD_RESUME_KILLS={KILLS or 1}"):
                expected = self.ran_through(entry, text)
                skipped = [step for step, (_, _, _, is_skipped, *_) in expected[0].items() if is_skipped]
                print(f" AMPD_SEED={SEED} {model}/{policy}: {entry.steps} steps, {len(skipped)} skipped", flush=True)
                if policy == "fp16":
                    self.assertGreater(len(skipped), 1, "a scale that never overflows tells little")
                    self.assertGreater(max(skipped), entry.steps // 2, "no overflow behind a checkpoint")
                draw = random.Random(f"{SEED} {model}/{policy}")
                for _ in range(KILLS or 1):
                    self.expect_equal(self.killed(text, entry.steps, draw), expected)
        print(f"  {len(self.went_on)} pairs, {sum(self.went_on)} went on from a checkpoint", flush=True)
        self.assertEqual(len(self.went_on), (KILLS or 1) * len(list(combinations())))
        if not ONLY:
            self.assertGreater(sum(self.went_on), len(self.went_on) // 2, "too few went on from a checkpoint")


if __name__ == "__main__":
    main()
