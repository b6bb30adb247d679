#!/usr/bin/env python3
"""Checks that options of a spec beyond the plain job have their documented effect: rules, a list of presets, WARN,
initial weights.

Usage: spec_test.py FOLDER_OF_BINARIES [REPORT.xml]. Ends only the processes that it started, by their ids.
"""
import collections
import json
import math
import random
import shutil
import struct

from service import wait_for
from service_case import JOB, DataRootCase, main


TEXT_JOB = """
name: text
model: {{gpt2: {{n_layer: 2, n_embd: 32, n_head: 2, n_positions: 40, vocab_size: 16, dropout: 0}}}}
data:
  train: {{tokens: {{path: root/train.bin, sequence_length: 32}}}}
  eval: {{tokens: {{path: root/val.bin}}}}
  batch_size: 16
precision: {{preset: {preset}}}
optimizer: {{adamw: {{learning_rate: 3e-3}}}}
train: {{steps: 200, clip_grad_norm: 1.0, seed: 5, num_threads: 1}}
"""


class Spec(DataRootCase):
    def saved_tensors(self, job):
        """Returns the tensors of the newest checkpoint's model, by name."""
        saved = next(self.service.folder.rglob(f"{job['checkpoints'][-1]['path']}/model.safetensors")).read_bytes()
        tensors = json.loads(saved[8:8 + struct.unpack("<Q", saved[:8])[0]])
        tensors.pop("__metadata__", None)
        return tensors

    def test_job_of_epochs_tells_its_steps(self):
        job = self.run_job(JOB.replace("steps: 5", "epochs: 3"))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        self.assertEqual(int(job["progress"]["totalSteps"]), 3 * 256 // 32)
        self.assertEqual(int(job["progress"]["step"]), 3 * 256 // 32)

    def test_last_batch_that_is_padded_is_a_step_more_of_every_epoch(self):
        epochs = JOB.replace("steps: 5", "epochs: 3").replace("batch_size: 32", "batch_size: 48\n  last_batch: WAY")
        for last_batch, steps in (("DROP", 3 * 5), ("PAD", 3 * 6)):
            job = self.run_job(epochs.replace("WAY", last_batch))
            self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
            self.assertEqual(job["spec"]["data"]["lastBatch"], last_batch)
            self.assertEqual(int(job["progress"]["totalSteps"]), steps)
            self.assertEqual(int(job["progress"]["step"]), steps)
        self.assertEqual(self.run_job(epochs.replace("  last_batch: WAY\n", ""))["spec"]["data"]["lastBatch"], "DROP")

    def test_prefer_takes_the_first_that_is_native(self):
        job = self.run_job(JOB.replace("{preset: fp32}", "{prefer: [tf32, fp16, fp32]}"))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        attempt = job["attempts"][-1]
        self.assertEqual(attempt["precision"], "fp32")
        self.assertIn("tf32 needs a GPU", attempt["precisionReason"])
        self.assertFalse(attempt.get("emulated", False))

    def test_module_rules_reach_the_engine(self):
        everything = "{preset: bf16, module_rules: [{match: '*', compute: fp32}]}"
        plain = self.run_job()
        ruled = self.run_job(JOB.replace("{preset: fp32}", everything))
        bf16 = self.run_job(JOB.replace("{preset: fp32}", "{preset: bf16}"))
        self.assertEqual(self.losses(ruled), self.losses(plain), "every module is ruled to be fp32")
        self.assertNotEqual(self.losses(bf16), self.losses(plain))

    def test_rule_that_matches_nothing_is_a_warning(self):
        ruled = "{preset: bf16, module_rules: [{match: 'no_such*', compute: fp32}]}"
        job = self.run_job(JOB.replace("{preset: fp32}", ruled))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        self.assertIn("WARNING", self.service.events(job["id"]))

    def test_predicted_peak_stands_beside_the_measured_one(self):
        for preset in ("fp32", "bf16"):
            # The allocator also counts the synthetic samples and the prefetched batch. They do not belong to a step and
            # take the size of two batches.
            job = self.run_job(JOB.replace("{preset: fp32}", f"{{preset: {preset}}}").replace("hidden: 16", "hidden: 2048")
                               .replace("batch_size: 32", "batch_size: 128").replace("num_samples: 256", "num_samples: 128"))
            self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
            predicted = int(job["progress"]["memoryPredictedBytes"])
            measured = int(job["progress"]["memoryPeakBytes"])
            print(f"  {preset}: {predicted} bytes predicted, {measured} measured", flush=True)
            self.assertLess(abs(predicted - measured), 0.1 * measured)

    def test_warn_goes_on_where_fail_ends(self):
        wild = JOB.replace("learning_rate: 1e-3", "learning_rate: 1e+6").replace("steps: 5", "steps: 20")
        failed = self.run_job(wild)
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "NONFINITE_LOSS"), failed.get("message"))
        warned = self.run_job(wild + "on_divergence: WARN\n")
        self.assertEqual(warned["state"], "SUCCEEDED", warned.get("message"))
        self.assertEqual(int(warned["progress"]["step"]), 20)
        self.assertFalse(math.isfinite(self.losses(warned)[-1]))
        self.assertIn("DIVERGENCE", self.service.events(warned["id"]))

    def test_resnet_trains_and_its_weights_have_torchvisions_names(self):
        resnet = JOB.replace("{lenet: {widths: [4, 8], hidden: 16}}",
                             "{resnet: {stem: CIFAR, in_channels: 1, image_size: 8}}")
        small = resnet.replace("[1, 28, 28]", "[1, 8, 8]").replace("{preset: fp32}", "{preset: bf16}")
        job = self.run_job(small)
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        tensors = self.saved_tensors(job)
        self.assertEqual(tensors["conv1.weight"]["shape"], [64, 1, 3, 3])
        self.assertEqual(tensors["layer2.0.downsample.0.weight"]["shape"], [128, 64, 1, 1])
        self.assertEqual(tensors["layer4.1.bn2.running_var"]["shape"], [512])
        self.assertEqual(tensors["fc.bias"]["shape"], [10])
        self.assertEqual(len(tensors), 122)

    def test_efficientnet_trains_and_its_weights_have_torchvisions_names(self):
        net = JOB.replace("{lenet: {widths: [4, 8], hidden: 16}}",
                          "{efficientnet_b0: {in_channels: 1, image_size: 32, num_classes: 10}}")
        job = self.run_job(net.replace("[1, 28, 28]", "[1, 32, 32]").replace("{preset: fp32}", "{preset: bf16}"))
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        tensors = self.saved_tensors(job)
        self.assertEqual(tensors["features.0.0.weight"]["shape"], [32, 1, 3, 3])
        self.assertEqual(tensors["features.1.0.block.1.fc1.bias"]["shape"], [8])
        self.assertEqual(tensors["features.8.1.running_var"]["shape"], [1280])
        self.assertEqual(tensors["classifier.1.weight"]["shape"], [10, 1280])
        self.assertEqual(len(tensors), 360)

    def write_text(self, name, size, seed, header=b""):
        """Writes a text over 16 tokens, in which three of four tokens follow from the one before. Returns the unigram
        entropy."""
        draw = random.Random(seed)
        tokens = [0]
        while len(tokens) < size:
            tokens.append((5 * tokens[-1] + 3) % 16 if draw.random() < 0.75 else draw.randrange(16))
        (self.root / name).write_bytes(header + struct.pack(f"<{size}H", *tokens))
        shares = [count / size for count in collections.Counter(tokens).values()]
        return -sum(share * math.log(share) for share in shares)

    def test_gpt2_learns_a_text_in_either_kind_of_file(self):
        self.write_text("train.bin", 20001, seed=1)  # nanoGPT's format
        header = struct.pack("<3i", 20240520, 1, 2001).ljust(1024, b"\0")  # llm.c's format
        entropy = self.write_text("val.bin", 2001, seed=2, header=header)
        for preset in ("fp32", "bf16"):
            job = self.run_job(TEXT_JOB.format(preset=preset))
            self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
            final = job["attempts"][-1]["outcome"]["finalMetrics"]
            print(f"  {preset}: {final['evalLoss']:.3f}, unigram entropy {entropy:.3f}", flush=True)
            self.assertLess(final["evalLoss"], 0.75 * entropy)
            self.assertAlmostEqual(final["evalPerplexity"], math.exp(final["evalLoss"]), places=6)
            self.assertEqual(job["progress"]["evalPerplexity"], final["evalPerplexity"])
            self.assertIn("perplexity", self.service.ampctl("job", "show", job["id"])[1])
            saved = self.saved_tensors(job)
            self.assertEqual(saved["transformer.h.1.attn.c_attn.weight"]["shape"], [32, 96])
            self.assertEqual(saved["transformer.wpe.weight"]["shape"], [40, 32])
            self.assertEqual(len(saved), 2 + 12 * 2 + 2)

    def test_pairs_of_model_and_data_that_do_not_fit_are_refused_by_name(self):
        for job, field in ((JOB.replace("{lenet: {widths: [4, 8], hidden: 16}}", "{gpt2: {}}"), "data.train.synthetic"),
                           (TEXT_JOB.format(preset="fp32").replace("sequence_length: 32", "sequence_length: 41"),
                            "data.train.tokens.sequence_length")):
            code, _, errors = self.service.ampctl("job", "submit", "-f", "-", text=job)
            self.assertNotEqual(code, 0)
            self.assertIn(field, errors)

    def test_initial_weights_are_what_training_begins_with(self):
        tuned = JOB.replace("learning_rate: 1e-3", "learning_rate: 0.1").replace("steps: 5", "steps: 160")
        first = self.run_job(tuned)
        self.assertEqual(first["state"], "SUCCEEDED", first.get("message"))
        saved = first["checkpoints"][-1]["path"]
        model = next(self.service.folder.rglob(f"{saved}/model.safetensors"))
        shutil.copyfile(model, self.root / "weights.safetensors")
        weights = "hidden: 16}, initial_weights: root/weights.safetensors}"
        second = self.run_job(tuned.replace("hidden: 16}}", weights))
        self.assertEqual(second["state"], "SUCCEEDED", second.get("message"))
        before, after = self.losses(first), self.losses(second)
        self.assertLess(after[0], 0.7 * before[0], "the first loss is that of fresh weights")
        wrong = self.service.submit(tuned.replace("hidden: 16}}", weights).replace("hidden: 16", "hidden: 8"))
        self.expect_failure(self.service, wrong, "DATA_ERROR",
                            'model.initial_weights "root/weights.safetensors": the tensors are not the model\'s',
                            "3 of another shape (", "[16, ")
        loaded, = self.told(second, "WEIGHTS_LOADED")
        self.assertEqual(loaded["attributes"]["num_tensors"], "8")

    def test_new_head_on_loaded_weights_and_a_clone_that_needs_no_file(self):
        first = self.run_job()
        model = next(self.service.folder.rglob(f"{first['checkpoints'][-1]['path']}/model.safetensors"))
        shutil.copyfile(model, self.root / "backbone.safetensors")
        tuned = JOB.replace("hidden: 16}}", "hidden: 16, num_classes: 12}, initial_weights: root/backbone.safetensors, "
                                            "initialize_anew: [classifier.2.*]}")
        second = self.service.submit(tuned.replace("steps: 5", "steps: 100000000") + "checkpoint: {every_steps: 5}\n")
        self.addCleanup(self.service.ampctl, "job", "cancel", second)
        wait_for(lambda: self.service.read("job", "show", second).get("checkpoints"), "a checkpoint")
        self.assertEqual(self.service.ampctl("job", "cancel", second)[0], 0)
        self.assertEqual(self.service.finished(second)["state"], "CANCELLED")
        loaded, = self.told({"id": second}, "WEIGHTS_LOADED")
        self.assertIn("2 begin anew: classifier.2.bias, classifier.2.weight", loaded["message"])
        (self.root / "backbone.safetensors").unlink()
        code, out, err = self.service.ampctl("job", "retry", second, "-q")
        self.assertEqual(code, 0, err)
        again = out.strip()
        self.addCleanup(self.service.ampctl, "job", "cancel", again)
        self.worker.await_step(again, 6)
        self.assertEqual(self.service.ampctl("job", "cancel", again)[0], 0)
        self.assertEqual(self.service.finished(again)["state"], "CANCELLED")
        self.assertEqual(self.told({"id": again}, "WEIGHTS_LOADED"), [])
        code, _, err = self.service.ampctl("job", "retry", first["id"])
        self.assertNotEqual(code, 0)
        self.assertIn("nothing is left to continue", err)
        self.assertIn(f"run it again: ampctl --address {self.service.address} job clone {first['id']}", err)

    def test_job_begins_with_the_checkpoint_of_another(self):
        tuned = JOB.replace("learning_rate: 1e-3", "learning_rate: 0.1").replace("steps: 5", "steps: 160")
        first = self.run_job(tuned)
        begins = tuned.replace("hidden: 16}}", f"hidden: 16}}, initial_checkpoint: {{job_id: {first['id']}}}}}")
        second = self.run_job(begins)
        self.assertEqual(second["state"], "SUCCEEDED", second.get("message"))
        self.assertEqual(second["spec"]["model"]["initialCheckpoint"], {"jobId": first["id"], "step": "160"})
        self.assertEqual(int(second["progress"]["step"]), 160)
        self.assertLess(self.losses(second)[0], 0.7 * self.losses(first)[0], "the first loss is that of fresh weights")
        loaded, = self.told(second, "WEIGHTS_LOADED")
        self.assertEqual(loaded["attributes"]["num_tensors"], "8")
        tens = begins.replace("hidden: 16}", "hidden: 16, num_classes: 12}")
        code, _, errors = self.service.ampctl("job", "submit", "-f", "-", text=tens)
        self.assertNotEqual(code, 0)
        self.assertIn("2 of another shape (classifier.2.bias: [10] instead of [12], ", errors)
        headed = self.run_job(tens.replace("}}\ndata", "}, initialize_anew: [classifier.2.*]}\ndata"))
        self.assertEqual(headed["state"], "SUCCEEDED", headed.get("message"))
        self.assertIn("2 begin anew", self.told(headed, "WEIGHTS_LOADED")[0]["message"])
        for wrong, words in ((first["id"][:-1] + "!", "there is no job"), (f"{first['id']}, step: 7", "keeps no checkpoint")):
            code, _, errors = self.service.ampctl("job", "submit", "-f", "-", text=begins.replace(first["id"], wrong))
            self.assertNotEqual(code, 0)
            self.assertIn(words, errors)

    def test_best_checkpoint_stays_beside_the_newest(self):
        restless = JOB.replace("{sgd: {learning_rate: 1e-3}}", "{adamw: {learning_rate: 0.3}}").replace("steps: 5", "steps: 12")
        held_out = "  eval: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 64, seed: 3}}\n  batch_size"
        job = self.run_job(restless.replace("  batch_size", held_out)
                           + "eval: {every_steps: 1}\ncheckpoint: {every_steps: 3, keep: 1, keep_best: true}\n")
        self.assertEqual(job["state"], "SUCCEEDED", job.get("message"))
        evals = [point for segment in self.service.read("job", "points", job["id"])["segments"] for point in segment["evals"]]
        best = min(evals, key=lambda point: point["loss"])
        self.assertNotEqual(best["step"], "12", "the newest is the best: this shows nothing")
        kept = self.service.read("checkpoint", "list", job["id"])
        print(f"  best at step {best['step']}: {best['loss']}", flush=True)
        self.assertEqual([checkpoint["step"] for checkpoint in kept], sorted({best["step"], "12"}, key=int))
        self.assertEqual(kept[0]["evalLoss"], best["loss"])
        folder = self.worker.checkpoints / job["id"] / "1"
        expected = {f"step-{checkpoint['step']}" for checkpoint in kept}
        wait_for(lambda: {path.name for path in folder.iterdir()} == expected, "the others are removed")

    def test_training_that_stops_improving_stops_early_and_says_so(self):
        held_out = "  eval: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 64, seed: 3}}\n  batch_size"
        text = JOB.replace("  batch_size", held_out).replace("steps: 5", "epochs: 5") + "eval: {every_steps: 2}\n"
        # After the first evaluation none is an improvement, because no loss falls by 1000.
        flags = ("--set", "train.early_stopping.patience=2", "--set", "train.early_stopping.min_delta=1000")
        jobs = [self.service.finished(self.service.submit(text, "--set", f"precision.preset={preset}", *flags))
                for preset in ("fp32", "bf16")]
        job = jobs[0]
        self.assertEqual((job["state"], job["reason"]), ("SUCCEEDED", "SUCCEEDED_NORMALLY"), job.get("message"))
        self.assertTrue(job["message"].startswith("training stopped early at step 6 of 40: eval_loss has not fallen by more than 1000 below "))
        self.expect_clean_line(job["message"])
        self.assertEqual((job["progress"]["step"], job["progress"]["totalSteps"]), ("6", "40"))
        self.assertEqual(job["spec"]["train"]["earlyStopping"], {"metric": "EVAL_LOSS", "patience": 2, "minDelta": 1000})
        outcome = job["attempts"][-1]["outcome"]
        self.assertEqual((outcome["kind"], outcome["lastStep"]), ("FINISHED", "6"))
        last = job["checkpoints"][-1]
        self.assertEqual((last["step"], last["evalLoss"]), ("6", outcome["finalMetrics"]["evalLoss"]))
        self.assertEqual(last["stateHash"], outcome["finalMetrics"]["stateHash"])
        stop, = self.told(job, "STOPPED_EARLY")
        self.assertEqual((stop["step"], stop["message"]), ("6", job["message"]))
        self.assertEqual(stop["attributes"]["best_step"], "2")
        for command in ("show", "watch"):
            code, out, err = self.service.ampctl("job", command, job["id"])
            self.assertEqual(code, 0, err)
            self.assertIn("training stopped early at step 6 of 40", out)
        self.assertIn("step 6/40 (stopped early)", self.service.ampctl("job", "show", job["id"])[1])
        self.assertIn("stopped early: training stopped early at step 6", self.service.ampctl("job", "events", job["id"])[1])
        self.assertEqual(self.service.ampctl("job", "wait", job["id"])[0], 0)

        code, out, err = self.service.ampctl("compare", *(each["id"] for each in jobs))
        self.assertEqual(code, 0, err)
        self.assertIn("Stopped early by train.early_stopping: ", out)
        code, _, err = self.service.ampctl("job", "retry", job["id"])
        self.assertNotEqual(code, 0)
        self.assertIn("nothing is left to continue", err)
        code, out, err = self.service.ampctl("job", "clone", job["id"], "-q")
        self.assertEqual(code, 0, err)
        clone = self.service.finished(out.strip())
        self.assertEqual(clone["attempts"][-1]["outcome"]["finalMetrics"]["stateHash"], last["stateHash"])
        self.assertEqual(clone["message"], job["message"])
        without = self.run_job(text.replace("hidden: 16}}", f"hidden: 16}}, initial_checkpoint: {{job_id: {job['id']}}}}}"))
        self.assertEqual((without["state"], without["progress"]["step"]), ("SUCCEEDED", "40"), without.get("message"))
        self.assertNotIn("message", without)

        code, _, err = self.service.ampctl("job", "submit", "-f", "-", "--set", "train.early_stopping.patience=0", text=text)
        self.assertNotEqual(code, 0)
        self.assertIn("train.early_stopping.patience: is 0; must be 1 to 1000000", err)


if __name__ == "__main__":
    main()
