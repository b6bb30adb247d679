#!/usr/bin/env python3
"""Runs every command of docs/operator/monitor.md against the real programs and Debian's Prometheus, which scrapes them
once a second while jobs train.

An hour of Prometheus is a minute here: the test divides all durations of the rules by 60. GPUs come from a fake NVML,
and the numbers of their jobs from a trainer that follows a script, so no GPU is needed.

Usage: monitor_page_test.py FOLDER_OF_BINARIES [REPORT.xml] [unittest's arguments]. With AMPD_PICTURES=FOLDER, the
dashboards are drawn into that folder; the pictures of docs/pictures were made so.
"""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tools/dashboards")]

import draw  # noqa: E402
import queries  # noqa: E402
from service import Program, Service, pass_time, wait_for  # noqa: E402
from service_case import BINARIES, main  # noqa: E402

PAGE = ROOT / "docs/operator/monitor.md"
SCALE = 60  # Seconds of Prometheus's rules that pass in one second.
HEALTHY_SECONDS = 60
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

JOB = """
name: {name}
model: {{lenet: {{widths: [4, 8], hidden: 16}}}}
data:
  train: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 2048, seed: 3}}}}
  eval: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}}}}
  batch_size: 32
precision: {precision}
optimizer: {{adamw: {{learning_rate: {rate}}}}}
train: {{steps: {steps}, clip_grad_norm: 1.0, seed: 5, num_threads: 1}}
eval: {{every_steps: 100}}
checkpoint: {{every_steps: 100, keep: 2}}
resources: {{kind: {kind}}}
"""
# Its loss is soon NaN.
DIVERGING = """
name: diverging
model: {mlp: {in_features: 12, hidden: [64, 64], num_classes: 3}}
data: {train: {synthetic: {shape: [12], num_classes: 3, num_samples: 40, seed: 9}}, batch_size: 8}
precision: {preset: fp16}
optimizer: {adamw: {learning_rate: 5}}
train: {steps: 60, seed: 5, num_threads: 1}
resources: {kind: CPU}
"""
AFTER_FAULTS = {"Alerts", "Faults"}  # Panels that are empty as long as all is well.
# An alert that may rightly fire: the machine of the tests has few cores and much to do.
TRUE_HERE = {"AmpdJobCpuStarved"}
NEARLY_FULL = 0.05  # AmpdWorkerDiskNearlyFull fires below this share of free bytes.
BF16 = "{preset: bf16}"
# The scale grows every hundred steps, and soon overflows each time: about one step in a hundred is skipped.
FP16 = "{preset: fp16, loss_scale: {dynamic: {initial: 1048576, cap: 1073741824, growth_interval: 100}}}"


def scaled(text):
    """Returns rules whose durations are shorter by the factor SCALE."""
    def shorter(match):
        seconds = int(match.group(2)) * SECONDS[match.group(3)] / SCALE
        return f"{match.group(1)}{max(1, round(seconds))}s{match.group(4)}"
    text = re.sub(r"(\[)(\d+)([smhd])(\])", shorter, text)
    text = text.replace(", 24 * 3600)", f", {24 * 3600 // SCALE})")  # How far a prediction looks ahead.
    text = re.sub(r"(offset )(\d+)([smhd])( )", shorter, text)
    return re.sub(r"( for: )(\d+)([smhd])(\n)", shorter, text)


def true_of_the_disk(free, size):
    """Returns the alerts that rightly fire on a disk of `size` bytes of which `free` bytes (a list, once a second) were
    free: other programs use the disk, too."""
    alerts = set()
    if min(free) < NEARLY_FULL * size:
        alerts.add("AmpdWorkerDiskNearlyFull")
    # A day, of which the rule predicts whether the disk lasts, is that many of the observed periods.
    periods = 24 * 3600 / SCALE / len(free)
    if max(free) / 2 < (max(free) - min(free)) * periods and min(free) < size / 2:
        alerts.add("AmpdDiskFillsUp")
    return alerts


