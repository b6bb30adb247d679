#!/usr/bin/env python3
"""Jobs learn from real data: images of clothes, a text, and verses of two Testaments, in fp32 and in bf16.

Usage: learning_test.py FOLDER_OF_BINARIES [REPORT.xml]. Takes short runs; with AMPD_LEARNING=full those of the job files
of examples/ as they are. Ends only the processes that it started, by their ids.
"""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import learning_runs
from service import Service
from service_case import BINARIES, ServiceCase, main

IS_SHORT = os.environ.get("AMPD_LEARNING", "") != "full"
MOST_SECONDS = 900 if IS_SHORT else 7200


class Learning(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.texts = cls.service.folder / "texts"
        roots = learning_runs.prepare(cls.texts, BINARIES / "ampctl")
        cls.service.start_worker(threads=2, flags=[word for root in roots for word in ("--data-root", root)])

    def learn(self, run):
        for precision in learning_runs.PRECISIONS:
            with self.subTest(run.name, precision=precision):
                start = time.monotonic()
                job = self.service.submit(run.job_file().read_text(), *run.flags(precision, IS_SHORT))
                final = self.service.finished(job, MOST_SECONDS)
                self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
                metrics = final["attempts"][-1]["outcome"]["finalMetrics"]
                bound = (run.short_bound if IS_SHORT else run.bound)(self.texts)
                value = metrics[run.metric]
                print(f"  {run.name} {precision}: {final['progress']['step']} steps in {time.monotonic() - start:.0f} s, "
                      f"train loss {metrics['trainLoss']:.4f}, loss {metrics['evalLoss']:.4f}, {run.metric} {value:.4f}, "
                      f"bound {bound:.4f}", flush=True)
                self.assertTrue(run.reached(value, bound), f"{run.metric} {value}, bound {bound}")

    def test_a_resnet_knows_clothes(self):
        self.learn(learning_runs.FASHION_RESNET)

    def test_a_gpt2_goes_on_with_a_text(self):
        self.learn(learning_runs.GPT2_TEXT)

    def test_a_bert_tells_verses_apart(self):
        self.learn(learning_runs.BERT_TEXTS)


if __name__ == "__main__":
    main()
