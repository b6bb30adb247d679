#!/usr/bin/env python3
"""Trains a GAN with the service: two networks on images without labels, from the estimate to the exported generator.

Usage: gan_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import json
import os
import pathlib
import signal
import struct
import urllib.request

from service import wait_for
from service_case import DataRootCase, main

STEPS = 60
JOB = """
name: gan
model: {dcgan: {latent_size: 8, generator_features: 8, discriminator_features: 8}}
data:
  train: {idx: {images: root/images, mean: 0.5, std: 0.5}}
  batch_size: 16
precision: PRECISION
optimizer: {adam: {learning_rate: 2e-4, beta1: 0.5}, ema_decay: 0.9}
train: {steps: STEPS, seed: 5, num_threads: 1}
checkpoint: {every_steps: 5}
""".replace("STEPS", str(STEPS))
# The loss scale is so high that gradients overflow at first. The two networks stop overflowing at different scales.
FP16 = "{preset: fp16, loss_scale: {dynamic: {initial: 68719476736, cap: 68719476736, growth_interval: 4}}}"
COLUMNS = ("loss", "gradNorm", "lossScale", "skipped")
PHASES = ("discriminator", "generator")
PHASE_COLUMNS = ("loss", "gradNorm", "skipped")


class Gan(DataRootCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Each image has a bright bar at a different row.
        images = b"".join(bytes(255 if row == sample % 28 else 0 for row in range(28) for _ in range(28))
                          for sample in range(96))
        (cls.root / "images").write_bytes(struct.pack(">4I", 0x803, 96, 28, 28) + images)

    def curve(self, job):
        """Returns {step: its numbers} for all steps that no later attempt has repeated."""
        points = {}
        for segment in self.service.read("job", "points", job)["segments"]:
            if not segment.get("superseded"):
                columns = [segment["steps"][name] for name in COLUMNS]
                self.assertEqual(tuple(phase["name"] for phase in segment["steps"]["phases"]), PHASES)
                columns += [phase[name] for phase in segment["steps"]["phases"] for name in PHASE_COLUMNS]
                points |= {int(step): tuple(column[i] for column in columns)
                           for i, step in enumerate(segment["steps"]["step"])}
        return points

    def metrics_of(self, final):
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        return final["attempts"][-1]["outcome"]["finalMetrics"]

    def test_a_killed_trainer_goes_on_bit_for_bit(self):
        for precision in ("{preset: bf16}", FP16):
            job_file = JOB.replace("PRECISION", precision)
            whole = self.service.submit(job_file)
            expected = self.metrics_of(self.service.finished(whole))
            curve = self.curve(whole)
            self.assertEqual(sorted(curve), list(range(1, STEPS + 1)))
            job = self.service.submit(job_file)
            step = self.worker.await_step(job, 12)
            os.kill(self.worker.shim(step).trainer_pid, signal.SIGKILL)
            final = self.service.finished(job)
            self.assertEqual(final["numAttempts"], 2)
            self.assertEqual(self.metrics_of(final)["stateHash"], expected["stateHash"])
            self.assertEqual(self.metrics_of(final)["phases"], expected["phases"])
            self.assertEqual(self.curve(job), curve)
            discriminator, generator = (
                sum(numbers[len(COLUMNS) + (i + 1) * len(PHASE_COLUMNS) - 1] for numbers in curve.values())
                for i in range(len(PHASES)))
            shown = [int(phase.get("skippedSteps", 0)) for phase in final["progress"]["phases"]]
            self.assertEqual(shown, [discriminator, generator])
            self.assertEqual(generator != discriminator, precision == FP16)

    def test_both_networks_are_seen_where_jobs_are_looked_at(self):
        job = self.service.submit(JOB.replace("PRECISION", "{preset: fp32}"))
        final = self.service.finished(job)
        generator_loss = self.metrics_of(final)["phases"][1]["loss"]
        for arguments, words in ((("job", "points", job), ("GENERATOR LOSS",)),
                                 (("job", "show", job), ("generator loss", f"{generator_loss:.4g}"))):
            _, out, _ = self.service.ampctl(*arguments)
            for word in words:
                self.assertIn(word, out)

        def page():
            with urllib.request.urlopen(f"http://{self.service.metrics}/metrics", timeout=30) as answer:
                return answer.read().decode()
        wait_for(lambda: f'ampd_job_phase_skipped_steps_total{{job_id="{job}",tenant="default",phase="generator"}} 0' in page(),
                 "the job's series")
        self.assertIn(f'ampd_job_phase_loss{{job_id="{job}",tenant="default",phase="generator"}}', page())

    def test_the_exported_generator_has_the_tutorials_names(self):
        final = self.service.finished(self.service.submit(JOB.replace("PRECISION", "{preset: fp32}")))
        self.metrics_of(final)
        saved = self.worker.checkpoints / final["checkpoints"][-1]["path"]
        shapes = {}
        for name, flags in (("plain", ()), ("averages", ("--averages",))):
            file = self.root / f"{name}.safetensors"
            code, _, err = self.service.ampctl("checkpoint", "export", str(saved), str(file), *flags)
            self.assertEqual(code, 0, err)
            content = pathlib.Path(file).read_bytes()
            header = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
            shapes[name] = {key: value["shape"] for key, value in header.items() if key.startswith("generator.")}
        self.assertEqual(shapes["plain"], shapes["averages"])
        self.assertEqual(shapes["plain"]["generator.main.0.weight"], [8, 16, 7, 7])
        self.assertEqual(shapes["plain"]["generator.main.6.weight"], [8, 1, 4, 4])
        self.assertIn("generator.main.4.running_var", shapes["plain"])
        self.assertNotEqual((self.root / "plain.safetensors").read_bytes(),
                            (self.root / "averages.safetensors").read_bytes())

    def test_pictures_are_among_the_jobs_artifacts(self):
        job = self.service.submit(JOB.replace("PRECISION", "{preset: fp32}")
                                  + "sample: {every_steps: 25, images: {rows: 2}}\n")
        self.metrics_of(self.service.finished(job))
        told = self.service.read("artifact", "list", "--job", job)
        self.assertEqual([artifact["name"] for artifact in told],
                         [f"{job}/step-{step}/sample.png" for step in (60, 50, 25)])
        contents = set()
        for artifact in told:
            file = self.root / "sample.png"
            code, _, err = self.service.ampctl("artifact", "download", artifact["name"], str(file), "--force")
            self.assertEqual(code, 0, err)
            content = file.read_bytes()
            self.assertEqual(len(content), int(artifact["sizeBytes"]))
            self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">2I", content[16:24]), (2 * 28 + 2, 2 * 28 + 2))
            contents.add(content)
        self.assertEqual(len(contents), 3, "two steps drew the same picture")

    def test_what_a_gan_has_not_is_refused_at_once(self):
        for wrong, why in ((JOB.replace("  batch_size", "  eval: {idx: {images: root/images}}\n  batch_size"),
                            "neither says how good the images are"),
                           (JOB.replace("PRECISION", "{preset: fp8}"), "linear")):
            code, _, err = self.service.ampctl("job", "submit", "-f", "-", "--dry-run",
                                               text=wrong.replace("PRECISION", "{preset: fp32}"))
            self.assertNotEqual(code, 0)
            self.assertIn(why, err)
        code, out, err = self.service.ampctl("job", "submit", "-f", "-", "--dry-run", "-o", "json",
                                             text=JOB.replace("PRECISION", FP16))
        self.assertEqual(code, 0, err)
        self.assertIn("generator.main.0", out)
        self.assertIn("discriminator.main.0", out)


if __name__ == "__main__":
    main()
