#!/usr/bin/env python3
"""Tests a model from a user's own Python file: ampd.export exports it, and the service trains it.

Usage: exported_service_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import json
import pathlib
import struct
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parents[1] / "client" / "python")]

import torch
import torchvision
from safetensors.torch import load_file, save_file

import ampd
from service import wait_for
from service_case import DataRootCase, main

CLASSES, SAMPLES, STEPS, WORDS, LENGTH = 6, 96, 24, 32, 8
JOB = f"""
name: mine
model: {{exported: {{path: root/mine.pt2}}}}
data:
  train: {{idx: {{images: root/images, labels: root/labels}}}}
  eval: {{idx: {{images: root/images, labels: root/labels}}}}
  batch_size: 32
precision: {{preset: fp32}}
optimizer: {{adamw: {{learning_rate: 0.005}}}}
train: {{steps: {STEPS}, num_threads: 1, seed: 2}}
eval: {{every_steps: 8}}
checkpoint: {{every_steps: 4, keep: 2}}
"""


class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True),
            torch.nn.MaxPool2d(2))
        self.drop = torch.nn.Dropout(0.2)
        self.head = torch.nn.Linear(8 * 8 * 8, CLASSES)

    def forward(self, x):
        return self.head(self.drop(self.features(x).view(x.size(0), -1)))


class ExportedModels(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.manual_seed(5)
        prototypes = torch.rand(CLASSES, 16, 16) * 150
        cls.labels = torch.randint(0, CLASSES, (SAMPLES,), dtype=torch.uint8)
        cls.pixels = (prototypes[cls.labels.long()] + torch.rand(SAMPLES, 16, 16) * 100).to(torch.uint8)
        (cls.root / "images").write_bytes(struct.pack(">IIII", 2051, SAMPLES, 16, 16) + cls.pixels.numpy().tobytes())
        (cls.root / "labels").write_bytes(struct.pack(">II", 2049, SAMPLES) + cls.labels.numpy().tobytes())
        cls.model = Mine()
        ampd.export(cls.model, (torch.zeros(4, 1, 16, 16),), cls.root / "mine.pt2")

    def evals(self, job):
        return [point for segment in self.service.read("job", "points", job["id"])["segments"]
                for point in segment["evals"]]

    def checkpoint(self, job):
        return next(self.service.folder.rglob(f"{job['checkpoints'][-1]['path']}/model.safetensors")).parent

    @torch.no_grad()
    def logits(self, job):
        again = Mine()
        again.load_state_dict(load_file(self.checkpoint(job) / "model.safetensors"))
        return again.eval()((self.pixels.float() / 255).unsqueeze(1))

    def expect_pythons_evaluation(self, job):
        """Checks that the job's last evaluation equals Python's with the saved weights. Returns the classes that Python
        predicts, and those that the service predicts."""
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        logits, point = self.logits(job), self.evals(job)[-1]
        loss = torch.nn.functional.cross_entropy(logits, self.labels.long()).item()
        self.assertLess(abs(point["loss"] / loss - 1), 1e-5)
        predicted = logits.argmax(1)
        self.assertEqual(point["accuracy"], (predicted == self.labels).double().mean().item())
        return predicted, point

    def test_it_learns_under_every_policy_and_python_gets_it_back(self):
        for preset in ("fp32", "bf16", "fp16", "torch-amp-bf16", "fp8"):
            with self.subTest(preset):
                job = self.run_job(JOB.replace("preset: fp32", f"preset: {preset}"))
                self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
                evals = self.evals(job)
                print(f"  {preset}: loss {evals[0]['loss']:.3f} to {evals[-1]['loss']:.3f}", flush=True)
                self.assertLess(evals[-1]["loss"], 0.5 * evals[0]["loss"])
        predicted, point = self.expect_pythons_evaluation(self.run_job(JOB))
        hits = [2 * ((predicted == one) & (self.labels == one)).sum().item() for one in range(CLASSES)]
        told = [((predicted == one).sum() + (self.labels == one).sum()).item() for one in range(CLASSES)]
        self.assertAlmostEqual(point["f1"], sum(hit / max(1, all) for hit, all in zip(hits, told)) / CLASSES, places=12)

    def test_the_first_five_of_six_classes_are_counted(self):
        for preset in ("fp32", "bf16"):
            job = self.run_job(JOB.replace("preset: fp32", f"preset: {preset}").replace(f"steps: {STEPS},", "steps: 1,"))
            self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
            share = self.evals(job)[-1]["top5Accuracy"]
            print(f"  {preset}: top-5 {share:.4f} after a step", flush=True)
            if preset == "fp32":
                first_five = self.logits(job).topk(5).indices
                self.assertEqual(share, (first_five == self.labels.unsqueeze(1)).any(1).double().mean().item())
            self.assertTrue(0.5 < share < 1, "all are right, or hardly one: nothing is told apart")
            self.assertEqual(job["progress"]["evalTop5Accuracy"], share)
            self.assertEqual(job["attempts"][-1]["outcome"]["finalMetrics"]["evalTop5Accuracy"], share)
            self.assertIn("top-5 ", self.service.ampctl("job", "show", job["id"])[1])

    def test_a_model_of_several_inputs_takes_each_from_its_field(self):
        from transformers import BertConfig, BertForSequenceClassification  # takes seconds

        class Padded(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = BertForSequenceClassification(BertConfig(
                    vocab_size=WORDS, max_position_embeddings=LENGTH, hidden_size=32, num_hidden_layers=2,
                    num_attention_heads=2, intermediate_size=64, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                    num_labels=CLASSES))

            def forward(self, mask, words):
                return self.model(input_ids=words, attention_mask=mask).logits

        torch.manual_seed(6)
        lengths = torch.randint(2, LENGTH + 1, (SAMPLES, 1))
        mask = (torch.arange(LENGTH) < lengths).long()
        words = torch.randint(CLASSES, WORDS, (SAMPLES, LENGTH))
        words[:, 1] = self.labels  # the relation to learn
        with open(self.root / "texts.jsonl", "w") as file:
            for row, length in enumerate(lengths.flatten().tolist()):
                file.write(json.dumps({"input_ids": words[row, :length].tolist(), "label": self.labels[row].item()}) + "\n")
        ampd.export(Padded(), (mask[:4], words[:4]), self.root / "padded.pt2")
        source = f"{{jsonl: {{path: root/texts.jsonl, sequence_length: {LENGTH}}}}}"
        idx = "{idx: {images: root/images, labels: root/labels}}"
        job = self.run_job(JOB.replace(idx, source).replace("learning_rate: 0.005", "learning_rate: 0.01").replace(
            "path: root/mine.pt2", "path: root/padded.pt2, inputs: {words: input_ids, mask: attention_mask}"))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        evals = self.evals(job)
        self.assertLess(evals[-1]["loss"], 0.5 * evals[0]["loss"])
        again = Padded()
        again.load_state_dict(load_file(self.checkpoint(job) / "model.safetensors"), strict=False)
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(again.eval()(mask, words * mask), self.labels.long()).item()
        self.assertLess(abs(evals[-1]["loss"] / loss - 1), 1e-5)
        self.failure("padded.pt2", "the data has images and the model takes mask", reason="SPEC_ERROR")

    def test_it_goes_on_from_a_checkpoint_without_its_file_to_the_same_bits(self):
        whole = self.run_job(JOB)
        (self.root / "gone.pt2").write_bytes((self.root / "mine.pt2").read_bytes())
        text = JOB.replace("mine.pt2", "gone.pt2").replace(f"steps: {STEPS}", "steps: 100000")
        job = self.service.submit(text)
        wait_for(lambda: self.service.job(job).get("checkpoints"), "a first checkpoint")
        self.service.ampctl("job", "pause", job)
        wait_for(lambda: self.service.job(job)["state"] == "PAUSED", "the job is paused")
        step = int(self.service.job(job)["checkpoints"][-1]["step"])
        (self.root / "gone.pt2").unlink()
        self.service.ampctl("job", "resume", job)
        wait_for(lambda: int(self.service.job(job)["checkpoints"][-1]["step"]) >= max(STEPS, step + 8), "it goes on")
        self.service.ampctl("job", "cancel", job)
        final = self.service.finished(job)
        self.assertEqual((final["state"], int(final["numAttempts"])), ("CANCELLED", 2), final.get("message"))
        self.assertEqual(self.losses(final)[:STEPS], self.losses(whole), "the resumed run computed something else")

    def test_an_evaluation_has_the_constants_of_its_own_program_behind_a_checkpoint_too(self):
        class Scaled(Mine):
            def forward(self, x):
                if self.training:
                    x = x * torch.tensor(1.1)
                return super().forward(x) / torch.tensor(4.0)  # the first constant of the evaluation program

        ampd.export(Scaled(), (torch.zeros(4, 1, 16, 16),), self.root / "scaled.pt2")
        text = JOB.replace("mine.pt2", "scaled.pt2").replace("every_steps: 8", "every_steps: 4")
        job = self.service.submit(text.replace(f"steps: {STEPS}", "steps: 100000"))
        wait_for(lambda: self.service.job(job).get("checkpoints"), "a first checkpoint")
        self.service.ampctl("job", "pause", job)
        wait_for(lambda: self.service.job(job)["state"] == "PAUSED", "the job is paused")
        step = int(self.service.job(job)["checkpoints"][-1]["step"])
        (self.root / "scaled.pt2").unlink()
        self.service.ampctl("job", "resume", job)
        wait_for(lambda: int(self.service.job(job)["checkpoints"][-1]["step"]) >= step + 8, "it goes on")
        self.service.ampctl("job", "cancel", job)
        final = self.service.finished(job)
        saved = self.checkpoint(final)
        code, _, err = self.service.ampctl("checkpoint", "export", "--force", str(saved), str(self.root / "scaled"))
        self.assertEqual(code, 0, err)
        again = Scaled()
        again.load_state_dict(load_file(self.root / "scaled"))
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(again.eval()((self.pixels.float() / 255).unsqueeze(1)),
                                                     self.labels.long()).item()
        told, = (point["loss"] for point in self.evals(final) if point["step"] == final["checkpoints"][-1]["step"])
        self.assertLess(abs(told / loss - 1), 1e-5)

    def save(self, model, name):
        """Saves the model with torch.export.save, without ampd: only the program of the mode that the model is in."""
        program = torch.export.export(model, (torch.zeros(4, 1, 16, 16),), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, self.root / name)

    def test_a_lone_program_of_training_is_evaluated_with_its_flags_flipped(self):
        self.save(Mine().train(), "lone.pt2")
        job = self.run_job(JOB.replace("mine.pt2", "lone.pt2"))
        self.expect_pythons_evaluation(job)  # with dropout, or without running statistics, the loss would differ
        self.assertLess(self.evals(job)[-1]["loss"], 0.5 * self.evals(job)[0]["loss"])
        self.assertNotIn("WARNING", self.service.events(job["id"]))

    def test_a_lone_program_of_evaluation_is_trained_as_it_is_with_a_warning(self):
        model = Mine().eval()
        self.save(model, "eval.pt2")
        job = self.run_job(JOB.replace("mine.pt2", "eval.pt2"))
        self.expect_pythons_evaluation(job)
        saved = load_file(self.checkpoint(job) / "model.safetensors")
        self.assertTrue(torch.equal(saved["features.1.running_mean"], model.features[1].running_mean))
        warning, = self.told(job, "WARNING")
        self.assertIn("exported in evaluation mode", warning["message"])

    def test_a_lone_program_that_no_flag_makes_deterministic_is_refused(self):
        class Noisy(Mine):
            def __init__(self):
                super().__init__()
                self.noise = torchvision.ops.StochasticDepth(0.2, "row")

            def forward(self, x):
                return super().forward(self.noise(x))

        self.save(Noisy().train(), "noisy.pt2")
        self.failure("noisy.pt2", "aten.bernoulli.p of noise is random in evaluation too", "no evaluation program",
                     "write the file with ampd.export")
        code, out, _ = self.service.ampctl("model", "inspect", str(self.root / "noisy.pt2"))
        self.assertEqual(code, 1)
        self.assertIn("random in evaluation too", out)
        ampd.export(Noisy(), (torch.zeros(4, 1, 16, 16),), self.root / "noisy.pt2")
        self.expect_pythons_evaluation(self.run_job(JOB.replace("mine.pt2", "noisy.pt2")))

    def begin_with(self, beginning):
        """Returns the tensors after a step that changes no parameter, and how many tensors the job reports to have
        loaded."""
        job = self.run_job(JOB.replace("mine.pt2}", f"mine.pt2}}, {beginning}").replace(
            "adamw: {learning_rate: 0.005}", "sgd: {learning_rate: 1e-30}").replace(f"steps: {STEPS},", "steps: 1,"))
        self.expect_pythons_evaluation(job)
        _, loaded = self.told(job, "WEIGHTS_LOADED")  # the second such event; the first is for the exported file
        return load_file(self.checkpoint(job) / "model.safetensors"), loaded["attributes"]["num_tensors"]

    def test_it_begins_with_the_weights_of_a_file(self):
        other = Mine()
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(0.01)  # makes no parameter zero: even the smallest step would change a zero
        save_file(other.state_dict(), self.root / "other.safetensors")
        saved, num_tensors = self.begin_with("initial_weights: root/other.safetensors")
        self.assertEqual(num_tensors, str(len(saved)))
        for name, parameter in other.named_parameters():
            self.assertTrue(torch.equal(saved[name], parameter), name)
        saved, num_tensors = self.begin_with('initial_weights: root/other.safetensors, initialize_anew: ["head.*"]')
        self.assertEqual(num_tensors, str(len(saved) - 2))
        for name, parameter in self.model.named_parameters():  # the model still has the exported parameters
            begun = parameter if name.startswith("head.") else other.get_parameter(name)
            self.assertTrue(torch.equal(saved[name], begun), name)

    def test_a_file_of_another_models_weights_is_refused_with_the_names(self):
        tensors = {name.replace("head", "fc"): tensor for name, tensor in Mine().state_dict().items()}
        save_file(tensors, self.root / "fc.safetensors")
        self.refused(JOB.replace("mine.pt2}", "mine.pt2}, initial_weights: root/fc.safetensors"), "DATA_ERROR",
                     'model.initial_weights "root/fc.safetensors": ',
                     "2 missing (head.bias, head.weight), 2 extra (fc.bias, fc.weight)")

    def test_it_begins_with_another_jobs_checkpoint(self):
        first = self.run_job(JOB)
        trained = load_file(self.checkpoint(first) / "model.safetensors")
        saved, num_tensors = self.begin_with(f"initial_checkpoint: {{job_id: {first['id']}}}")
        self.assertEqual(num_tensors, str(len(trained)))
        for name, parameter in self.model.named_parameters():
            self.assertTrue(torch.equal(saved[name], trained[name]), name)
            self.assertFalse(torch.equal(saved[name], parameter), f"{name} was not trained")

    def test_gradients_are_reported_by_the_modules_of_the_file(self):
        job = self.service.submit(JOB.replace("preset: fp32", "preset: fp16").replace(f"steps: {STEPS}", "steps: 100000000"))
        self.addCleanup(self.service.ampctl, "job", "cancel", job)
        self.worker.await_step(job, 5)
        gradients = self.service.read("job", "gradients", job)["gradients"]
        self.assertEqual([(module["module"], int(module["numElements"]), module["dtype"]) for module in gradients["modules"]],
                         [("head", 512 * CLASSES + CLASSES, "float16"), ("features.1", 16, "float32"),
                          ("features.0", 8 * 9 + 8, "float16")])
        for module in gradients["modules"]:
            counted = sum(map(int, module["counts"])) + int(module.get("numZero", 0)) + int(module.get("numNonFinite", 0))
            self.assertEqual(counted, int(module["numElements"]))

    def test_gradients_that_underflow_are_reported_of_the_module_where_they_do(self):
        class Small(torch.nn.Module):
            """A model with weights so small that, at a batch size of 4096, gradients are below fp16's smallest normal
            number."""

            def __init__(self):
                super().__init__()
                self.body = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU())
                self.head = torch.nn.Linear(32, 10)
                for layer, bound in ((self.body[0], 1e-4), (self.head, 6e-5)):
                    torch.nn.init.uniform_(layer.weight, -bound, bound)
                    torch.nn.init.zeros_(layer.bias)

            def forward(self, x):
                return self.head(self.body(x))

        torch.manual_seed(7)
        ampd.export(Small(), (torch.zeros(4, 12),), self.root / "small.pt2")
        idx = "{idx: {images: root/images, labels: root/labels}}"
        source = "{synthetic: {shape: [12], num_classes: 10, num_samples: 4096, seed: 9, noise: 0.3}}"
        text = JOB.replace(idx, source).replace("mine.pt2", "small.pt2").replace("batch_size: 32", "batch_size: 4096")
        job = self.run_job(text.replace("{preset: fp32}", "{preset: fp16, loss_scale: {off: {}}}"))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        underflow, = self.told(job, "UNDERFLOW")
        self.expect_clean_line(underflow["message"])
        self.assertEqual(underflow["attributes"]["module"], "head")
        self.assertTrue(underflow["attributes"]["parameter"].startswith("head."), underflow)
        self.assertGreater(float(underflow["attributes"]["suggested_scale"]), 1)
        job = self.run_job(text.replace("{preset: fp32}", "{preset: fp16}"))
        self.assertEqual((job["state"], self.told(job, "UNDERFLOW")), ("SUCCEEDED", []), job.get("message"))

    def refused(self, text, reason, *words):
        final = self.service.finished(self.service.submit(text))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final.get("message"))
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])

    def failure(self, name, *words, reason="DATA_ERROR"):
        file = [f'model.exported.path "root/{name}": '] if reason == "DATA_ERROR" else []
        self.refused(JOB.replace("mine.pt2", name), reason, *file, *words)

    def test_what_is_wrong_with_a_file_is_reported_in_a_line(self):
        whole = (self.root / "mine.pt2").read_bytes()
        (self.root / "cut.pt2").write_bytes(whole[:len(whole) // 2])
        (self.root / "text.pt2").write_text("import torch\n")
        with zipfile.ZipFile(self.root / "other.pt2", "w") as archive:
            archive.writestr("a/data.pkl", b"program")

        class Sorting(Mine):
            def forward(self, x):
                return super().forward(torch.sort(x)[0])

        ampd.export(Sorting(), (torch.zeros(4, 1, 16, 16),), self.root / "sorting.pt2")
        self.failure("absent.pt2", "No such file")
        self.failure("cut.pt2", "not a sound ZIP archive")
        self.failure("text.pt2", "not a sound ZIP archive")
        self.failure("other.pt2", "no archive_format")
        self.failure("sorting.pt2", "aten.sort", "exported_service_test.py:", "is not an op that models may use")


if __name__ == "__main__":
    main()
