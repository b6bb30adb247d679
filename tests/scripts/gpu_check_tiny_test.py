#!/usr/bin/env python3
"""Runs scripts/gpu-check on this machine's CPU with small sizes. Every stage that needs no GPU passes.

Usage: gpu_check_tiny_test.py BUILD_FOLDER
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PASS = {"facts", "smoke", "zoo", "resume", "ceilings", "gpt2", "resnet50", "optimizer", "profile", "service"}


class TinyTest(unittest.TestCase):
    def test_every_stage_that_needs_no_gpu_passes(self):
        out = self.enterContext(tempfile.TemporaryDirectory(prefix="gpu-check-tiny-"))
        done = subprocess.run(
            [sys.executable, ROOT / "scripts/gpu-check", BUILD, "--seconds", "600", "--out", out, "--device", "cpu", "--tiny",
             "--python", ROOT / ".deps/venv/bin/python"], capture_output=True, text=True, check=False)
        logs = "\n".join(path.read_text(encoding="utf-8", errors="replace")[-3000:]
                         for path in sorted(pathlib.Path(out).glob("*.log")))
        self.assertEqual(done.returncode, 3, f"{done.stdout}{done.stderr}{logs}")
        results = [json.loads(line) for line in (pathlib.Path(out) / "results.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual({result["stage"] for result in results if result["outcome"] == "passed"}, PASS)
        self.assertTrue(all(result["outcome"] in ("passed", "skipped") and result["why"] or result["stage"] in PASS
                            for result in results))
        self.expect_the_same_losses(results)

    def expect_the_same_losses(self, results):
        contests = [finding for result in results for finding in result["findings"] if "contestant" in finding]
        self.assertEqual([(one["network"], one["contestant"]) for one in contests],
                         [(network, name) for network in ("gpt2-124m", "resnet50")
                          for name in ("ours bf16", "PyTorch eager bf16")])
        # Without bf16 instructions ours multiplies bf16 in fp32, and the norms over two tiny images enlarge the difference.
        is_native = re.search(r"\b(avx512_bf16|amx_bf16)\b", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        self.assertEqual([(one["network"], one["contestant"]) for one in contests
                          if not one["same_loss"] and (is_native or one["network"] != "resnet50")], [])


if __name__ == "__main__":
    unittest.main()
