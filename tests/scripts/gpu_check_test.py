#!/usr/bin/env python3
"""Tests scripts/gpu-check: the whole schedule at a multiple of its speed, with stages that only sleep, fail, hang or
print too much; and the runner of test programs. gpu_check_tiny_test.py runs the real stages on this machine's CPU."""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import signal
import stat
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/gpu"))

import gpu_contest  # noqa: E402
import gpu_context  # noqa: E402
import gpu_stages  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu-check"))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", LOADER))
sys.modules["gpu_check"] = gpu_check
LOADER.exec_module(gpu_check)

FASTER = 20  # The schedule of 460 s takes 23 s.
SECONDS = 460
SLACK = 5  # Seconds (not divided by FASTER) that this machine may take to start a process and to notice its end.


def sleep(seconds, status=0):
    """Returns the script of a stage that takes so many seconds of the schedule's time."""
    return f"sleep {seconds / FASTER}; exit {status}"


def alive(pid):
    """Returns whether a process runs. A process that is dead and not yet reaped does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class ScheduleCase(unittest.TestCase):
    def setUp(self):
        self.out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="gpu-check-test-")))
        for number in (signal.SIGTERM, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def run_schedule(self, scripts, seconds=SECONDS, missing=None, stages=gpu_stages.STAGES):
        """Runs the stages with a shell's script for each. Returns (exit code, {stage: its line in results.jsonl})."""
        options = argparse.Namespace(seconds=seconds, out=self.out, faster=FASTER)
        self.table = io.StringIO()
        with contextlib.redirect_stdout(self.table):
            code = gpu_check.run(list(stages), options, lambda stage, _: ["sh", "-c", scripts[stage.name]],
                                 lambda stage: (missing or {}).get(stage.name, ""))
        lines = (self.out / "results.jsonl").read_text(encoding="utf-8").splitlines()
        results = {line["stage"]: line for line in map(json.loads, lines)}
        self.assertEqual(len(results), len(lines), "a stage has two results")
        return code, results

    def expect_within(self, result, limit):
        self.assertGreaterEqual(result["seconds"], limit / FASTER - 0.2, result)
        self.assertLess(result["seconds"], limit / FASTER + SLACK, result)