def sections():
    """Returns {heading: [commands]} of the page, in order."""
    found = {}
    for heading, text in re.findall(r"^#+ (.*?)\n(.*?)(?=^#+ |\Z)", PAGE.read_text(), re.M | re.S):
        found[heading] = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return found


class MonitorPage(unittest.TestCase):
    """One run of everything. The cases look at what it left in Prometheus."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES, cls.authority())
        cls.enterClassContext(cls.service)
        cls.folder = pathlib.Path(cls.service.folder)
        (cls.folder / "helm").symlink_to(ROOT / "helm")
        cls.sections, cls.ran = sections(), []
        cls.worker = cls.service.start_worker("w1", ["--metrics-listen", "127.0.0.1:0", "--device", "cpu"])
        cls.start_gpu_worker()
        wait_for(lambda: len(cls.service.read("worker", "list")) == 2, "both workers attach")
        cls.start_prometheus()

    @classmethod
    def authority(cls):
        """Makes a certificate authority. Returns the flags with which the server trusts it: those for a proxy, so that
        the API itself needs no TLS."""
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run([BINARIES / "ampd-server", "init", "--data-dir", folder / "data", "--host", "localhost"],
                       check=True, capture_output=True)
        (folder / "proxy").mkdir(mode=0o700)
        return ["--proxy-socket", folder / "proxy/ampd.sock", "--tls-client-ca", folder / "data/tls/ca.pem"]

    @classmethod
    def start_gpu_worker(cls):
        """Starts a worker with two GPUs of the fake NVML, and with trainers that follow scripts."""
        libraries = cls.folder / "libraries"
        libraries.mkdir()
        (libraries / "libnvidia-ml.so.1").symlink_to(BINARIES.parent / "tests/fakes/libfake_nvml.so")
        cls.gpu_worker = Program(
            [BINARIES / "ampd-worker", "--server", cls.service.address, "--name", "gpu1", "--state-dir",
             cls.folder / "gpu1", "--trainer", BINARIES / "ampd-scripted-trainer", "--device", "gpu0", "--device",
             "gpu1", "--metrics-listen", "127.0.0.1:0"],
            cls.folder / "gpu1.log", env=dict(os.environ, LD_LIBRARY_PATH=str(libraries),
                                              FAKE_NVML_XID_FILE=str(cls.folder / "xid")))
        cls.addClassCleanup(cls.gpu_worker.kill)

    @classmethod
    def run_block(cls, block):
        """Runs commands of the page as an operator would, with the addresses of this run."""
        cls.ran.append(block)
        text = block.replace("127.0.0.1:7071", cls.service.metrics).replace("127.0.0.1:9090", cls.prometheus_address)
        text = text.replace("10s", "1s")
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", text], cwd=cls.folder, capture_output=True,
                              text=True, timeout=120, check=False,
                              env=dict(os.environ, PATH=f"{BINARIES}:{os.environ['PATH']}",
                                       AMPD_ADDRESS=cls.service.address))
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    @classmethod
    def start_prometheus(cls):
        cls.prometheus_address = "127.0.0.1:0"
        for block in cls.sections["Prometheus"]:
            if block.rstrip().endswith("&"):
                cls.start_in_background(block)
            else:
                cls.run_block(block)
            if "cp -r helm/ampd/rules" in block:
                for path in (cls.folder / "rules").glob("*.yaml"):
                    path.write_text(scaled(path.read_text()))

    @classmethod
    def start_in_background(cls, block):
        cls.ran.append(block)
        command = block.strip().removesuffix("&").replace("\\\n", "").replace("127.0.0.1:9090", "127.0.0.1:0").split()
        program = Program(command, cls.folder / "prometheus.log", cwd=cls.folder)
        cls.addClassCleanup(program.kill)
        # It listens on a free port, which only its log names.
        address = re.compile(r"Listening on.*address=(\S+)")
        match = wait_for(lambda: address.search(program.log()) or not program.running(), "Prometheus listens")
        wait_for(lambda: "Server is ready" in program.log() or not program.running(), "Prometheus is ready")
        assert program.running(), program.log()
        cls.prometheus_address = match.group(1)
        cls.prometheus = queries.Prometheus(f"http://{cls.prometheus_address}")
        wait_for(lambda: len(cls.prometheus.now("up == 1")) == 3, "Prometheus scrapes the server and both workers")

    def firing(self):
        return {labels["alertname"] for labels, _ in self.prometheus.now('ALERTS{alertstate="firing"}')}

    def numbers_of(self, job):
        """Returns {step: {name: value}} of the metric store."""
        columns = {"loss": "loss", "loss_scale": "lossScale", "memory_allocated_bytes": "memoryAllocatedBytes",
                   "grad_norm": "gradNorm"}
        return {int(step): {name: float(segment["steps"][column][i]) for name, column in columns.items()}
                for segment in self.service.read("job", "points", job)["segments"]
                for i, step in enumerate(segment["steps"].get("step", []))}

    def test_1_jobs_train_for_an_hour_and_no_alert_fires(self):
        jobs = [self.service.submit(JOB.format(name=name, precision=precision, rate=1e-3, steps=steps, kind=kind))
                for name, precision, steps, kind in (("fp16", FP16, 800, "CPU"), ("bf16", BF16, 1000000, "CPU"),
                                                     ("gpu", BF16, 1000000, "GPU"))]
        type(self).jobs, type(self).began = jobs, time.time()
        # Before Prometheus's first scrape there was no server.
        wait_for(lambda: self.firing() <= TRUE_HERE, "no alert fires")
        seen, free = set(), []
        start, second_began = time.monotonic(), None
        # An hour, in which the second job has at least ten minutes. On a busy machine the first one takes longer.
        while time.monotonic() < start + HEALTHY_SECONDS or time.monotonic() < (second_began or start + 240) + 10:
            if second_began is None and self.service.job(jobs[1])["state"] == "RUNNING":
                second_began = time.monotonic()
            seen |= self.firing()
            disk = shutil.disk_usage(self.folder)
            free.append(disk.free)
            self.service.ampctl("job", "show", "j-aaaaaaaaaaaaaaaa")  # The caller's fault.
            pass_time(1)
        self.assertLessEqual(seen, TRUE_HERE | true_of_the_disk(free, disk.total), self.prometheus.now("ALERTS"))
        self.assertEqual([self.service.job(job)["state"] for job in jobs], ["SUCCEEDED", "RUNNING", "RUNNING"])

    def test_2_prometheus_has_all_rules_and_can_evaluate_them(self):
        rules = [rule for group in self.prometheus.call("rules")["groups"] for rule in group["rules"]]
        names = {rule["name"] for rule in rules}
        text = "".join(path.read_text() for path in (ROOT / "helm/ampd/rules").glob("*.yaml"))
        self.assertEqual(names, set(re.findall(r"- (?:alert|record): (\S+)", text)))
        self.assertEqual({rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")}, {})

    def test_3_every_query_of_the_dashboards_has_data(self):
        empty = [(query.board, query.title, query.expr) for query in queries.queries() + queries.annotations()
                 if query.title not in AFTER_FAULTS and not self.has_data(query.expr)]
        self.assertFalse(empty, "\n".join(map(str, empty)))

    def has_data(self, expr):
        """Whether the expression has data at any time of the run. Only a number is data; NaN is none."""
        found = self.prometheus.over_time(queries.fill_in(expr, rate_interval="10s"), self.began, time.time(), 1)
        return any(value == value for _, points in found for _, value in points)

    def test_4_every_variable_of_the_dashboards_has_values(self):
        for board, name, series, label in queries.variables():
            found = self.prometheus.call(f"label/{label}/values", **{"match[]": queries.fill_in(series)})
            self.assertTrue(found, (board, name))

    def test_5_each_scrape_has_the_numbers_of_the_metric_store(self):
        compared = 0
        for job in self.jobs[:2]:
            scraped = {name: dict(self.raw(f'ampd_job_{name}{{job_id="{job}", split=~"train|"}}'))
                       for name in ("steps_total", "loss", "loss_scale", "memory_allocated_bytes", "grad_norm")}
            stored = self.numbers_of(job)
            for moment, step in scraped.pop("steps_total").items():
                for name, samples in scraped.items():
                    self.expect_equal(samples[moment], stored[int(step)][name], (job, int(step), name))
                    compared += 1
        self.say(f"{compared} scraped numbers equal those of the metric store")
        self.assertGreater(compared, 100)
        scales = {numbers["loss_scale"] for numbers in self.numbers_of(self.jobs[0]).values()}
        self.assertGreater(len(scales), 2, "the loss scale moved")

    def raw(self, selector):
        """Returns (time, value) of every scrape of the one series."""
        series = self.prometheus.call("query", query=f"{selector}[10m]")["result"]
        self.assertEqual(len(series), 1, selector)
        return [(float(moment), float(value)) for moment, value in series[0]["values"]]

    def expect_equal(self, scraped, stored, what):
        if math.isfinite(stored):
            self.assertAlmostEqual(scraped, stored, delta=1e-6 * abs(stored), msg=what)  # The store's text is rounded.
        else:
            self.assertEqual(str(scraped), str(stored), what)

    def say(self, line):
        print(f"  {line}", flush=True)

    def test_6_planted_faults_fire_their_alerts(self):
        self.service.ampctl("job", "cancel", self.jobs[1])
        self.service.finished(self.jobs[1])
        final = self.service.finished(self.service.submit(DIVERGING))
        self.assertEqual((final["state"], final["reason"]), ("FAILED", "NONFINITE_LOSS"))
        self.await_alerts("AmpdJobFailedNumerically")
        stuck = self.service.submit(JOB.format(name="stuck", precision=BF16, rate=1e-3, steps=10, kind="CPU"))
        (self.folder / "xid").write_text("79")
        self.await_alerts("AmpdGpuFault")
        self.worker.kill()
        self.await_alerts("AmpdWorkerDown", "AmpdWorkerLost")
        for query in queries.queries():
            if query.title in AFTER_FAULTS:
                self.assertTrue(self.has_data(query.expr), query.title)
        self.service.ampctl("job", "cancel", stuck)

    def await_alerts(self, *names):
        start = time.monotonic()
        wait_for(lambda: set(names) <= self.firing(), f"{names} fire", 150)
        self.say(f"{', '.join(names)} fired after {time.monotonic() - start:.0f} s")

    def test_7_the_dashboards_can_be_drawn(self):
        folder = pathlib.Path(os.environ.get("AMPD_PICTURES") or self.folder)
        draw.draw_all(self.prometheus, folder, HEALTHY_SECONDS + 60, f"{self.jobs[0]}|{self.jobs[2]}")
        for name in queries.boards():
            picture = (folder / f"dashboard-{name}.svg").read_text()
            self.assertLess(len(picture), 200_000, name)
            self.assertGreater(picture.count("<polyline"), 10, name)

    def test_8_every_scraped_family_is_in_the_manual(self):
        rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
        known = {}
        for name, labels in rows:
            known.setdefault(name, set()).update(re.findall(r"\w+", labels))
        for series in self.prometheus.call("series", **{"match[]": '{__name__=~"(ampd|process)_.+", job=~"ampd-.+"}'}):
            name = series.pop("__name__")
            family = name if name in known else re.sub("_(bucket|sum|count)$", "", name)
            self.assertIn(family, known, name)
            own = set(series) - {"job", "instance", "le"}
            if series["job"] == "ampd-worker":  # The target has a label `worker` too, so Prometheus renames the other.
                own -= {"worker", "exported_worker"}
            self.assertLessEqual(own, known[family], name)

    def test_9_all_commands_of_the_page_run(self):
        for heading, blocks in self.sections.items():
            for block in blocks:
                if block not in self.ran:
                    self.assertTrue(self.run_block(block) or "workers.json" in block, (heading, block))
        self.assertEqual(len(self.ran), sum(len(blocks) for blocks in self.sections.values()))
        listed = json.loads((self.folder / "workers.json").read_text())
        self.assertEqual(sorted(group["labels"]["worker"] for group in listed), ["gpu1", "w1"])


if __name__ == "__main__":
    main()
