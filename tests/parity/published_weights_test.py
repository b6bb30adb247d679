#!/usr/bin/env python3
"""Tests that jobs start from weights files that transformers and torchvision saved, and that these libraries load the
files that jobs save.

Usage: published_weights_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import numpy
import torch
import torchvision
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from service_case import DataRootCase, main

VOCABULARY, LENGTH, SAMPLES, LABELS = 61, 12, 40, 3
# The rate is so small that no weight changes.
JOB = """
name: from-transformers
model: {{{model}, initial_weights: root/saved/model.safetensors}}
data: {{train: {{{data}}}, eval: {{{data}}}, batch_size: 8}}
precision: {{preset: {preset}}}
optimizer: {{sgd: {{learning_rate: 1e-30}}}}
train: {{steps: 1, num_threads: 1}}
"""
BERT = (f"bert_classifier: {{num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 4, intermediate_size: 64, "
        f"max_position_embeddings: 16, vocab_size: {VOCABULARY}, num_labels: {LABELS}}}")
GPT2 = f"gpt2: {{n_layer: 2, n_embd: 32, n_head: 4, n_positions: 16, vocab_size: {VOCABULARY}}}"
# The job reads batches in the order of the file, as the Python loop does.
IMAGES_JOB = """
name: from-torchvision
model: {{{model}, initial_weights: root/images.safetensors}}
data:
  train: {{npz: {{file: root/images.npz}}}}
  eval: {{npz: {{file: root/images.npz}}}}
  batch_size: {batch_size}
  keep_order: true
precision: {{preset: fp32}}
optimizer: {{sgd: {{learning_rate: {rate}, momentum: {momentum}}}}}
train: {{steps: {steps}, num_threads: 1}}
"""
IMAGE_BATCH, IMAGE_STEPS, RATE, MOMENTUM = 20, 3, 2**-6, 0.875
NUM_SEEN = 2  # number of batches that the norms have counted before the job
# Relative tolerance of the loss: the error of rounding weights and activations to the format.
TOLERANCE = {"fp32": 1e-6, "bf16": 1e-2, "fp16": 1e-3}
STATE_TOLERANCE = 1e-5  # for a tensor after the steps, relative to its largest element


def away_from_first_values(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return model.eval()


def away_from_alike(model):
    """Adds noise to biases and norm weights: all of them start equal, so an exchange of two would go unnoticed."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return model


