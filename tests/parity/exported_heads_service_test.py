#!/usr/bin/env python3
"""Tests exported models with each loss head, and one with texts of any length: the service trains and evaluates them,
and PyTorch evaluates the same final weights.

Usage: exported_heads_service_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their
ids.
"""
import copy
import json
import math
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parents[1] / "client" / "python")]

import numpy
import torch
from safetensors.torch import load_file, save_file, save_model
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
GAN = """
name: gan
model: {{exported: {{path: root/gan.pt2, head: GAN}}}}
data:
  train: {{idx: {{images: root/bars, mean: 0.5, std: 0.5}}}}
  batch_size: 16
precision: {{preset: {preset}}}
optimizer: {{adam: {{learning_rate: 0.002, beta1: 0.5}}}}
train: {{steps: 40, num_threads: 1, seed: 2{more}}}
"""
TAGGED = "{safetensors: {file: root/tagged.safetensors}}"
UNEVEN = """
name: uneven
model: {{exported: {{path: root/{model}, head: OWN_LOSS{more}}}}}
data:
  train: {{safetensors: {{file: root/tagged.safetensors}}}}
  eval: {{safetensors: {{file: root/tagged.safetensors}}}}
  batch_size: 60
  eval_batch_size: 32
  keep_order: true
precision: {{preset: fp32}}
optimizer: {{sgd: {{learning_rate: 0.5}}}}
train: {{steps: 4, num_threads: 1, seed: 2, gradient_accumulation: {parts}}}
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
    """Computes its loss itself, with its own names for its inputs."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16, sparse=True)
        self.head = torch.nn.Linear(16, CLASSES)

    def forward(self, words, target):
        logits = self.head(self.table(words).mean(1))
        return functional.cross_entropy(logits, target, label_smoothing=0.1)


class TextClasses(torch.nn.Module):
    """Classifies a text of any length, with a vector for each of its first twelve positions."""

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
        mixed = self.attention(query, key, value).transpose(1, 2).reshape(-1, length, 16)
        return self.head((words + mixed).mean(1))

    def attention(self, query, key, value):
        return functional.scaled_dot_product_attention(query, key, value)


class Chooser(torch.nn.Module):
    """Computes a loss over labels of which some are ignored. One column of the input chooses rows of a table."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.head = torch.nn.Linear(16, CLASSES)

    def forward(self, words, labels):
        return functional.cross_entropy(self.head(self.norm(self.table(words[:, 1]))), labels)


class TokenLoss(torch.nn.Module):
    """Predicts a class for each position. Returns the loss over the labels that are not ignored, and how many those
    are."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, 16)
        self.head = torch.nn.Linear(16, CLASSES)

    def forward(self, input_ids, labels):
        logits = self.head(self.table(input_ids))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), (labels != -100).sum()


class NormByHand(Net):
    """A norm written by hand, of values so large that in fp16 their squares are infinite, and the inverse of the root
    is 0."""

    def __init__(self):
        super().__init__(CLASSES)
        self.norm = RootMeanSquare()
        torch.nn.init.normal_(self.body[0].weight, std=300)
        self.body[1] = torch.nn.Identity()

    def forward(self, images):
        return self.body[2](self.norm(self.body[0](images)))


class LogOfNegative(Net):
    """A logarithm of negative numbers, which fp16 computes in fp32."""

    def __init__(self):
        super().__init__(CLASSES)

    def forward(self, images):
        return self.body[2](torch.log(-1 - self.body[0](images).abs()))


class RootMeanSquare(torch.nn.Module):
    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


class OwnLoss(Net):
    def forward(self, images, labels):
        return functional.mse_loss(self.body(images), labels)


class Gan(torch.nn.Module):
    """Two networks with a hand-written loss (least squares), noise in its own shape, and a norm in the generator."""

    def __init__(self):
        super().__init__()
        self.generator = torch.nn.Sequential(
            torch.nn.ConvTranspose2d(6, 8, 4), torch.nn.BatchNorm2d(8), torch.nn.ReLU(True),
            torch.nn.ConvTranspose2d(8, 1, 2, 2), torch.nn.Tanh())
        self.discriminator = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 4, 2, 1), torch.nn.LeakyReLU(0.2), torch.nn.Flatten(), torch.nn.Linear(128, 1))

    def forward(self, images, noise):
        fake = self.generator(noise)
        of_real, of_constant = self.discriminator(images), self.discriminator(fake.detach())
        return ((of_real - 1) ** 2).mean() + (of_constant ** 2).mean(), ((self.discriminator(fake) - 1) ** 2).mean()


