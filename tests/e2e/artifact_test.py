#!/usr/bin/env python3
"""Tests files that clients upload: a model from the client's machine, which the service trains, and the commands on
artifacts.

Usage: artifact_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import hashlib
import json
import pathlib
import random
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "client" / "python")]

import torch

import ampd
from service import Service
from service_case import BINARIES, ServiceCase, main

JOB = """
name: mine
model: {exported: {path: ./mine.pt2}}
data: {train: {synthetic: {shape: [1, 8, 8], num_classes: 4, num_samples: 256, seed: 3}}, batch_size: 16}
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 1e-3}}
train: {steps: STEPS, num_threads: 1, seed: 2}
"""


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def spoil_weights(path):
    """Changes one byte of a tensor's content. No program reads this byte before the trainer loads the weights."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = next(entry for entry in archive.infolist() if entry.filename.endswith("/data/weights/weight_0"))
    name_and_extra = content[entry.header_offset + 26:entry.header_offset + 30]
    start = entry.header_offset + 30 + int.from_bytes(name_and_extra[:2], "little") + int.from_bytes(name_and_extra[2:], "little")
    content[start] ^= 1
    path.write_bytes(content)


class Sorts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(64, 16)
        self.order = Order()
        self.head = torch.nn.Linear(16, 4)

    def forward(self, images):
        return self.head(self.order(self.body(images.flatten(1))))


class Order(torch.nn.Module):
    def forward(self, features):
        return features.sort(1).values


