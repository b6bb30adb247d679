#!/usr/bin/env python3
"""Tests exported models with several inputs on files with several arrays: the service trains and evaluates them, and
the results are compared with PyTorch's own loop over the same batches.

Usage: exported_fields_service_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by
their ids.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parents[1] / "client" / "python")]

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

import ampd
from service_case import DataRootCase, main

SAMPLES, BATCH, NUMBERS, COLUMNS, ROWS, CLASSES, STEPS = 96, 32, 13, 26, 40, 3, 24
JOB = """
name: fields
model: {{exported: {{{model}}}}}
data:
  train: {data}
  eval: {data}
  batch_size: {batch}
  eval_batch_size: 40
  keep_order: {keep_order}
precision: {{preset: {preset}}}
optimizer: {{adamw: {{learning_rate: 0.01}}}}
train: {{steps: {steps}, num_threads: 1, seed: 2, gradient_accumulation: {parts}}}
eval: {{every_steps: {every}}}
checkpoint: {{every_steps: {every}, keep: 2}}
"""
NPZ = "{npz: {file: root/clicks.npz, labels: clicked}}"
TENSORS = "{safetensors: {file: root/scenes.safetensors, images: pixels, labels: kind, mean: [0.5], std: [0.25]}}"


class Tower(torch.nn.Module):
    """A model with numbers and categories as inputs, like models that predict clicks."""

    def __init__(self):
        super().__init__()
        self.bottom = torch.nn.Sequential(torch.nn.Linear(NUMBERS, 16), torch.nn.ReLU())
        self.table = torch.nn.Embedding(ROWS, 8)
        self.top = torch.nn.Linear(24, CLASSES)

    def forward(self, numeric, categories):
        return self.top(torch.cat((self.bottom(numeric), self.table(categories).mean(1)), 1))


class Scene(torch.nn.Module):
    """A model with three inputs: a picture, facts about it, and a mask of the known facts."""

    def __init__(self):
        super().__init__()
        self.picture = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(256, 8))
        self.head = torch.nn.Linear(12, CLASSES)

    def forward(self, known, facts, x):
        return self.head(torch.cat((self.picture(x), facts.masked_fill(~known, 0)), 1))


class Fields(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.set_num_threads(1)
        torch.manual_seed(5)
        cls.numeric = torch.randn(SAMPLES, NUMBERS)
        cls.categories = torch.randint(0, ROWS, (SAMPLES, COLUMNS))
        cls.clicked = torch.randint(0, CLASSES, (SAMPLES,))
        cls.numeric[:, 0] += cls.clicked  # the relation to learn
        cls.categories[:, ::2] = cls.clicked.unsqueeze(1) + 3
        cls.write("clicks.npz")
        cls.tower = Tower()
        ampd.export(cls.tower, (cls.numeric[:4], cls.categories[:4]), cls.root / "tower.pt2")
        cls.pixels = torch.randint(0, 256, (SAMPLES, 8, 8), dtype=torch.uint8)
        cls.facts, cls.known = torch.randn(SAMPLES, 4) + cls.clicked.unsqueeze(1), torch.rand(SAMPLES, 4) < 0.7
        save_file({"pixels": cls.pixels, "facts": cls.facts, "known": cls.known, "kind": cls.clicked},
                  cls.root / "scenes.safetensors")
        cls.scene = Scene()
        ampd.export(cls.scene, (cls.known[:4], cls.facts[:4], torch.zeros(4, 1, 8, 8)), cls.root / "scene.pt2")

    @classmethod
    def write(cls, name, **changed):
        """Writes a data file whose integers are narrower than the model's inputs, and which has an array that no model
        reads."""
        arrays = {"numeric": cls.numeric.numpy(), "categories": cls.categories.numpy().astype("int32"),
                  "clicked": cls.clicked.numpy(), "notes": numpy.zeros((3, 7), "complex64")} | changed
        numpy.savez_compressed(cls.root / name, **{key: array for key, array in arrays.items() if array is not None})

    def job(self, model="path: root/tower.pt2", data=NPZ, **more):
        return JOB.format(**({"model": model, "data": data, "batch": BATCH, "keep_order": "true", "preset": "fp32",
                              "steps": STEPS, "parts": 1, "every": 8} | more))

    def trained(self, module, text):
        """Trains with the service. Returns the evaluations, and the module with the weights after training."""
        final = self.run_job(text)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        evals = [point for segment in self.service.read("job", "points", final["id"])["segments"]
                 for point in segment["evals"]]
        print(f"  loss {evals[0]['loss']:.3f} to {evals[-1]['loss']:.3f}", flush=True)
        self.assertLess(evals[-1]["loss"], 0.8 * evals[0]["loss"])
        saved = next(self.service.folder.rglob(f"{final['checkpoints'][-1]['path']}/model.safetensors"))
        module.load_state_dict(load_file(saved))
        return final, evals[-1], module.eval()

    def loop(self, module, inputs):
        """Trains in PyTorch and returns the loss of each step."""
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        losses = []
        for step in range(STEPS):
            rows = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
            loss = functional.cross_entropy(module.train()(*(tensor[rows] for tensor in inputs)), self.clicked[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def expect_as_python(self, ours, theirs, inputs, final, point):
        """Compares the service's training with a training in PyTorch. `ours`: the module as the service trained it.
        `theirs`: the module with the exported weights."""
        for mine, wanted in zip(self.losses(final), self.loop(theirs, inputs), strict=True):
            self.assertLess(abs(mine / wanted - 1), 1e-5)
        for name, wanted in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], wanted, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            logits = ours(*inputs)
        self.assertLess(abs(point["loss"] / functional.cross_entropy(logits, self.clicked).item() - 1), 1e-5)
        self.assertEqual(point["accuracy"], (logits.argmax(1) == self.clicked).double().mean().item())
        self.assertEqual(int(point["numSamples"]), SAMPLES)

    def test_arrays_of_an_npz_train_a_model_as_python_does(self):
        final, point, ours = self.trained(Tower(), self.job())
        self.expect_as_python(ours, self.tower, (self.numeric, self.categories), final, point)
        halves = self.run_job(self.job(parts=2))
        for one, other in zip(self.losses(final), self.losses(halves), strict=True):
            self.assertLess(abs(one / other - 1), 1e-4, "every field is cut with the batch")
        self.trained(Tower(), self.job(preset="bf16"))

    def test_a_picture_and_what_is_known_of_it_come_from_a_file_of_tensors(self):
        final, point, ours = self.trained(Scene(), self.job("path: root/scene.pt2, inputs: {x: images}", TENSORS))
        images = ((self.pixels.float() / 255 - 0.5) / 0.25).unsqueeze(1)
        self.expect_as_python(ours, self.scene, (self.known, self.facts, images), final, point)

    def test_other_names_are_mapped_and_an_uploaded_model_is_admitted(self):
        class Renamed(Tower):
            def forward(self, x, words):
                return super().forward(x, words)

        ampd.export(Renamed(), (self.numeric[:4], self.categories[:4]), self.root / "renamed.pt2")
        code, out, err = self.service.ampctl("artifact", "upload", "-o", "json", str(self.root / "renamed.pt2"))
        self.assertEqual(code, 0, err)
        uploaded = f"artifact: {json.loads(out)['name']}"
        self.trained(Renamed(), self.job(uploaded + ", inputs: {x: numeric, words: categories}"))
        inspected = json.loads(self.service.ampctl("model", "inspect", "-o", "json", str(self.root / "renamed.pt2"))[1])
        self.assertEqual([one["field"] for one in inspected["inputs"]], ["x", "words"])
        self.assertIn("the input words reads the array of that name", inspected["warnings"][1])
        self.expect_refusal(self.job(uploaded), "DATA_ERROR", 'has no array "x"; it has numeric, categories, clicked')
        synthetic = f"{{synthetic: {{shape: [{NUMBERS}], num_classes: {CLASSES}, num_samples: 90}}}}"
        code, _, err = self.service.ampctl("job", "submit", "-f", "-", text=self.job(uploaded, synthetic))
        self.assertNotEqual(code, 0)
        self.assertIn("the data has images and the model takes x", err)

    def test_a_killed_trainer_goes_on_with_every_field_to_the_same_bits(self):
        text = self.job(keep_order="false", steps=240, every=20, batch=20)
        whole = self.run_job(text)
        self.assertEqual(whole["state"], "SUCCEEDED", whole.get("message"))
        for _ in range(20):
            job = self.service.submit(text)
            if self.worker.kill_trainer(job, 100) is not None:
                final = self.service.finished(job)
                if final["numAttempts"] > 1:
                    break
        else:
            self.fail("every kill came after the end")
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        began = min(step.number for step in self.worker.steps(job) if step.attempt > 1)
        print(f"  went on with step {began}", flush=True)
        self.assertGreater(began, 1)
        self.assertEqual(self.service.numbers(job), self.service.numbers(whole["id"]))
        hashes = [one["attempts"][-1]["outcome"]["finalMetrics"]["stateHash"] for one in (final, whole)]
        self.assertEqual(hashes[0], hashes[1])

    def expect_refusal(self, text, reason, *words):
        final = self.service.finished(self.service.submit(text))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final.get("message"))
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])

    def test_what_an_input_does_not_take_is_reported_in_a_line(self):
        named = 'data.train.npz.file "root/odd.npz": array "categories": '
        odd = self.job(data=NPZ.replace("clicks", "odd"))
        for array, text in (
                (self.categories.numpy()[:, 1:], "int64 of (96, 25); the model's input categories takes int64 of (samples, 26)"),
                (self.categories.float().numpy(), "float32 of (96, 26); the model's input categories takes int64 of"),
                (self.categories.numpy()[:90], "categories of (90, 26) for numeric of (96, 13) in"),
                (self.categories.numpy() + 1, f"has an element that is {ROWS}; the model takes 0 to {ROWS - 1}")):
            self.write("odd.npz", categories=array)
            self.expect_refusal(odd, "DATA_ERROR", named, text)
        self.write("odd.npz", categories=None)
        self.expect_refusal(odd, "DATA_ERROR", 'it has no array "categories"; it has numeric, clicked, notes')
        self.expect_refusal(self.job(data=NPZ.replace("labels", "channels_last: true, labels")), "SPEC_ERROR",
                            "data.train.npz has mean, std or channels_last, which are of images")


if __name__ == "__main__":
    main()