def macro_f1(predicted, wanted, classes):
    """Computes the score by its definition, one class at a time; 0 if there is nothing to count."""
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
        bars = b"".join(bytes(255 if row == sample % 8 else 0 for row in range(8) for _ in range(8)) for sample in range(96))
        (cls.root / "bars").write_bytes(struct.pack(">4I", 0x803, 96, 8, 8) + bars)
        ampd.export(Gan(), (torch.zeros(4, 1, 8, 8), torch.zeros(4, 6, 1, 1)), cls.root / "gan.pt2")
        cls.classes = torch.randint(0, CLASSES, (SAMPLES,))
        cls.words = torch.randint(CLASSES, WORDS, (SAMPLES, LENGTH))
        cls.words[:, 1] = cls.classes  # the relation to learn
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
        """Trains with the service. Returns the evaluations, and the module with the weights after training."""
        final = self.run_job(JOB.format(**{"preset": "fp32", **job}))
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        evals = [point for segment in self.service.read("job", "points", final["id"])["segments"]
                 for point in segment["evals"]]
        self.load_exported(module, final)
        self.assertEqual(self.faults(final), [])
        print(f"  loss {evals[0]['loss']:.3f} to {evals[-1]['loss']:.3f}", flush=True)
        self.assertLess(evals[-1]["loss"], 0.7 * evals[0]["loss"])
        self.assertEqual(final["attempts"][-1]["outcome"]["finalMetrics"]["evalLoss"], evals[-1]["loss"])
        return final, evals[-1], module.eval()

    def load_exported(self, module, job):
        """Loads the trained weights as a user does: the file that `checkpoint export` writes has exactly the names of
        the Python module."""
        saved = next(self.service.folder.rglob(job["checkpoints"][-1]["path"]))
        code, _, err = self.service.ampctl("checkpoint", "export", "--force", str(saved), str(self.root / "exported"))
        self.assertEqual(code, 0, err)
        module.load_state_dict(load_file(self.root / "exported"), strict=True)

    def assert_close(self, ours, theirs):
        self.assertLess(abs(ours / theirs - 1), 1e-5, f"{ours} is not {theirs}")

    @torch.no_grad()
    def test_regression_tells_its_loss_and_no_accuracy(self):
        for preset in ("bf16", "fp32"):
            final, point, net = self.trained(Net(), model="net.pt2", more=", head: REGRESSION", data=NPZ, preset=preset)
        self.assert_close(point["loss"], functional.mse_loss(net(self.features), self.numbers).item())
        self.assertEqual(int(point["numSamples"]), SAMPLES)
        for absent in ("accuracy", "top5Accuracy", "f1", "perplexity"):
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
        self.assertNotIn("top5Accuracy", point)
        self.assertIn("F1 ", self.service.ampctl("job", "show", final["id"])[1])

    @torch.no_grad()
    def test_a_model_makes_its_own_loss_of_labels_that_it_takes(self):
        _, point, net = self.trained(TextLoss(), model="text.pt2", data=JSONL,
                                     more=", head: OWN_LOSS, inputs: {words: input_ids, target: labels}")
        self.assert_close(point["loss"], net(self.words, self.classes).item())
        for absent in ("accuracy", "top5Accuracy", "perplexity"):
            self.assertNotIn(absent, point)

    @torch.no_grad()
    def test_the_length_of_texts_is_the_jobs_where_the_model_leaves_it_open(self):
        _, point, net = self.trained(TextClasses(), model="open.pt2", more="", data=JSONL)
        self.assert_close(point["loss"], functional.cross_entropy(net(self.words), self.classes).item())
        self.assertIn("accuracy", point)
        self.assertNotIn("top5Accuracy", point)  # there are only four classes
        self.refused("SPEC_ERROR", f"sequence length is {LENGTH}", "was exported for 2 to 6", model="short.pt2", more="",
                     data=JSONL)

    def test_a_model_of_transformers_learns_a_text_of_the_jobs_length(self):
        from transformers import GPT2Config, GPT2LMHeadModel  # takes seconds

        class Text(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = GPT2LMHeadModel(GPT2Config(
                    vocab_size=WORDS, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
                    attn_pdrop=0, use_cache=False))

            def forward(self, input_ids):
                return self.model(input_ids=input_ids).logits

        length = torch.export.Dim("length", min=2, max=16)
        ampd.export(Text(), (torch.zeros(4, 5, dtype=torch.int64),), self.root / "gpt2.pt2", dynamic=({1: length},))
        text = [(7 * place * place + place // 3) % WORDS for place in range(SAMPLES * LENGTH + 1)]
        (self.root / "text.bin").write_bytes(struct.pack(f"<{len(text)}H", *text))
        source = f"{{tokens: {{path: root/text.bin, format: UINT16, sequence_length: {LENGTH}}}}}"
        windows = torch.tensor(text[:-1]).view(SAMPLES, LENGTH), torch.tensor(text[1:]).view(SAMPLES, LENGTH)
        for preset in ("fp16", "bf16", "fp32"):  # GPT-2's head is tied to its embedding table; masks come from the file
            _, point, model = self.trained(Text(), model="gpt2.pt2", more=", head: LANGUAGE_MODEL", data=source,
                                           preset=preset)
        self.expect_begins_with(model, point["loss"], model="gpt2.pt2", more=", head: LANGUAGE_MODEL", data=source)
        with torch.no_grad():
            loss = functional.cross_entropy(model(windows[0]).flatten(0, 1), windows[1].flatten()).item()
        self.assert_close(point["loss"], loss)
        self.assert_close(point["perplexity"], math.exp(loss))
        self.refused("SPEC_ERROR", "sequence length is 17", model="gpt2.pt2", more="", data=source.replace(
            f"sequence_length: {LENGTH}", "sequence_length: 17"))

    def expect_begins_with(self, module, loss, **job):
        """Runs jobs that start from a weights file that Python saved: once with tied tensors saved a single time, once
        with them saved under each name."""
        state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        save_model(module, str(self.root / "once"))
        save_file(state, self.root / "twice")
        self.assertLess(len(load_file(self.root / "once")), len(state))
        for name in ("once", "twice"):
            spec = JOB.format(preset="fp32", **job).replace("{adamw: {learning_rate: 0.02}}", "{sgd: {learning_rate: 1e-30}}")
            spec = spec.replace("steps: 60", "steps: 1").replace("{exported:", f"{{initial_weights: root/{name}, exported:")
            final = self.run_job(spec)
            self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
            self.assert_close(final["attempts"][-1]["outcome"]["finalMetrics"]["evalLoss"], loss)

    @torch.no_grad()
    def test_attention_that_drops_weights_drops_none_in_evaluation(self):
        """The exported file has only the training program, from which the service derives the evaluation."""
        class Dropping(TextClasses):
            def attention(self, query, key, value):
                return functional.scaled_dot_product_attention(query, key, value, dropout_p=0.3)

        program = torch.export.export(Dropping(), (self.words[:4],), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, self.root / "dropping.pt2")
        for preset in ("fp16", "bf16", "fp32"):
            _, point, net = self.trained(TextClasses(), model="dropping.pt2", more="", data=JSONL, preset=preset)
        self.assert_close(point["loss"], functional.cross_entropy(net(self.words), self.classes).item())
        spec = JOB.format(model="dropping.pt2", more="", data=JSONL, preset="fp32").replace(
            "batch_size: 30", "batch_size: 30\n  keep_order: true", 1)
        first, again, other = (self.losses(self.run_job(spec.replace("seed: 2", f"seed: {seed}"))) for seed in (2, 2, 3))
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], other[0], "what is dropped does not follow train.seed")

    def test_two_networks_are_trained_against_each_other(self):
        for preset in ("bf16", "fp32"):
            final = self.run_job(GAN.format(preset=preset, more=""))
            self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
            columns = [segment["steps"] for segment in self.service.read("job", "points", final["id"])["segments"]]
            losses = [loss for steps in columns for loss in steps["loss"]]
            self.assertEqual(len(losses), 40)
            self.assertEqual(len([loss for steps in columns for phase in steps["phases"]
                                  if phase["name"] == "generator" for loss in phase["loss"]]), 40)
            self.assertLess(losses[-1], 0.8 * losses[0], "the discriminator learns")
            self.assertEqual([phase["name"] for phase in final["progress"]["phases"]], ["discriminator", "generator"])
        saved = load_file(next(self.service.folder.rglob(f"{final['checkpoints'][-1]['path']}/model.safetensors")))
        model = Gan()
        self.assertEqual(set(saved), set(model.state_dict()))
        model.load_state_dict(saved)
        self.assertEqual(saved["generator.1.num_batches_tracked"], 40)
        images = model.eval().generator(torch.randn(3, 6, 1, 1))
        self.assertEqual(images.shape, (3, 1, 8, 8))
        code, _, message = self.service.ampctl("job", "submit", "-f", "-",
                                               text=GAN.format(preset="fp32", more=", replay_skipped: true"))
        self.assertNotEqual(code, 0)
        self.assertIn("train.replay_skipped: would train the networks of model.exported", message)

    def test_an_overflow_that_becomes_zero_is_named(self):
        ampd.export(NormByHand(), (torch.zeros(4, FEATURES),), self.root / "norm.pt2")
        numpy.savez(self.root / "classes.npz", images=self.features.numpy(), labels=self.classes.numpy())
        job = JOB.format(model="norm.pt2", more="", data=NPZ.replace("numbers", "classes"), preset="fp16")
        final = self.run_job(job)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        fault, = self.faults(final)
        told = fault["attributes"]
        self.assertEqual((told["kind"], told["module"], told["op"], told["dtype"]),
                         ("DIVIDED_OUT", "norm", "aten.mul.Tensor", "float16"))
        self.assertEqual((told["zero_module"], told["zero_op"]), ("norm", "aten.rsqrt.default"))
        self.expect_clean_line(fault["message"])
        cured = job.replace("preset: fp16", "preset: fp16, op_rules: [{match: aten.mul.Tensor, policy: fp32}]")
        self.assertEqual(self.faults(self.run_job(cured)), [])

    def test_a_fault_in_fp32_of_a_job_in_fp16_is_looked_for_in_the_model(self):
        ampd.export(LogOfNegative(), (torch.zeros(4, FEATURES),), self.root / "log.pt2")
        numpy.savez(self.root / "classes.npz", images=self.features.numpy(), labels=self.classes.numpy())
        final = self.run_job(JOB.format(model="log.pt2", more="", data=NPZ.replace("numbers", "classes"), preset="fp16"))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", "NONFINITE_LOSS"), final["message"])
        fault, = self.faults(final)
        self.assertEqual((fault["attributes"]["op"], fault["attributes"]["dtype"]), ("aten.log.default", "float32"))
        self.assertIn("look at the model's divisions, roots, logarithms and exponentials; if float16 has rounded their "
                      "inputs to 0, use a preset of bf16 or fp32", final["message"])

    def faults(self, job):
        events = self.service.read("job", "events", job["id"])["events"]
        return [event for event in events if event["kind"] == "ACTIVATION_FAULT"]

    def test_micro_batches_weigh_what_they_count(self):
        from transformers import BertConfig, BertForTokenClassification  # takes seconds

        class Bert(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = BertForTokenClassification(BertConfig(
                    vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                    max_position_embeddings=LENGTH, num_labels=CLASSES, hidden_dropout_prob=0,
                    attention_probs_dropout_prob=0))

            def forward(self, input_ids, labels):
                return self.model(input_ids=input_ids, labels=labels).loss, (labels != -100).sum()

        labels = torch.randint(0, CLASSES, self.words.shape)
        lengths = torch.arange(SAMPLES) % LENGTH + 1
        labels[torch.arange(LENGTH) >= lengths.sort().values[:, None]] = -100  # the first texts have few labels
        save_file({"input_ids": self.words, "labels": labels}, self.root / "tagged.safetensors")
        for module, name in ((TokenLoss(), "tokens.pt2"), (Bert(), "bert.pt2")):
            ampd.export(module, (self.words[:4], labels[:4]), self.root / name)
            expected = module(self.words[:60], labels[:60])[0].item()
            for parts, more in ((1, ""), (4, ", count_output: 1"), (4, "")):
                final = self.run_job(UNEVEN.format(model=name, parts=parts, more=more))
                self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
                segments = self.service.read("job", "points", final["id"])["segments"]
                steps = [loss for segment in segments for loss in segment["steps"]["loss"]]
                warned = [event for event in self.service.read("job", "events", final["id"])["events"]
                          if "may have different numbers of labels" in event.get("message", "")]
                counts = parts == 1 or more
                self.assertEqual(len(warned), 0 if more else 1, "of the micro-batches, or of the evaluation's batches")
                self.assertEqual(abs(steps[0] / expected - 1) < 1e-6, bool(counts), (steps[0], expected, parts, more))
                if parts == 1:
                    whole = steps
                self.assertEqual(max(abs(a / b - 1) for a, b in zip(steps, whole)) < 1e-5, bool(counts), (steps, whole))
                trained = copy.deepcopy(module)
                self.load_exported(trained, final)
                with torch.no_grad():
                    of_all = trained.eval()(self.words, labels)[0].item()
                self.assertEqual(abs(segments[-1]["evals"][-1]["loss"] / of_all - 1) < 1e-6, bool(more))

        class LossTwice(TokenLoss):
            def forward(self, input_ids, labels):
                loss = super().forward(input_ids, labels)[0]
                return loss, loss * 2

        ampd.export(LossTwice(), (self.words[:4], labels[:4]), self.root / "twice.pt2")
        self.refused("SPEC_ERROR", "model.exported.count_output 1 depends on the parameter ", model="twice.pt2",
                     more=", head: OWN_LOSS, count_output: 1", data=TAGGED)

    def refused(self, reason, *words, **job):
        final = self.service.finished(self.service.submit(JOB.format(preset="fp32", **job)))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final.get("message"))
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])

    def test_what_a_head_does_not_take_is_reported_in_a_line(self):
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

    def test_numbers_that_no_loss_can_be_made_of_are_reported_by_their_source(self):
        ampd.export(Chooser(), (self.words[:4], self.classes[:4]), self.root / "chooser.pt2")
        broken = Net()
        broken.body[2].weight.data[1, 2] = float("nan")
        program = torch.export.export(broken, (self.features[:4],), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, self.root / "broken.pt2")
        self.refused("DATA_ERROR", "model.exported.path", "parameter body.2.weight has 1 element that is not finite",
                     model="broken.pt2", more=", head: REGRESSION", data=NPZ)

        def refused(reason, *words, words_of=self.words, labels=self.classes, change=("", "")):
            numpy.savez(self.root / "chosen.npz", words=words_of.numpy(), labels=labels.numpy())
            spec = JOB.format(preset="fp32", model="chooser.pt2", more=", head: OWN_LOSS", data="{npz: {file: root/chosen.npz}}")
            final = self.service.finished(self.service.submit(spec.replace(*change)))
            self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final.get("message"))
            for word in words:
                self.assertIn(word, final["message"])
            self.expect_clean_line(final["message"])

        refused("DATA_ERROR", "the loss of step 1 is not finite", "ignores every label",
                labels=torch.full_like(self.classes, -100))
        labels = self.classes.clone()
        labels[5] = CLASSES
        refused("DATA_ERROR", f"sample 5 has a label that is {CLASSES}; the model takes 0 to {CLASSES - 1}, and -100",
                labels=labels)
        words = self.words.clone()
        words[7, 1] = WORDS
        refused("DATA_ERROR", "outside the range that the model accepts", "aten.embedding.default of table", words_of=words)
        refused("SPEC_ERROR", "data.batch_size", "aten.batch_norm.default of norm has 1 value a channel",
                change=("batch_size: 30", "batch_size: 1"))


if __name__ == "__main__":
    main()
