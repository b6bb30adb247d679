#!/usr/bin/env python3
"""Exported models with each loss head, and one that leaves the length of texts open, trained and evaluated by the service, against PyTorch on the weights they end with.

Usage: exported_heads_service_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their
ids.
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

SAMPLES, FEATURES, NUMBERS, WORDS, LENGTH, CLASSES = 90, 12, 3, 32, 8, 4
JOB = """
name: head
model: {{exported: {{path: root/{model}{more}}}}}
data:
  train: {data}
  eval: {data}
  batch_size: 30
  eval_batch_size: 32
precision: {{preset: {preset}}}
optimizer: {{adamw: {{learning_rate: 0.02}}}}
train: {{steps: 60, num_threads: 1, seed: 2}}
eval: {{every_steps: 20}}
"""
NPZ = "{npz: {file: root/numbers.npz}}"
TENSORS = "{safetensors: {file: root/decisions.safetensors}}"
JSONL = f"{{jsonl: {{path: root/texts.jsonl, sequence_length: {LENGTH}}}}}"


class Net(torch.nn.Module):
    def __init__(self, results=NUMBERS):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, results))

    def forward(self, images):
        return self.body(images)


class TextLoss(torch.nn.Module):
    """Makes its loss itself, with names of its own for what it takes."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16)
        self.head = torch.nn.Linear(16, CLASSES)

    def forward(self, words, target):
        logits = self.head(self.table(words).mean(1))
        return functional.cross_entropy(logits, target, label_smoothing=0.1)


