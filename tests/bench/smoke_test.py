#!/usr/bin/env python3
"""Checks that every subcommand of scripts/bench runs and prints the keys that it promises. Each takes only one turn, so
its numbers mean nothing.

Usage: smoke_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tools/bench")]

from service_case import BINARIES, main  # noqa: E402

PRESETS = {"fp32", "bf16", "fp16"}


def keys_of(answer):
    """Returns the structure of an answer: every number, text and null in it is replaced by {}."""
    if isinstance(answer, dict):
        return {key: keys_of(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [keys_of(value) for value in answer]
    return {}


def numbers_of(answer):
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, list):
        return [number for value in answer for number in numbers_of(value)]
    return [answer] if isinstance(answer, (int, float)) else []


def fields(*names, **nested):
    return {**{name: {} for name in names}, **nested}


class SmokeTest(unittest.TestCase):
    def run_bench(self, what):
        done = subprocess.run([sys.executable, ROOT / "tools/bench/bench.py", "--bin", BINARIES, what, "--json", "--smoke"],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, f"{what}: {done.stderr[-2000:]}")
        answer = json.loads(done.stdout)
        return answer

    def test_submit(self):
        answer = self.run_bench("submit")
        row = fields("outstanding", "calls", "failed", "seconds", "calls_per_second", "p50_ms", "p99_ms", "jobs_per_flush")
        self.assertEqual(keys_of(answer), {"submit": 3 * [row], "disk_flushes_per_second": [{}, {}, {}]})
        for row in answer["submit"]:
            self.assertGreater(row["calls"], 0)
            self.assertEqual(row["failed"], 0)

    def test_submit_network(self):
        answer = self.run_bench("submit-network")
        self.assertEqual(keys_of(answer), {"submit_network": fields(
            "outstanding", "rounds", calls_per_second=fields("plain", "tls", "proxy"), times_plain=fields("tls", "proxy"))})
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_first_step(self):
        answer = self.run_bench("first-step")
        self.assertEqual(keys_of(answer), {"first_step_ms": fields("p50", "max", "rounds"), "cold_python_ms": fields("p50")})
        self.assertGreater(answer["first_step_ms"]["p50"], 0)

    def test_step(self):
        answer = self.run_bench("step")
        self.assertEqual(keys_of(answer), fields("rounds", "steps_a_round", ampd_steps_per_second=fields(*PRESETS),
                                                 eager_steps_per_second=fields(*PRESETS - {"fp16"})))
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_optimizer_step(self):
        answer = self.run_bench("optimizer-step")
        bandwidths = ("copy", "read", "triad")
        row = fields("threads", "times_torch", "times_libtorch", ms=fields("ours", "torch", "libtorch", *bandwidths),
                     gb_per_second=fields("ours", *bandwidths))
        self.assertEqual(keys_of(answer), fields("parameters", "pairs", optimizer_step=[row, row]))
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_train_step(self):
        answer = self.run_bench("train-step")
        contestants = fields("ampd_fp32", "ampd_bf16", "eager_bf16", "compile_bf16")
        row = fields("network", "threads", "bf16_over_fp32", "bf16_over_eager", "turns", "steps_a_turn",
                     ms_a_step=contestants, last_loss=contestants)
        self.assertEqual(keys_of(answer), {"train_step": [row]})
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_gradient_sample(self):
        answer = self.run_bench("gradient-sample")
        row = fields("network", "threads", "ms_a_step", "ms_a_sample", "percent_at_one_in_100", "turns", "steps_a_turn")
        self.assertEqual(keys_of(answer), {"gradient_sample": [row]})

    def test_data(self):
        answer = self.run_bench("data")
        rates = fields("ampd", "libtorch_0", "libtorch_2", "pytorch_0", "pytorch_2")
        times = fields("0_workers", "2_workers")
        source = fields("source", "samples", "batch_size", "turns", samples_per_second=rates, times_libtorch=times,
                        times_pytorch=times)
        step = fields("precision", "steps", "ms_a_step", "ms_waited_a_step", "wait_percent")
        self.assertEqual(keys_of(answer), {"data": 2 * [source], "lenet_step": 2 * [step]})
        self.assertEqual([row["source"] for row in answer["data"]], ["idx", "tokens"])
        self.assertGreater(min(numbers_of(answer["data"])), 0)

    def test_estimate(self):
        answer = self.run_bench("estimate")
        row = fields("network", "nodes", "candidates", "one_ms", "all_ms")
        self.assertEqual(keys_of(answer), fields("rounds", estimate=4 * [row]))
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_checkpoint(self):
        answer = self.run_bench("checkpoint")
        durable = ("ours_fsync", "torch_save_fsync", "safetensors_fsync")
        self.assertEqual(keys_of(answer), {"checkpoint": fields(
            "bytes", "rounds", "torch_save_over_stall", "torch_save_over_ours", "safetensors_over_ours",
            ms=fields("first_stall", "stall", "torch_save", *durable), mb_per_second=fields(*durable))})
        self.assertGreater(min(numbers_of(answer)), 0)

    def test_every_subcommand_is_tried_here(self):
        from bench import BENCHES
        tried = {name.removeprefix("test_").replace("_", "-") for name in dir(self) if name.startswith("test_")}
        self.assertEqual(tried - {"every-subcommand-is-tried-here"}, set(BENCHES))


if __name__ == "__main__":
    main()