class WholeSchedule(ScheduleCase):
    def test_stages_that_hang_fail_die_or_are_missing_stop_none_of_the_others(self):
        pids = self.out / "pids"
        limits = {stage.name: stage.limit for stage in gpu_stages.STAGES}
        scripts = {name: sleep(limit / 10) for name, limit in limits.items()}
        # This stage ignores SIGTERM and starts a process in a session of its own, as the service does.
        scripts["training"] = f"trap '' TERM; setsid sleep 600 & echo $! >{pids}; sleep 600"
        scripts["compile"] = "sleep 600"  # This stage runs in the background.
        scripts["zoo"] = "echo 'gpu-check-finding: {\"line\": \"bf16: wrong\"}'; " + sleep(1, status=1)
        scripts["smoke"] = "kill -SEGV $$"
        scripts["kernels"] = "echo 'gpu-check-finding: {\"why\": \"not here\"}'; exit 77"
        scripts["ceilings"] = "head -c 1200000 /dev/zero | tr '\\0' 'x' | fold -w 100"
        code, results = self.run_schedule(scripts, missing={"resume": "the bundle has no trainer"})
        self.assertEqual(code, 1)
        self.assertEqual(set(results), set(limits), "every stage has a line")
        expected = dict.fromkeys(limits, "passed") | {"training": "killed", "compile": "killed", "zoo": "failed",
                                                      "smoke": "failed", "kernels": "skipped", "resume": "skipped"}
        self.assertEqual({name: result["outcome"] for name, result in results.items()}, expected)
        self.expect_within(results["training"], limits["training"])
        self.expect_within(results["compile"], limits["compile"])
        self.expect_within(results["gpt2"], limits["gpt2"] / 10)
        self.assertGreater(results["training"]["at"], results["compile"]["at"])
        self.assertGreater(results["ceilings"]["at"], results["compile"]["at"] + results["compile"]["seconds"] - 0.1,
                           "a stage that measures runs beside another")
        self.assertEqual(results["zoo"]["findings"], [{"line": "bf16: wrong"}])
        self.assertEqual(results["kernels"]["why"], "not here")
        self.assertEqual(results["resume"]["why"], "the bundle has no trainer")
        self.assertEqual(results["training"]["why"], "at its limit of 90 s")
        self.assertFalse(alive(int(pids.read_text(encoding="utf-8"))), "a process of a killed stage is left")
        pids.unlink()
        self.expect_bounded_files()
        self.expect_a_table(len(limits))

    def expect_bounded_files(self):
        files = list(self.out.iterdir())
        self.assertLessEqual(len(files), 8, files)
        self.assertLess(sum(file.stat().st_size for file in files), 2 << 20)
        speed = (self.out / "4-speed.log").read_text(encoding="utf-8")
        self.assertIn("bytes left out", speed)
        self.assertEqual([line[5:] for line in speed.splitlines() if line.startswith("==== ")],
                         ["ceilings", "profile", "gpt2", "resnet50", "gpt2-formats", "resnet50-formats", "optimizer"])

    def expect_a_table(self, num_stages):
        table = (self.out / "table.txt").read_text(encoding="utf-8")
        self.assertTrue(self.table.getvalue().endswith(table))
        self.assertIn("\n    bf16: wrong\n", table)
        self.assertEqual(len([line for line in table.splitlines() if line[:1] != " "]), num_stages + 2)
        self.assertTrue(table.endswith("gpu-check: 12 passed, 2 failed, 2 killed, 2 skipped, 0 stopped\n"), table)

    def test_the_schedule_at_its_limits_ends_in_its_time_and_skips_the_last_stages(self):
        begin = time.monotonic()
        code, results = self.run_schedule({stage.name: "sleep 600" for stage in gpu_stages.STAGES})
        self.assertLess(time.monotonic() - begin, SECONDS / FASTER + SLACK)
        self.assertEqual(code, 1)
        outcomes = [results[stage.name]["outcome"] for stage in gpu_stages.STAGES if not stage.background]
        self.assertEqual(outcomes, sorted(outcomes), "killed until the time is over, skipped from then on")
        self.assertIn("skipped", outcomes)
        self.assertRegex(results["service"]["why"], r"^\d+ s of the time are left$")

    def test_a_stage_with_less_time_than_its_limit_is_killed_at_the_end_of_the_time(self):
        stages = [stage for stage in gpu_stages.STAGES if stage.name == "gpt2"]
        _, results = self.run_schedule({"gpt2": "sleep 600"}, seconds=55, stages=stages)
        self.assertEqual((results["gpt2"]["outcome"], results["gpt2"]["why"]), ("killed", "at its limit of 50 s"))

    def test_all_stages_passed_is_0_and_a_skipped_one_3(self):
        stages = [stage for stage in gpu_stages.STAGES if stage.name in ("smoke", "ceilings")]
        self.assertEqual(self.run_schedule({"smoke": "exit 0", "ceilings": "exit 0"}, stages=stages)[0], 0)
        (self.out / "results.jsonl").unlink()
        self.assertEqual(self.run_schedule({"smoke": "exit 0", "ceilings": "exit 77"}, stages=stages)[0], 3)

    def test_sigterm_ends_the_running_stages_and_prints_the_table(self):
        scripts = {stage.name: sleep(stage.limit / 10) for stage in gpu_stages.STAGES}
        scripts["smoke"] = scripts["compile"] = "sleep 600"
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
        smoke = [stage for stage in gpu_stages.STAGES if stage.name in ("compile", "smoke", "gpt2")]
        timer.start()
        code, results = self.run_schedule(scripts, stages=smoke)
        self.assertEqual(code, 3)
        self.assertEqual({name: result["outcome"] for name, result in results.items()},
                         {"compile": "stopped", "smoke": "stopped", "gpt2": "skipped"})
        self.assertIn("gpu-check: 0 passed, 0 failed, 0 killed, 1 skipped, 2 stopped", self.table.getvalue())


# A test program like GoogleTest's. The test "dies" ends the process. "poison" fails, and so do all tests after it in
# the same process.
PROGRAM = """#!/usr/bin/env python3
import os, sys
NAMES = ["good", "dies", "after", "poison", "poisoned", "bad"]
flags = dict(word.split("=", 1) if "=" in word else (word, "") for word in sys.argv[1:])
if "--gtest_list_tests" in flags:
    print("Suite.\\n  " + "\\n  ".join(NAMES))
    sys.exit(0)
asked = flags["--gtest_filter"].split(":")
ok = True
for name in NAMES:
    if asked != ["*"] and "Suite." + name not in asked:
        continue
    print("[ RUN      ] Suite." + name, flush=True)
    if name == "dies":
        os._exit(11)
    ok = ok and name != "poison"
    good = ok and name != "bad"
    print(("[       OK ]" if good else "[  FAILED  ]") + " Suite." + name + " (0 ms)", flush=True)
"""


