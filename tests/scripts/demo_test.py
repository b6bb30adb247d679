#!/usr/bin/env python3
"""Tests the output of scripts/demo for jobs that miss its bounds and for jobs that meet them."""
import contextlib
import io
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/learning"))

import demo


def rows(**changes):
    """Returns the rows of a successful demo. An argument changes one field: fp16_accuracy=0.5 sets the accuracy of
    fp16."""
    made = [{"precision": precision, "state": "SUCCEEDED", "accuracy": accuracy, "skipped_steps": skipped,
             "final_loss_scale": scale, "steps_per_second": 40.0, "peak_memory_bytes": 2**28, "emulated": False}
            for precision, accuracy, skipped, scale in
            (("fp32", 0.9011, 0, 1.0), ("bf16", 0.899, 0, 1.0), ("fp16", 0.9006, 13, 2.0**17))]
    for name, value in changes.items():
        precision, field = name.split("_", 1)
        entry = next(entry for entry in made if entry["precision"] == precision)
        assert field in entry
        entry[field] = value
    return made


class Shortfalls(unittest.TestCase):
    def expect(self, *sentences, **changes):
        self.assertEqual(demo.shortfalls(rows(**changes)), list(sentences))

    def test_jobs_that_show_everything_have_none(self):
        self.expect()
        self.expect(fp32_accuracy=0.905, bf16_accuracy=0.89)

    def test_a_job_that_has_not_succeeded_is_named_with_its_state_and_asked_nothing_more(self):
        self.expect("fp16 is FAILED and not SUCCEEDED", fp16_state="FAILED", fp16_accuracy=0.0, fp16_skipped_steps=0)
        self.expect("fp32 is CANCELLED and not SUCCEEDED", fp32_state="CANCELLED", fp32_accuracy=0.0)

    def test_a_low_accuracy_is_reported(self):
        self.expect("bf16 has an accuracy of 0.8899, below 0.89", bf16_accuracy=0.8899)

    def test_an_accuracy_far_from_fp32_is_reported(self):
        self.expect("bf16 has an accuracy of 0.917, more than 0.015 from fp32's 0.9011", bf16_accuracy=0.917)
        self.expect("fp16 has an accuracy of 0.895, more than 0.015 from fp32's 0.911", fp16_accuracy=0.895,
                    fp32_accuracy=0.911, bf16_accuracy=0.9)

    def test_fp16_without_an_overflow_is_reported(self):
        self.expect("fp16 has skipped no step: nothing overflowed at a loss scale of 67108864", fp16_skipped_steps=0,
                    fp16_final_loss_scale=2.0**26)

    def test_fp16_whose_scale_has_not_grown_again_is_reported(self):
        self.expect("fp16 has not recovered: its loss scale ends at 8192, where 13 skipped steps left it",
                    fp16_final_loss_scale=2.0**13)
        self.expect(fp16_final_loss_scale=2.0**14)


LEARNED = {"run": "gpt2-text", "precision": "bf16", "state": "SUCCEEDED", "steps": 10, "seconds": 1.0,
           "metric": "evalLoss", "value": 3.0, "bound": 2.0}


class Report(unittest.TestCase):
    def report(self, jobs, learned, as_json):
        """Returns the exit code, and the lines in the order in which a terminal shows them."""
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code = demo.report(jobs, learned, as_json)
        return code, text.getvalue().splitlines()

    def test_json_is_the_last_line_also_after_shortfalls(self):
        code, lines = self.report(rows(), [], True)
        self.assertEqual((code, len(lines)), (0, 1))
        code, lines = self.report(rows(bf16_accuracy=0.5, bf16_steps_per_second=20.0), [], True)
        self.assertEqual((code, len(lines)), (1, 3))
        self.assertEqual(lines[0], "demo: bf16 has an accuracy of 0.5, below 0.89")
        self.assertEqual(json.loads(lines[-1])["bf16_speedup"], 0.5, "told, and no shortfall")

    def test_a_table_is_followed_by_the_shortfalls(self):
        code, lines = self.report(rows(), [], False)
        self.assertEqual(code, 0)
        self.assertEqual(lines[-1], "bf16 takes 1.00 times the steps of fp32 in the same time, on this machine.")
        code, lines = self.report(rows(fp16_state="FAILED"), [], False)
        self.assertEqual((code, lines[-1]), (1, "demo: fp16 is FAILED and not SUCCEEDED"))

    def test_a_longer_run_that_has_not_learned_enough_is_reported(self):
        for reached, expected in ((True, 0), (False, 1)):
            code, lines = self.report(rows(), [LEARNED | {"reached": reached}], False)
            self.assertEqual(code, expected)
            self.assertEqual("demo: gpt2-text in bf16 has not come to what is asked of it" in lines, not reached)


if __name__ == "__main__":
    unittest.main()
