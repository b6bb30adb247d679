#!/usr/bin/env python3
"""Tests jobs that start from a weights file that Python's safetensors wrote: under every policy, the evaluation equals
PyTorch's.

Usage: initial_weights_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from service_case import DataRootCase, main

CLASSES, PIXELS, SAMPLES = 6, 16, 64
# The rate is so small that no weight changes, so the evaluation after the first step is one of the file's weights.
JOB = f"""
name: from-python
model: {{mlp: {{in_features: {PIXELS}, hidden: [32, 16], num_classes: {CLASSES}}}, initial_weights: root/model.safetensors}}
data:
  train: {{idx: {{images: root/images, labels: root/labels}}}}
  eval: {{idx: {{images: root/images, labels: root/labels}}}}
  batch_size: 32
precision: {{preset: fp32}}
optimizer: {{sgd: {{learning_rate: 1e-30}}}}
train: {{steps: 2, num_threads: 1}}
eval: {{every_steps: 1}}
"""
# Relative tolerance of the first evaluation's loss: the error of rounding weights and activations to the format.
TOLERANCE = {"fp32": 1e-6, "bf16": 5e-3, "fp16": 5e-4, "torch-amp-fp16": 5e-4, "apex-o3": 5e-4, "fp8": 2e-2}
NUM_BYTES = 4 * (17 * 32 + 33 * 16 + 17 * CLASSES)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        widths = [PIXELS, 32, 16]
        layers = []
        for rows, columns in zip(widths, widths[1:]):
            layers += [torch.nn.Linear(rows, columns), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], CLASSES))

    def forward(self, images):
        return self.layers(images.flatten(1))


class InitialWeights(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.manual_seed(11)
        pixels = torch.randint(0, 256, (SAMPLES, 4, 4), dtype=torch.uint8)
        labels = torch.randint(0, CLASSES, (SAMPLES,), dtype=torch.uint8)
        (cls.root / "images").write_bytes(struct.pack(">IIII", 2051, SAMPLES, 4, 4) + pixels.numpy().tobytes())
        (cls.root / "labels").write_bytes(struct.pack(">II", 2049, SAMPLES) + labels.numpy().tobytes())
        cls.model = Mlp()
        with torch.no_grad():
            for parameter in cls.model.parameters():
                parameter.mul_(3)  # far from the loss of any freshly initialized model
            logits = cls.model(pixels.float() / 255)
        cls.loss = torch.nn.functional.cross_entropy(logits, labels.long()).item()
        cls.accuracy = (logits.argmax(1) == labels).double().mean().item()

    def first_eval(self, text):
        job = self.run_job(text)
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        segment = self.service.read("job", "points", job["id"])["segments"][0]
        return job, segment["evals"][0]

    def test_first_evaluation_is_pytorchs_in_every_policy(self):
        save_file(self.model.state_dict(), self.root / "model.safetensors", metadata={"format": "pt"})
        for preset, tolerance in TOLERANCE.items():
            scale = ", loss_scale: {static: {scale: 128}}" if "fp16" in preset else ""
            with self.subTest(preset):
                job, point = self.first_eval(JOB.replace("preset: fp32", f"preset: {preset}{scale}"))
                print(f"  {preset}: {point['loss']}, PyTorch {self.loss}", flush=True)
                self.assertLess(abs(point["loss"] / self.loss - 1), tolerance)
                loaded, = self.told(job, "WEIGHTS_LOADED")
                self.assertEqual(loaded["attributes"], {"num_tensors": "6", "num_bytes": str(NUM_BYTES)})
        _, point = self.first_eval(JOB)
        self.assertEqual(point["accuracy"], self.accuracy)

    def test_halves_and_averages_begin_with_the_files_weights(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64):
            save_file({name: tensor.to(dtype) for name, tensor in self.model.state_dict().items()},
                      self.root / "model.safetensors")
            _, point = self.first_eval(JOB.replace("{learning_rate: 1e-30}}", "{learning_rate: 1e-30}, ema_decay: 0.999}"))
            self.assertLess(abs(point["loss"] / self.loss - 1), 5e-3, dtype)

    def test_what_the_service_saves_loads_in_python_as_it_was(self):
        save_file(self.model.state_dict(), self.root / "model.safetensors")
        job, _ = self.first_eval(JOB)
        saved = next(self.service.folder.rglob(f"{job['checkpoints'][-1]['path']}/model.safetensors"))
        again = Mlp()
        again.load_state_dict(load_file(saved))
        for name, tensor in self.model.state_dict().items():
            self.assertTrue(torch.equal(tensor, again.state_dict()[name]), name)
        exported = self.root / "exported.safetensors"
        code, _, err = self.service.ampctl("checkpoint", "export", str(saved.parent), str(exported))
        self.assertEqual(code, 0, err)
        with safe_open(exported, "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})
            for name, tensor in self.model.state_dict().items():
                self.assertTrue(torch.equal(tensor, file.get_tensor(name)), name)
        code, verdicts, _ = self.service.ampctl("checkpoint", "verify", "--recorded", str(saved.parent))
        self.assertEqual((code, verdicts.count(" ok\n")), (0, 3), verdicts)

    def test_names_of_another_model_are_listed(self):
        save_file({name.replace("layers.4", "head"): tensor for name, tensor in self.model.state_dict().items()},
                  self.root / "model.safetensors")
        final = self.service.finished(self.service.submit(JOB))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", "DATA_ERROR"), final.get("message"))
        self.assertEqual(final.get("numAttempts", 1), 1, "it was tried again")
        self.assertIn("2 missing (layers.4.bias, layers.4.weight), 2 extra (head.bias, head.weight)", final["message"])
        self.expect_clean_line(final["message"])
        _, log, _ = self.service.ampctl("job", "logs", final["id"])
        self.assertIn("initial weights, extra: head.weight", log)
        named = JOB.replace("model.safetensors}", "model.safetensors, initialize_anew: [layers.4.*, head.*]}")
        self.assertEqual(self.run_job(named)["state"], "SUCCEEDED")


if __name__ == "__main__":
    main()