class TestPrograms(unittest.TestCase):
    def make_context(self, program, python=sys.executable, torch="none"):
        """Returns the context of a stage whose bundle has one test program and libraries."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="gpu-check-test-")))
        for name in ("tests", "lib"):
            (folder / name).mkdir()
        path = folder / "tests" / "program"
        path.write_text(program, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return gpu_context.Context(argparse.Namespace(bundle=folder, device="gpu0", tiny=False, python=python,
                                                      stage_seconds=60, torch=torch))

    def findings_of(self, work):
        """Runs `work` and returns its result and the lines of its findings."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            result = work()
        mark = gpu_context.FINDING.decode()
        return result, [json.loads(line.removeprefix(mark))["line"] for line in text.getvalue().splitlines()
                        if line.startswith(mark)]

    def test_programs_that_start_at_once_all_find_the_libraries(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="gpu-check-test-")))
        python = folder / "python"  # Takes a while to say where torch is, as python does.
        python.write_text("#!/bin/sh\nsleep 0.3\necho /torch\n", encoding="utf-8")
        python.chmod(0o755)
        context = self.make_context(PROGRAM, python=str(python), torch="")
        for made in gpu_context.at_once([lambda: dict(context.environment())] * 4):
            self.assertTrue(made["LD_LIBRARY_PATH"].startswith(f"{context.bundle.folder / 'lib'}:/torch/lib"), made)

    def test_a_program_that_does_not_start_fails_and_its_message_is_reported(self):
        context = self.make_context("#!/bin/sh\necho 'libfoo.so: cannot open shared object file' >&2\nexit 127\n")
        passed, lines = self.findings_of(lambda: gpu_stages.run_tests(context, "program", "*"))
        self.assertFalse(passed)
        self.assertEqual(lines[0], "program lists no tests for *: libfoo.so: cannot open shared object file")

    def test_what_a_died_process_did_not_reach_runs_again_and_failures_run_alone(self):
        context = self.make_context(PROGRAM)
        passed, lines = self.findings_of(lambda: gpu_stages.run_tests(context, "program", "*"))
        self.assertFalse(passed)
        self.assertEqual(lines, ["Suite.dies died", "Suite.poison failed", "Suite.poisoned failed, and passes alone",
                                 "Suite.bad failed", "program: 2 passed, 4 failed, 0 skipped"])


class Summaries(unittest.TestCase):
    GOOD = {"network": "gpt", "preset": "bf16", "graph_failure": "", "host_waits": False, "losses": [2.5, 2.0],
            "same_losses_op_by_op": True, "largest_difference_from_cpu": 0.001}

    def test_a_result_with_nothing_wrong_has_no_line(self):
        skipped = {"network": "gpt", "preset": "fp8", "skipped": "why"}
        for cell in (self.GOOD, self.GOOD | {"host_waits": None}, skipped):
            summary, wrong = gpu_stages.summary_of(cell)
            self.assertFalse(wrong, cell)
            self.assertNotIn("line", summary)

    def test_a_network_has_trained_only_if_its_losses_are_finite(self):
        self.assertTrue(gpu_stages.has_finite_losses(self.GOOD))
        self.assertFalse(gpu_stages.has_finite_losses(self.GOOD | {"losses": [2.5, None]}))
        self.assertFalse(gpu_stages.has_finite_losses({"network": "gpt", "preset": "bf16", "error": "no kernel"}))

    def test_everything_wrong_is_named(self):
        for change, text in (({"error": "no kernel"}, "no kernel"),
                             ({"graph_failure": "a copy to the host"}, "a copy to the host"),
                             ({"same_losses_op_by_op": False}, "other losses op by op"),
                             ({"losses": [2.5, None]}, "losses are not finite"),
                             ({"largest_difference_from_cpu": None}, "cannot be compared with the CPU's"),
                             ({"host_waits": True}, "the host waits")):
            summary, wrong = gpu_stages.summary_of(self.GOOD | change)
            self.assertTrue(wrong, change)
            self.assertIn(text, summary["line"])


class Contests(unittest.TestCase):
    def test_contestants_train_alike_if_they_begin_and_descend_alike(self):
        def contestant(*losses):
            one = object.__new__(gpu_contest.Contestant)  # Without a process.
            one.losses = list(losses)
            return one

        ours = contestant(300, 200, 12)
        self.assertTrue(contestant(301, 205, 0.5).trains_like(ours), "later losses do not count")
        self.assertFalse(contestant(310, 210, 12).trains_like(ours), "other weights or samples")
        self.assertFalse(contestant(300, 220, 12).trains_like(ours), "another learning rate")
        self.assertFalse(contestant(300, 300, 12).trains_like(ours), "no step is applied")
        self.assertFalse(contestant(float("nan"), 200, 12).trains_like(ours))
        self.assertFalse(contestant(300, float("nan"), 12).trains_like(ours))


if __name__ == "__main__":
    unittest.main()