def trained_in_python(model, images, labels):
    """Trains in PyTorch like the job, and returns the losses of the steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    losses = []
    for step in range(IMAGE_STEPS):
        begin = step * IMAGE_BATCH % SAMPLES
        batch = slice(begin, begin + IMAGE_BATCH)
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def distance(ours, theirs):
    """Returns the largest difference between elements, relative to the largest element."""
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


class PublishedWeights(DataRootCase):
    def evaluated(self, model, spec, data, expected):
        """Runs a job from the saved transformers model in each format. Returns the tensors that the fp32 job saved."""
        model.save_pretrained(self.root / "saved")
        for preset, tolerance in TOLERANCE.items():
            with self.subTest(preset):
                job = self.run_job(JOB.format(model=spec, data=data, preset=preset))
                self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
                final = job["attempts"][-1]["outcome"]["finalMetrics"]
                print(f"  {preset}: {final['evalLoss']}, transformers {expected}", flush=True)
                self.assertLess(abs(final["evalLoss"] / expected - 1), tolerance)
                if preset == "fp32":
                    saved = next(self.service.folder.rglob(f"{job['checkpoints'][-1]['path']}/model.safetensors"))
        return saved

    def expect_loads(self, saved, kind, model, inputs):
        """Checks that transformers loads a folder with the tensors that the job saved and the model's configuration."""
        folder = self.root / "again"
        folder.mkdir(exist_ok=True)
        shutil.copy(self.root / "saved" / "config.json", folder)
        code, _, err = self.service.ampctl("checkpoint", "export", "--force", str(saved.parent),
                                           str(folder / "model.safetensors"))
        self.assertEqual(code, 0, err)
        again, told = kind.from_pretrained(folder, output_loading_info=True)
        self.assertEqual([list(told[keys]) for keys in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
        with torch.no_grad():
            self.assertTrue(torch.equal(again.eval()(**inputs).logits, model(**inputs).logits))

    def test_bert_classifier(self):
        torch.manual_seed(5)
        model = away_from_first_values(BertForSequenceClassification(
            BertConfig(vocab_size=VOCABULARY, max_position_embeddings=16, hidden_size=32, num_hidden_layers=2,
                       num_attention_heads=4, intermediate_size=64, num_labels=LABELS)))
        lengths = torch.randint(1, LENGTH + 1, (SAMPLES, 1))
        mask = (torch.arange(LENGTH) < lengths).long()
        tokens = torch.randint(1, VOCABULARY, (SAMPLES, LENGTH)) * mask
        types = (torch.arange(LENGTH) >= lengths // 2).long() * mask
        labels = torch.randint(0, LABELS, (SAMPLES,))
        with open(self.root / "texts.jsonl", "w") as file:
            for row in range(SAMPLES):
                length = lengths[row].item()
                file.write(json.dumps({"input_ids": tokens[row, :length].tolist(), "label": labels[row].item(),
                                       "token_type_ids": types[row, :length].tolist()}) + "\n")
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": types}
        with torch.no_grad():
            expected = torch.nn.functional.cross_entropy(model(**inputs).logits, labels).item()
        data = f"jsonl: {{path: root/texts.jsonl, sequence_length: {LENGTH}}}"
        self.expect_loads(self.evaluated(model, BERT, data, expected), BertForSequenceClassification, model, inputs)

    def test_gpt2(self):
        torch.manual_seed(6)
        model = away_from_first_values(GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=32, n_layer=2, n_head=4)))
        text = torch.randint(0, VOCABULARY, (SAMPLES * LENGTH + 1,))
        (self.root / "text.bin").write_bytes(text.to(torch.uint16).numpy().tobytes())
        inputs = {"input_ids": text[:-1].view(SAMPLES, LENGTH)}
        with torch.no_grad():
            logits = model(**inputs).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[1:]).item()
        data = f"tokens: {{path: root/text.bin, sequence_length: {LENGTH}}}"
        self.expect_loads(self.evaluated(model, GPT2, data, expected), GPT2LMHeadModel, model, inputs)

    def save_images(self):
        """Writes the job's input and returns it."""
        images, labels = torch.randn(SAMPLES, 3, 32, 32), torch.randint(0, LABELS, (SAMPLES,))
        numpy.savez(self.root / "images.npz", images=images.numpy(), labels=labels.numpy())
        return images, labels

    def trained_and_exported(self, spec):
        """Runs a job that starts from images.safetensors. Returns it, and the tensors that `checkpoint export` writes
        of its last checkpoint."""
        job = self.run_job(IMAGES_JOB.format(model=spec, batch_size=IMAGE_BATCH, steps=IMAGE_STEPS, rate=RATE,
                                             momentum=MOMENTUM))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        exported = self.root / "exported.safetensors"
        saved = next(self.service.folder.rglob(job["checkpoints"][-1]["path"]))
        code, _, err = self.service.ampctl("checkpoint", "export", "--force", str(saved), str(exported))
        self.assertEqual(code, 0, err)
        return job, load_file(exported)

    def expect_evaluation(self, job, model, images, labels):
        """Checks that the job's last evaluation equals that of torchvision's module."""
        with torch.no_grad():
            logits = model.eval()(images)
        final = job["attempts"][-1]["outcome"]["finalMetrics"]
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        print(f"  evaluation {final['evalLoss']}, torchvision {loss}", flush=True)
        self.assertLess(abs(final["evalLoss"] / loss - 1), TOLERANCE["fp32"])
        self.assertEqual(final["evalAccuracy"], (logits.argmax(1) == labels).double().mean().item())

    def expect_torchvisions(self, build, spec, still=r"(?!)"):
        """Checks that a job loads a torchvision state_dict, that torchvision strictly loads what the job saves, and
        that the trained tensors are those of training in Python.

        `still` matches parameters whose true gradient is zero: biases that a following norm cancels.
        """
        torch.manual_seed(7)
        torch.set_num_threads(1)  # like the job: with several threads sums are rounded differently
        images, labels = self.save_images()
        # The engine uses this memory layout for convolution weights; in another layout sums would be rounded
        # differently.
        model = away_from_alike(build()).to(memory_format=torch.channels_last).train()
        with torch.no_grad():
            for _ in range(NUM_SEEN):
                model(images)
        start = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in model.state_dict().items()}
        save_file(start, self.root / "images.safetensors")
        job, tensors = self.trained_and_exported(spec)
        again = build().to(memory_format=torch.channels_last)
        again.load_state_dict(tensors, strict=True)
        losses = trained_in_python(model, images, labels)
        numpy.testing.assert_allclose(self.losses(job), losses, rtol=1e-5)
        worst = 0
        for name, theirs in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                self.assertEqual(tensors[name].item(), NUM_SEEN + IMAGE_STEPS, name)
                continue
            worst = max(worst, distance(tensors[name], theirs))
            self.assertLess(distance(tensors[name], theirs), STATE_TOLERANCE, name)
            if not re.search(still, name):
                self.assertGreater(distance(start[name], theirs), 10 * STATE_TOLERANCE, f"{name} is hardly trained")
        print(f"  state within {worst:.1e} of torchvision's", flush=True)
        self.expect_evaluation(job, again, images, labels)

    def test_resnet18(self):
        self.expect_torchvisions(lambda: torchvision.models.resnet18(num_classes=LABELS),
                                 f"resnet: {{depth: 18, image_size: 32, num_classes: {LABELS}}}")

    def test_efficientnet_b0(self):
        self.expect_torchvisions(
            lambda: torchvision.models.efficientnet_b0(num_classes=LABELS, dropout=0.0, stochastic_depth_prob=0.0),
            f"efficientnet_b0: {{image_size: 32, num_classes: {LABELS}, dropout: 0, stochastic_depth_prob: 0}}",
            still=r"(features\.1\.0\.block\.2|block\.3)\.1\.bias$")


if __name__ == "__main__":
    main()
