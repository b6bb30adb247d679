#!/usr/bin/env python3
"""Numbers forced to go wrong in the real service, each found and met as docs/when-numbers-go-wrong.md says.

Usage: numbers_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import json
import math
import pathlib
import random
import shutil
import struct
import tempfile
import unittest

from service import Service
from service_case import BINARIES, ServiceCase, main

MLP = """
name: numbers
model: {mlp: {in_features: 12, hidden: [64, 64], num_classes: 3}}
data:
  train: {synthetic: {shape: [12], num_classes: 3, num_samples: 40, seed: 9}}
  eval: {synthetic: {shape: [12], num_classes: 3, num_samples: 60, seed: 9}}
  batch_size: 8
precision: {preset: fp16}
optimizer: {adamw: {learning_rate: 1e-2}}
train: {steps: 60, seed: 5, num_threads: 1}
checkpoint: {every_steps: 2}
"""


def idx(magic, sizes, content):
    return struct.pack(f">{len(sizes) + 1}I", magic, *sizes) + content


def safetensors(tensors):
    """The file of {name: (shape, floats)}."""
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


class Numbers(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="ampd-numbers-root-"))
        cls.service = Service(BINARIES)
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.enterClassContext(cls.service)
        cls.service.start_worker(flags=["--data-root", f"root={cls.root}"])

    def run_job(self, text):
        return self.service.finished(self.service.submit(text))

    def told(self, job, kind):
        events = self.service.read("job", "events", job["id"])["events"]
        return [event for event in events if event["kind"] == kind]

    def accuracy(self, job):
        return job["attempts"][-1]["outcome"]["finalMetrics"]["evalAccuracy"]

    def write_images(self, pixels, std):
        """One sample of 12 pixels a row, of the classes 0, 1, 2 in turn, and the data section that reads them."""
        (self.root / "images").write_bytes(idx(0x803, [len(pixels), 3, 4], b"".join(map(bytes, pixels))))
        (self.root / "labels").write_bytes(idx(0x801, [len(pixels)], bytes(i % 3 for i in range(len(pixels)))))
        source = f"{{idx: {{images: root/images, labels: root/labels, std: {std}}}}}"
        return f"data: {{train: {source}, eval: {source}, batch_size: 8, keep_order: true}}\n"

    @staticmethod
    def with_data(data):
        lines = MLP.splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if line.startswith("data:"))
        return "".join(lines[:first] + [data] + lines[first + 4:])

    def test_learning_rate_that_diverges_in_fp16_trains_after_the_fall_back(self):
        wild = MLP.replace("learning_rate: 1e-2", "learning_rate: 5")
        failed = self.run_job(wild)
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "NONFINITE_LOSS"), failed.get("message"))
        self.expect_clean_line(failed["message"])
        job = self.run_job(wild + "on_divergence: ROLL_BACK_AND_RAISE_PRECISION\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        self.assertGreater(self.accuracy(job), 0.8)
        back, raised = self.told(job, "ROLLED_BACK"), self.told(job, "PRECISION_RAISED")
        self.assertEqual([event["attributes"]["precision"] for event in raised], ["bf16"])
        self.assertEqual(len(back), 1)
        self.expect_clean_line(back[0]["message"])
        self.assertEqual([step for step, _ in self.service.curve(job["id"])], list(range(1, 61)),
                         "the rows beyond the roll-back are superseded")

    def test_poisoned_batch_is_left_behind(self):
        pixels = [[int(pixel // 4 == sample % 3) for pixel in range(12)] for sample in range(8 * 20)]
        pixels[8 * 5 + 3][0] = 255  # mapped to 1e5, which fp16 does not have; an idx file itself cannot hold a NaN
        unscaled = self.with_data(self.write_images(pixels, 1e-5)).replace(
            "{preset: fp16}", "{preset: fp16, loss_scale: {off: {}}}").replace("steps: 60", "steps: 12")
        unscaled = unscaled.replace("learning_rate: 1e-2", "learning_rate: 1e-3").replace("every_steps: 2", "every_steps: 4")
        failed = self.run_job(unscaled)
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "NONFINITE_LOSS"), failed.get("message"))
        job = self.run_job(unscaled + "on_divergence: ROLL_BACK\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        back = self.told(job, "ROLLED_BACK")
        self.assertEqual([(int(event["step"]), event["attributes"]["from_step"]) for event in back], [(4, "6")])
        self.assertEqual([step for step, _ in self.service.curve(job["id"])], list(range(1, 13)))
        scaled = self.run_job(unscaled.replace("{off: {}}", "{dynamic: {initial: 1}}"))
        self.assertEqual(scaled["state"], "SUCCEEDED", scaled.get("message"))
        overflow, = self.told(scaled, "OVERFLOW")
        self.assertEqual(overflow["attributes"]["loss_is_finite"], "false")

    def test_a_raise_is_taken_back_once_the_poisoned_batch_is_behind(self):
        pixels = [[int(pixel // 4 == sample % 3) for pixel in range(12)] for sample in range(8 * 20)]
        pixels[8 * 5 + 3][0] = 255
        poisoned = self.with_data(self.write_images(pixels, 1e-5)).replace(
            "{preset: fp16}", "{preset: fp16, loss_scale: {off: {}}}").replace("steps: 60", "steps: 18")
        poisoned = poisoned.replace("learning_rate: 1e-2", "learning_rate: 1e-3").replace("every_steps: 2", "every_steps: 4")
        job = self.run_job(poisoned + "on_divergence: ROLL_BACK_AND_RAISE_PRECISION\nlower_again_after_steps: 5\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        raised, = self.told(job, "PRECISION_RAISED")
        lowered, = self.told(job, "PRECISION_LOWERED")
        self.assertEqual((raised["attributes"]["precision"], lowered["attributes"]["precision"]), ("bf16", "fp16"))
        self.assertGreaterEqual(int(lowered["step"]) - int(raised["step"]), 5)
        self.expect_clean_line(lowered["message"])
        self.assertEqual([step for step, _ in self.service.curve(job["id"])], list(range(1, 19)))

    def test_overflow_in_one_layer_is_named_and_that_layer_raised(self):
        draw = random.Random(4)
        tensors = {}
        for name, rows, columns, bound in (("layers.0", 16, 12, 2000), ("layers.2", 16, 16, 5e-5), ("layers.4", 3, 16, 0.25)):
            tensors[f"{name}.weight"] = ([rows, columns], [draw.uniform(-bound, bound) for _ in range(rows * columns)])
            tensors[f"{name}.bias"] = ([rows], [0.0] * rows)
        (self.root / "weights").write_bytes(safetensors(tensors))
        job = self.run_job(
            MLP.replace("[64, 64], num_classes: 3}}", "[16, 16], num_classes: 3}, initial_weights: root/weights}")
            .replace("{preset: fp16}", "{preset: fp16, loss_scale: {static: {scale: 16384}}}")
            .replace("adamw: {learning_rate: 1e-2}", "sgd: {learning_rate: 3e-8}").replace("steps: 60", "steps: 120")
            + "on_divergence: ROLL_BACK_AND_RAISE_PRECISION\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        overflows = self.told(job, "OVERFLOW")
        self.assertEqual({event["attributes"]["parameter"] for event in overflows}, {"layers.2.weight"})
        self.assertEqual({event["attributes"]["num_parameters"] for event in overflows}, {"1"})
        raised, = self.told(job, "PRECISION_RAISED")
        self.assertEqual((raised["attributes"]["fp32_modules"], raised["attributes"]["precision"]), ("layers.2", "fp16"))
        losses = [float(loss) for segment in self.service.read("job", "points", job["id"])["segments"]
                  for loss in segment["steps"]["loss"]]
        self.assertTrue(all(map(math.isfinite, losses)))


if __name__ == "__main__":
    main()