class Artifacts(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.worker = cls.service.start_worker()
        cls.jobs = cls.service.folder / "client"
        cls.jobs.mkdir()

    def export(self, seed, model=None):
        """Exports a model with weights from `seed`. Each case has its own seed, so that it does not find a model that
        another case has uploaded."""
        torch.manual_seed(seed)
        if model is None:
            layers = [torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
            model = torch.nn.Sequential(*layers)
        file = self.jobs / "mine.pt2"
        ampd.export(model, (torch.zeros(4, 1, 8, 8),), file)
        return file

    def submit(self, steps, *flags):
        job_file = self.jobs / "job.yaml"
        job_file.write_text(JOB.replace("STEPS", str(steps)))
        return self.service.ampctl("job", "submit", "-q", "-f", "client/job.yaml", *flags)

    def names(self):
        return [artifact["name"] for artifact in self.service.read("artifact", "list")]

    def test_a_model_of_the_clients_machine_is_trained_and_tried_again_without_its_file(self):
        file = self.export(1)
        digest = digest_of(file)
        code, out, err = self.submit(3000)
        self.assertEqual(code, 0, err)
        job = out.strip()
        file.unlink()
        self.assertEqual(self.service.job(job)["spec"]["model"]["exported"], {"artifact": digest})
        self.assertIsNotNone(self.worker.kill_trainer(job, 20))
        code, _, err = self.service.ampctl("artifact", "delete", "--yes", digest)
        self.assertEqual(code, 1, err)
        self.assertIn("ARTIFACT_IN_USE", err)
        final = self.service.finished(job)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        self.assertEqual(len(final["attempts"]), 2)
        self.assertIn(digest, [path.name for path in (self.worker.state / "artifacts").iterdir()])
        self.assertEqual(self.service.ampctl("artifact", "delete", "--yes", digest)[0], 0)
        code, _, err = self.service.ampctl("job", "clone", job)
        self.assertEqual(code, 3, err)
        self.assertIn("ampctl artifact upload", err)

    def test_a_dry_run_uploads_nothing_and_says_so(self):
        digest = digest_of(self.export(2))
        (self.jobs / "job.yaml").write_text(JOB.replace("STEPS", "5"))
        code, out, err = self.service.ampctl("job", "submit", "-f", "client/job.yaml", "--dry-run")
        self.assertEqual(code, 0, err)
        self.assertIn(digest, out)
        self.assertIn("is not on the server", err)
        self.assertIn("# Memory of a step: unknown until the model's file is uploaded", out)
        self.assertNotIn(digest, self.names())

    def test_a_dry_run_of_an_uploaded_model_tells_its_memory_and_what_the_policy_does(self):
        self.export(3)
        self.assertEqual(self.service.ampctl("artifact", "upload", "client/mine.pt2")[0], 0)
        (self.jobs / "job.yaml").write_text(JOB.replace("STEPS", "5").replace("preset: fp32", "preset: bf16"))
        code, out, err = self.service.ampctl("job", "submit", "-f", "client/job.yaml", "--dry-run")
        self.assertEqual(code, 0, err)
        self.assertIn("aten.linear.default", out)
        self.assertIn("LARGEST BATCH", out)
        self.assertIn("w1/cpu", out)
        code, out, err = self.service.ampctl("job", "submit", "-f", "client/job.yaml", "--dry-run", "-o", "json")
        self.assertEqual(code, 0, err)
        told = json.loads(out)
        parameters = {row["name"]: row["dtype"] for row in told["policies"][0]["table"]["parameters"]}
        self.assertEqual(set(parameters), {"1.weight", "1.bias", "3.weight", "3.bias"})
        candidate = told["memory"]["candidates"][0]
        self.assertEqual((candidate["precision"], int(candidate["weightBytes"])), ("bf16", 4 * (64 * 16 + 16 + 16 * 4 + 4)))
        code, out, err = self.service.ampctl("job", "submit", "-q", "-f", "client/job.yaml")
        self.assertEqual(code, 0, err)
        final = self.service.finished(out.strip())
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        self.assertEqual(final["progress"]["memoryPredictedBytes"], candidate["totalBytes"])

    def test_a_model_that_no_trainer_would_take_is_refused_at_submit(self):
        self.export(6, Sorts())
        code, out, err = self.submit(5)
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("job.yaml:3:", err)
        self.assertIn("model.exported.path: aten.sort", err)
        self.assertNotIn("does not set it", err)
        self.assertIn(" of order (artifact_test.py:", err)
        self.assertIn("is not an op that models may use", err)
        jobs = self.service.read("job", "list")
        self.export(7)
        (self.jobs / "job.yaml").write_text(JOB.replace("STEPS", "5").replace("[1, 8, 8]", "[1, 9, 9]"))
        code, out, err = self.service.ampctl("job", "submit", "-q", "-f", "client/job.yaml")
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("data.train.synthetic: a sample has 81 elements and the model takes 64", err)
        self.assertEqual(self.service.read("job", "list"), jobs)

    def test_a_file_that_is_not_there_is_reported_by_its_name(self):
        self.export(4).unlink()
        code, _, err = self.submit(5)
        self.assertEqual(code, 3, err)
        self.assertIn("client/mine.pt2", err)

    def test_files_go_up_and_come_back(self):
        content = random.Random(7).randbytes(3_500_000)
        file = self.service.folder / "file.bin"
        file.write_bytes(content)
        code, out, err = self.service.ampctl("artifact", "upload", "file.bin", "-o", "json")
        self.assertEqual(code, 0, err)
        artifact = json.loads(out)
        self.assertEqual(artifact["name"], hashlib.sha256(content).hexdigest())
        self.assertEqual((artifact["fileName"], artifact["sizeBytes"]), ("file.bin", str(len(content))))
        self.assertIn(artifact["name"], self.names())
        code, _, err = self.service.ampctl("artifact", "download", artifact["name"])
        self.assertEqual(code, 1, err)
        self.assertIn("--force", err)
        # A partial file of an earlier download is continued, or downloaded again from the start if it belongs to
        # another file.
        for before in (content[:1_000_000], b"something else"):
            partial = self.service.folder / f"back.bin.{artifact['name'][:12]}.partial"
            partial.write_bytes(before)
            code, _, err = self.service.ampctl("artifact", "download", artifact["name"], "back.bin", "--force")
            self.assertEqual(code, 0, err)
            self.assertEqual((self.service.folder / "back.bin").read_bytes(), content)
            self.assertFalse(partial.exists())
        self.assertEqual(self.service.ampctl("artifact", "delete", "--yes", artifact["name"])[0], 0)
        code, _, err = self.service.ampctl("artifact", "download", artifact["name"], "again.bin")
        self.assertEqual(code, 3, err)

    def test_a_content_that_the_server_has_spoilt_ends_the_job_with_its_reason(self):
        digest = digest_of(self.export(5))
        self.assertEqual(self.service.ampctl("artifact", "upload", "client/mine.pt2")[0], 0)
        kept = self.service.folder / "data" / "artifacts" / digest
        spoil_weights(kept)
        code, out, err = self.submit(5)
        self.assertEqual(code, 0, err)
        self.expect_failure(self.service, out.strip(), "DATA_ERROR", "model.exported.artifact", "SHA-256")


if __name__ == "__main__":
    main()
