#!/usr/bin/env python3
"""Makes numbers go wrong in the real service. Each case is detected and handled as docs/when-numbers-go-wrong.md says.

Usage: numbers_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import gzip
import json
import math
import pathlib
import random
import re
import struct

from service import wait_for
from service_case import DataRootCase, main

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
    """Returns the safetensors file of {name: (shape, floats)}."""
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


class Numbers(DataRootCase):
    def accuracy(self, job):
        return job["attempts"][-1]["outcome"]["finalMetrics"]["evalAccuracy"]

    def write_images(self, pixels, std):
        """Writes one sample per row of 12 pixels, with the classes 0, 1, 2 in turn. Returns the data section that reads
        them."""
        (self.root / "images").write_bytes(idx(0x803, [len(pixels), 3, 4], b"".join(map(bytes, pixels))))
        (self.root / "labels").write_bytes(idx(0x801, [len(pixels)], bytes(i % 3 for i in range(len(pixels)))))
        source = f"{{idx: {{images: root/images, labels: root/labels, std: {std}}}}}"
        # The evaluation data ends before the sample that poisoned() changes: an evaluation that is not finite would end
        # the job.
        first = f"{{idx: {{images: root/images, labels: root/labels, std: {std}, limit: 40}}}}"
        return f"data: {{train: {source}, eval: {first}, batch_size: 8, keep_order: true}}\n"

    @staticmethod
    def with_data(data):
        lines = MLP.splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if line.startswith("data:"))
        return "".join(lines[:first] + [data] + lines[first + 4:])

    def poisoned(self, steps):
        """Returns a job without a loss scale. Its sixth batch has a number that fp16 cannot represent."""
        pixels = [[int(pixel // 4 == sample % 3) for pixel in range(12)] for sample in range(8 * 20)]
        # A job's data can't hold a NaN directly: pixels are bytes, and no `mean` and `std` map one of them to NaN and
        # the others to values that a model can learn from. But 255 is mapped to 1e5 here, which is infinite in fp16,
        # and such numbers give NaN where they meet in the sum of a product.
        pixels[8 * 5 + 3][0] = 255
        return (self.with_data(self.write_images(pixels, 1e-5))
                .replace("{preset: fp16}", "{preset: fp16, loss_scale: {off: {}}}").replace("steps: 60", f"steps: {steps}")
                .replace("learning_rate: 1e-2", "learning_rate: 1e-3").replace("every_steps: 2", "every_steps: 4"))

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
        is_native = re.search(r"\b(avx512_bf16|amx_bf16)\b", pathlib.Path("/proc/cpuinfo").read_text()) is not None
        self.assertEqual((job["attempts"][-1]["precision"], job["attempts"][-1].get("emulated", False)),
                         ("bf16", not is_native))
        self.assertEqual(len(back), 1)
        self.expect_clean_line(back[0]["message"])
        self.assertEqual([step for step, _ in self.service.curve(job["id"])], list(range(1, 61)),
                         "the rows beyond the roll-back are superseded")

    def test_poisoned_batch_is_left_behind(self):
        unscaled = self.poisoned(steps=12)
        failed = self.run_job(unscaled)
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "NONFINITE_LOSS"), failed.get("message"))
        segment, = self.service.read("job", "points", failed["id"])["segments"]
        losses = list(map(float, segment["steps"]["loss"]))
        self.assertTrue(math.isnan(losses[5]), f"the sixth batch gives a NaN: {losses}")
        self.assertTrue(all(map(math.isfinite, losses[:5])), losses)
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
        job = self.run_job(self.poisoned(steps=18) + "on_divergence: ROLL_BACK_AND_RAISE_PRECISION\n"
                           "lower_again_after_steps: 5\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        raised, = self.told(job, "PRECISION_RAISED")
        lowered, = self.told(job, "PRECISION_LOWERED")
        self.assertEqual((raised["attributes"]["precision"], lowered["attributes"]["precision"]), ("bf16", "fp16"))
        self.assertEqual(job["attempts"][-1]["precision"], "fp16", "the attempt ended in what it was lowered to")
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
        self.assertTrue(all(map(math.isfinite, self.losses(job))))

    def test_gradients_are_shown_on_request_and_the_scale_that_they_suggest_is_taken(self):
        job = self.service.submit(MLP.replace("steps: 60", "steps: 100000000").replace("every_steps: 2", "every_steps: 0"))
        self.addCleanup(self.service.ampctl, "job", "cancel", job)
        self.worker.await_step(job, 20)
        event = self.service.read("job", "gradients", job)
        self.assertEqual(event["kind"], "GRADIENTS_SAMPLED")
        self.expect_clean_line(event["message"])
        gradients = event["gradients"]
        self.assertEqual([module["module"] for module in gradients["modules"]], ["layers.4", "layers.2", "layers.0"])
        for module in gradients["modules"]:
            self.assertEqual(module["dtype"], "float16")
            counted = sum(map(int, module["counts"])) + int(module.get("numZero", 0)) + int(module.get("numNonFinite", 0))
            self.assertEqual(counted, int(module["numElements"]))
        self.assertEqual(math.log2(gradients["suggestedScale"]) % 1, 0)
        code, _, err = self.service.ampctl("job", "scale", job, "--set-scale", "1e30")
        self.assertNotEqual(code, 0)
        self.assertIn("to 16777216, the cap of fp16", err)
        code, _, err = self.service.ampctl("job", "scale", job, "--set-scale", str(gradients["suggestedScale"]))
        self.assertEqual(code, 0, err)
        ordered, = wait_for(lambda: self.told({"id": job}, "LOSS_SCALE_SET"), "the order's event")
        self.assertEqual(float(ordered["attributes"]["scale"]), gradients["suggestedScale"])
        self.assertEqual(self.service.ampctl("job", "cancel", job)[0], 0)
        self.assertEqual(self.service.finished(job)["state"], "CANCELLED")
        self.assertEqual(len(self.told({"id": job}, "GRADIENTS_SAMPLED")), 1, "one request, one answer")
        self.assertNotEqual(self.service.ampctl("job", "gradients", job)[0], 0, "nothing runs that could answer")

    def test_a_profile_has_the_steps_that_were_asked_for(self):
        job = self.service.submit(MLP.replace("steps: 60", "steps: 100000000").replace("every_steps: 2", "every_steps: 0"))
        self.addCleanup(self.service.ampctl, "job", "cancel", job)
        self.worker.await_step(job, 20)
        written = self.service.read("job", "profile", job, "--steps", "3", "trace.json.gz")
        last = int(written["step"])
        with gzip.open(self.service.folder / written["file"], "rt") as file:
            events = json.load(file)["traceEvents"]
        names = {event["name"] for event in events if event.get("ph") == "X"}
        steps = sorted(int(name.removeprefix("ProfilerStep#")) for name in names if name.startswith("ProfilerStep#"))
        self.assertEqual(steps, [last - 2, last - 1, last])
        self.assertIn("aten::addmm", names)
        self.assertEqual(self.service.ampctl("job", "cancel", job)[0], 0)
        self.assertEqual(self.service.finished(job)["state"], "CANCELLED")
        self.assertNotEqual(self.service.ampctl("job", "profile", job, "other.gz")[0], 0, "nothing runs to be profiled")

    def test_gradients_that_underflow_train_nothing_without_a_scale_and_train_with_one(self):
        # The frozen head's weights are so small that, at a batch of 4096, the gradient of the layer before it is below
        # fp16's smallest number.
        draw = random.Random(4)
        tensors = {}
        for name, rows, columns, bound in (("layers.0", 32, 12, 1e-4), ("layers.2", 10, 32, 6e-5)):
            tensors[f"{name}.weight"] = ([rows, columns], [draw.uniform(-bound, bound) for _ in range(rows * columns)])
            tensors[f"{name}.bias"] = ([rows], [0.0] * rows)
        (self.root / "small").write_bytes(safetensors(tensors))
        source = "{synthetic: {shape: [12], num_classes: 10, num_samples: 4096, seed: 9, noise: 0.3}}"
        model = "mlp: {in_features: 12, hidden: [32], num_classes: 10}, initial_weights: root/small"
        text = self.with_data(f"data: {{train: {source}, eval: {source}, batch_size: 4096}}\n").replace(
            "mlp: {in_features: 12, hidden: [64, 64], num_classes: 3}", model).replace(
            "{adamw: {learning_rate: 1e-2}}", "{adamw: {learning_rate: 1e-2, epsilon: 1e-12, weight_decay: 0}, "
            "groups: [{match: 'layers.2.*', learning_rate: 0}]}").replace("every_steps: 2", "every_steps: 0")
        unscaled = self.run_job(text.replace("{preset: fp16}", "{preset: fp16, loss_scale: {off: {}}}"))
        scaled = self.run_job(text)
        for job in (unscaled, scaled):
            self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        print(f"  accuracy without a scale {self.accuracy(unscaled):.3f}, with one {self.accuracy(scaled):.3f}", flush=True)
        self.assertLess(self.accuracy(unscaled), 0.3, "ten classes: chance is 0.1")
        self.assertGreater(self.accuracy(scaled), 0.7)
        underflow, = self.told(unscaled, "UNDERFLOW")
        self.expect_clean_line(underflow["message"])
        suggested = float(underflow["attributes"]["suggested_scale"])
        self.assertGreater(suggested, 1)
        self.assertEqual(math.log2(suggested) % 1, 0, "a power of two, with all its digits")
        self.assertEqual(self.told(scaled, "UNDERFLOW"), [])

    def fall_of_the_loss(self, preset):
        """Returns how far the loss falls on unseen samples over 200 steps of about 1e-5 per weight, and the job."""
        job = self.run_job(MLP.replace("preset: fp16", f"preset: {preset}").replace("learning_rate: 1e-2", "learning_rate: 1e-5")
                           .replace("steps: 60", "steps: 200").replace("every_steps: 2", "every_steps: 0")
                           + "eval: {every_steps: 1}\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        segment, = self.service.read("job", "points", job["id"])["segments"]
        return segment["evals"][0]["loss"] - segment["evals"][-1]["loss"], job

    def test_apex_o3_falls_behind_what_keeps_masters(self):
        fp32, _ = self.fall_of_the_loss("fp32")
        with_masters, _ = self.fall_of_the_loss("apex-o2")
        without, job = self.fall_of_the_loss("apex-o3")
        print(f"  fall of the loss: fp32 {fp32:.4f}, apex-o2 {with_masters:.4f}, apex-o3 {without:.4f}", flush=True)
        self.assertGreater(with_masters, 0.8 * fp32)
        self.assertLess(without, 0.5 * with_masters)
        warnings = [event["message"] for event in self.told(job, "WARNING")]
        self.assertTrue([text for text in warnings if "apex-o3" in text], f"it is told what such a preset does: {warnings}")
        self.assertTrue([text for text in warnings if "float16 is emulated" in text], warnings)


if __name__ == "__main__":
    main()