class TextClasses(torch.nn.Module):
    """Of a text of any length, with a vector for each of its first twelve positions."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16)
        self.places = torch.nn.Embedding(12, 16)
        self.inner = torch.nn.Linear(16, 48)
        self.head = torch.nn.Linear(16, CLASSES)

    def forward(self, input_ids):
        length = input_ids.shape[1]
        words = self.table(input_ids) + self.places(torch.arange(length))
        query, key, value = (part.view(-1, length, 2, 8).transpose(1, 2) for part in self.inner(words).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(-1, length, 16)
        return self.head((words + mixed).mean(1))


class OwnLoss(Net):
    def forward(self, images, labels):
        return functional.mse_loss(self.body(images), labels)


def macro_f1(predicted, wanted, classes):
    """By its definition, a class at a time; 0 where there is nothing to count."""
    scores = []
    for one in range(classes):
        hits = int((predicted[one] & wanted[one]).sum())
        scores.append(2 * hits / max(1, int(predicted[one].sum()) + int(wanted[one].sum())))
    return sum(scores) / classes


class Heads(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.manual_seed(5)
        cls.features = torch.randn(SAMPLES, FEATURES)
        cls.numbers = torch.sin(cls.features @ torch.randn(FEATURES, NUMBERS) / 3)
        cls.decisions = cls.numbers > 0.4
        numpy.savez(cls.root / "numbers.npz", images=cls.features.numpy(), labels=cls.numbers.double().numpy())
        save_file({"images": cls.features, "labels": cls.decisions}, cls.root / "decisions.safetensors")
        cls.classes = torch.randint(0, CLASSES, (SAMPLES,))
        cls.words = torch.randint(CLASSES, WORDS, (SAMPLES, LENGTH))
        cls.words[:, 1] = cls.classes  # what is to be learned
        with open(cls.root / "texts.jsonl", "w") as file:
            for words, label in zip(cls.words.tolist(), cls.classes.tolist()):
                file.write(json.dumps({"input_ids": words, "label": label}) + "\n")
        ampd.export(Net(), (torch.zeros(4, FEATURES),), cls.root / "net.pt2")
        ampd.export(OwnLoss(), (torch.zeros(4, FEATURES), torch.zeros(4, NUMBERS)), cls.root / "own.pt2")
        ampd.export(TextLoss(), (cls.words[:4], cls.classes[:4]), cls.root / "text.pt2")
        for most, name in ((12, "open"), (6, "short")):
            length = torch.export.Dim("length", min=2, max=most)
            ampd.export(TextClasses(), (cls.words[:4, :5],), cls.root / f"{name}.pt2", dynamic=({1: length},))

    def trained(self, module, **job):
        """The evaluations and the module with the weights that training ended with."""
        final = self.run_job(JOB.format(**{"preset": "fp32", **job}))
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        evals = [point for segment in self.service.read("job", "points", final["id"])["segments"]
                 for point in segment["evals"]]
        saved = next(self.service.folder.rglob(f"{final['checkpoints'][-1]['path']}/model.safetensors"))
        module.load_state_dict(load_file(saved))
        print(f"  loss {evals[0]['loss']:.3f} to {evals[-1]['loss']:.3f}", flush=True)
        self.assertLess(evals[-1]["loss"], 0.7 * evals[0]["loss"])
        self.assertEqual(final["attempts"][-1]["outcome"]["finalMetrics"]["evalLoss"], evals[-1]["loss"])
        return final, evals[-1], module.eval()

    def assert_close(self, ours, theirs):
        self.assertLess(abs(ours / theirs - 1), 1e-5, f"{ours} is not {theirs}")

    @torch.no_grad()
    def test_regression_tells_its_loss_and_no_accuracy(self):
        for preset in ("bf16", "fp32"):
            final, point, net = self.trained(Net(), model="net.pt2", more=", head: REGRESSION", data=NPZ, preset=preset)
        self.assert_close(point["loss"], functional.mse_loss(net(self.features), self.numbers).item())
        self.assertEqual(int(point["numSamples"]), SAMPLES)
        for absent in ("accuracy", "f1", "perplexity"):
            self.assertNotIn(absent, point)
        self.assertNotIn("evalAccuracy", final["progress"])
        shown = self.service.ampctl("job", "show", final["id"])[1]
        self.assertIn("eval loss", shown)
        self.assertNotIn("accuracy", shown)

    @torch.no_grad()
    def test_multi_label_counts_every_decision(self):
        final, point, net = self.trained(Net(), model="net.pt2", more=", head: MULTI_LABEL", data=TENSORS)
        logits = net(self.features)
        self.assert_close(point["loss"], functional.binary_cross_entropy_with_logits(logits, self.decisions.float()).item())
        predicted = logits > 0
        self.assertEqual(point["accuracy"], (predicted == self.decisions).double().mean().item())
        self.assertEqual(int(point["numSamples"]), SAMPLES)
        self.assert_close(point["f1"], macro_f1(predicted.T, self.decisions.T, NUMBERS))
        self.assertEqual(final["progress"]["evalF1"], point["f1"])
        self.assertIn("F1 ", self.service.ampctl("job", "show", final["id"])[1])

    @torch.no_grad()
    def test_a_model_makes_its_own_loss_of_labels_that_it_takes(self):
        _, point, net = self.trained(TextLoss(), model="text.pt2", data=JSONL,
                                     more=", head: OWN_LOSS, inputs: {words: input_ids, target: labels}")
        self.assert_close(point["loss"], net(self.words, self.classes).item())
        self.assertNotIn("accuracy", point)
        self.assertNotIn("perplexity", point)

    @torch.no_grad()
    def test_the_length_of_texts_is_the_jobs_where_the_model_leaves_it_open(self):
        _, point, net = self.trained(TextClasses(), model="open.pt2", more="", data=JSONL)
        self.assert_close(point["loss"], functional.cross_entropy(net(self.words), self.classes).item())
        self.refused("SPEC_ERROR", f"sequence length is {LENGTH}", "was exported for 2 to 6", model="short.pt2", more="",
                     data=JSONL)

    def refused(self, reason, *words, **job):
        final = self.service.finished(self.service.submit(JOB.format(preset="fp32", **job)))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final.get("message"))
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])

    def test_what_a_head_does_not_take_is_told_in_a_line(self):
        self.refused("DATA_ERROR", "float64 of (90, 3)", "the head REGRESSION", model="net.pt2", more="", data=NPZ)
        self.refused("SPEC_ERROR", "the head OWN_LOSS takes a scalar", model="net.pt2", more=", head: OWN_LOSS", data=NPZ)
        self.refused("DATA_ERROR", "sample 0 has a label that is", "it must be 0 or 1", model="net.pt2",
                     more=", head: MULTI_LABEL", data=NPZ)
        broken = self.numbers.clone()
        broken[7, 1] = float("nan")
        numpy.savez(self.root / "broken.npz", images=self.features.numpy(), labels=broken.numpy())
        self.refused("DATA_ERROR", "sample 7 has a label that is nan", model="net.pt2", more=", head: REGRESSION",
                     data=NPZ.replace("numbers", "broken"))
        self.refused("SPEC_ERROR", "a sample's label is int64 of () and the model takes float32 of (3)", model="own.pt2",
                     more=", head: OWN_LOSS",
                     data=f"{{synthetic: {{shape: [{FEATURES}], num_classes: 4, num_samples: 90}}}}")


if __name__ == "__main__":
    main()
