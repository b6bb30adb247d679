#!/usr/bin/env python3
"""Checks that docs/job-file.schema.json accepts our job files and refuses wrong ones.

Usage: job_schema_test.py FOLDER_OF_BINARIES
"""
import json
import pathlib
import subprocess
import sys
import unittest

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """
name: job
model: {lenet: {}}
data: {train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 100}}, batch_size: 10}
optimizer: {adamw: {learning_rate: 0.001}}
train: {steps: 10}
"""


class JobSchema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        schema = json.loads((ROOT / "docs/job-file.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        cls.validator = jsonschema.Draft7Validator(schema)

    def errors(self, text):
        """The paths and messages of everything that the schema refuses in a job file."""
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
                for error in self.validator.iter_errors(yaml.safe_load(text))]

    def test_the_examples_fit(self):
        files = sorted((ROOT / "examples").glob("*.yaml"))
        self.assertGreater(len(files), 5)
        for file in files:
            with self.subTest(file.name):
                # YAML 1.1 reads 2e-3 as a text; editors and ampd, which read YAML 1.2, as a number.
                self.assertEqual([error for error in self.errors(file.read_text()) if "e-" not in error], [])

    def test_the_templates_fit(self):
        def template(*flags):
            run = subprocess.run([BIN / "ampctl", "init", "-", *flags], capture_output=True, text=True, check=False)
            return run.stdout if run.returncode == 0 else None
        models = json.loads((ROOT / "docs/job-file.schema.json").read_text())["definitions"]["ModelSpec"]["allOf"]
        models = [choice["required"][0] for choice in models[0]["oneOf"] if "required" in choice]
        self.assertGreater(len(models), 5)
        for model in models:
            with self.subTest(model):
                text = template("--model", model)
                self.assertIsNotNone(text)
                self.assertEqual([error for error in self.errors(text) if "e-" not in error], [])

    def test_a_small_job_fits(self):
        self.assertEqual(self.errors(JOB), [])
        self.assertEqual(self.errors(JOB + "deadline: 12h\nresources: {memory_bytes: 4GiB}\n"), [])

    def test_wrong_files_are_refused_at_the_field(self):
        for change, where in [
                ("nane: x\n", ": Additional properties"),
                ("train: {steps: 0}\n", "train.steps: 0 is less than"),
                ("train: {steps: 1.5}\n", "train.steps: 1.5 is not of type"),
                ("train: {steps: 1, epochs: 1}\n", "train: "),
                ("checkpoint: {keep: 5000}\n", "checkpoint.keep: 5000 is greater than"),
                ("optimizer: {adamw: {learning_rate: 0}}\n", "optimizer.adamw.learning_rate: 0 is less than or equal"),
                ("optimizer: {adamw: {}}\n", "optimizer.adamw: 'learning_rate' is a required"),
                ("resources: {kind: TPU}\n", "resources.kind: 'TPU' is not one of"),
                ("deadline: 12\n", "deadline: 12 is not of type")]:
            with self.subTest(change):
                errors = self.errors(JOB + change)
                self.assertEqual(len(errors), 1, errors)
                self.assertTrue(errors[0].startswith(where), errors)

    def test_a_required_field_is_asked_for(self):
        for name in ("name", "model", "data", "optimizer", "train"):
            job = yaml.safe_load(JOB)
            del job[name]
            errors = list(self.validator.iter_errors(job))
            messages = [error.message for outer in errors for error in [outer, *(outer.context or [])]]
            self.assertIn(f"'{name}' is a required property", messages)

    def test_a_job_that_predicts_needs_no_training(self):
        job = yaml.safe_load(JOB)
        del job["optimizer"], job["train"]
        job["data"] = {"predict": job["data"]["train"], "batch_size": 10}
        job["predict"] = {}
        self.assertEqual(list(self.validator.iter_errors(job)), [])


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()
