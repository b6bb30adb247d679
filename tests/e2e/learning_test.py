#!/usr/bin/env python3
"""Runs jobs that learn from real data: images of clothes, a text, and verses of two Testaments. Jobs of generative
models also draw samples.

Usage: learning_test.py FOLDER_OF_BINARIES [REPORT.xml]. Takes short runs in bf16; with AMPD_LEARNING=short in fp32
too. With AMPD_LEARNING=full runs the job files of examples/ unchanged, in fp32 and in bf16. Ends only the processes
that it started, by their ids.
"""
import math
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/learning"))

import learning_runs
import sample_pictures
from service import Service
from service_case import BINARIES, ServiceCase, main

RUNS = os.environ.get("AMPD_LEARNING", "")
IS_SHORT = RUNS != "full"
MOST_SECONDS = 900 if IS_SHORT else 7200
# By default a short run learns in one precision: in bf16, or in fp32 without AVX-512, because then LibTorch takes minutes
# for bf16. The trainer's own tests learn in every precision.
HAS_AVX512 = " avx512bw" in pathlib.Path("/proc/cpuinfo").read_text()
PRECISIONS = learning_runs.PRECISIONS if RUNS else ("bf16" if HAS_AVX512 else "fp32",)


class Learning(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.texts = cls.service.folder / "texts"
        roots = learning_runs.prepare(cls.texts, BINARIES / "ampctl")
        cls.service.start_worker(threads=2, flags=[word for root in roots for word in ("--data-root", root)])

    def printed(self, *arguments):
        code, out, err = self.service.ampctl(*arguments)
        self.assertEqual(code, 0, err)
        return out

    def samples(self, job):
        """Returns the samples that the job drew as {step: file}. Checks that it drew as often as its spec asks, and at
        its end."""
        samples = learning_runs.download_samples(job["id"], self.service.folder, self.printed)
        asked, num_steps, expected = job["spec"].get("sample"), int(job["progress"]["step"]), []
        if asked is not None:
            every = int(asked.get("everySteps", 0)) or num_steps
            expected = sorted({*range(every, num_steps + 1, every), num_steps})
        self.assertEqual(sorted(samples), expected)
        return samples

    def learn(self, run, check=lambda job, samples: None):
        """Checks that the job reaches its bound in each precision. `check` makes further checks of the job and its
        samples."""
        for precision in PRECISIONS:
            with self.subTest(run.name, precision=precision):
                start = time.monotonic()
                job = self.service.submit(run.job_file().read_text(), *run.flags(precision, IS_SHORT))
                final = self.service.finished(job, MOST_SECONDS)
                self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
                metrics = final["attempts"][-1]["outcome"]["finalMetrics"]
                losses = {name: metrics[name] for name in ("trainLoss", "evalLoss") if name in metrics}
                losses |= {phase["name"]: phase["loss"] for phase in metrics.get("phases", [])}
                samples = self.samples(final)
                value, bound = run.value(metrics, samples), self.bound(run)
                print(f"  {run.name} {precision}: {final['progress']['step']} steps in {time.monotonic() - start:.0f} s, "
                      f"{losses}, {run.metric} {value:.4f}, bound {bound:.4f}", flush=True)
                self.assertTrue(all(math.isfinite(loss) for loss in losses.values()), losses)
                self.assertTrue(run.reached(value, bound), f"{run.metric} {value}, bound {bound}")
                check(final, samples)

    def bound(self, run):
        return (run.short_bound if IS_SHORT else run.bound)(self.texts)

    def test_a_resnet_knows_clothes(self):
        self.learn(learning_runs.FASHION_RESNET)

    def test_a_gpt2_goes_on_with_a_text(self):
        self.learn(learning_runs.GPT2_TEXT, self.check_texts)

    def check_texts(self, job, samples):
        for step, file in samples.items():
            text = file.read_bytes().decode()
            print(f"  step {step}: {text!r}", flush=True)
            # A byte that is not valid UTF-8 is shown as U+FFFD. The prompt is a line break.
            num_bytes = len(text.replace("\ufffd", "?").encode())
            self.assertEqual((text[:1], num_bytes), ("\n", 1 + job["spec"]["sample"]["text"]["tokens"]))
            self.assertGreater(sum(letter.isalpha() or letter == " " for letter in text), 0.8 * len(text))

    def test_a_bert_tells_verses_apart(self):
        self.learn(learning_runs.BERT_TEXTS)

    def test_a_gan_draws_clothes(self):
        self.learn(learning_runs.FASHION_DCGAN, self.check_first_picture)

    def check_first_picture(self, _, samples):
        run, step = learning_runs.FASHION_DCGAN, min(samples)
        first = run.of_sample(samples[step])
        print(f"  {run.metric} of step {step}: {first:.4f}", flush=True)
        if IS_SHORT:  # a whole run draws its first sample after 200 steps
            self.assertFalse(run.reached(first, self.bound(run)), "what has hardly learned yet passes as well")

    def test_pictures_that_no_network_learned_to_draw_are_far_from_real_ones(self):
        run, rng = learning_runs.FASHION_DCGAN, random.Random(5)
        real = sample_pictures.read_idx(learning_runs.FASHION / "t10k-images-idx3-ubyte.gz")
        others = sample_pictures.read_idx(learning_runs.FASHION / "train-images-idx3-ubyte.gz", 64)
        grey = [tuple(0.5 for _ in others[0])] * 64
        noise = [tuple(rng.random() for _ in others[0]) for _ in others]
        shuffled = [tuple(rng.sample(picture, len(picture))) for picture in others]
        mean = [tuple(sum(column) / len(others) for column in zip(*others))] * 64
        for name, pictures in {"grey": grey, "noise": noise, "shuffled": shuffled, "mean": mean, "one": others[:1] * 64,
                               "four": others[:4] * 16}.items():
            distance = sample_pictures.distance(pictures, real)
            print(f"  {name}: {distance:.4f}", flush=True)
            self.assertFalse(run.reached(distance, run.short_bound(self.texts)), name)
        distance = sample_pictures.distance(others, real)
        print(f"  other real ones: {distance:.4f}", flush=True)
        self.assertTrue(run.reached(distance, run.bound(self.texts)))


if __name__ == "__main__":
    main()
