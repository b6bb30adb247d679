#!/usr/bin/env python3
"""Train Fashion-MNIST in fp32, bf16 and fp16 through ampctl, and compare.

Usage: demo.py --bin FOLDER [--json] [--all]. Starts `ampctl dev` with its state in a temporary folder and stops it at
the end. Exits with 1, and prints a line for each shortfall, if the jobs do not meet their bounds.
"""
import argparse
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import learning_runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 60
# fp16 starts with so high a loss scale that the first steps overflow, back off and recover while the reader watches.
INITIAL_SCALE = 2**26
JOBS = {
    "fp32": [],
    "bf16": [],
    "fp16": ["--set", f"precision.loss_scale.dynamic.initial={INITIAL_SCALE}",
             "--set", f"precision.loss_scale.dynamic.cap={INITIAL_SCALE}",
             "--set", "precision.loss_scale.dynamic.growth_interval=200"],
}
# Bounds that the jobs must meet. The speed of bf16 depends on the machine: docs/benchmarks.md.
LEAST_ACCURACY = 0.89
MOST_FROM_FP32 = 0.015


class Ampd:
    """One `ampctl dev` process and the calls to it."""

    def __init__(self, binaries, folder, data_roots=()):
        self.ampctl = str(binaries / "ampctl")
        self.folder = folder
        self.log = open(folder / "dev.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [self.ampctl, "dev", "--port", "0", "--metrics-port", "0",
             *(word for root in data_roots for word in ("--data-root", root))],
            cwd=folder, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def call(self, *arguments, **options):
        return subprocess.run([self.ampctl, *arguments], cwd=self.folder, text=True, **options)

    def wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while self.call("health", capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                sys.exit("demo: ampctl dev did not start:\n" + self.log.read())
            time.sleep(0.2)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=60)

    def submit(self, job_file, *flags):
        result = self.call("job", "submit", "-q", "-f", str(job_file), *flags, capture_output=True)
        if result.returncode != 0:
            sys.exit("demo: " + result.stderr)
        return result.stdout.strip()

    def printed(self, *arguments):
        return self.call(*arguments, capture_output=True, check=True).stdout

    def finish(self, job, live):
        self.call("job", "watch" if live else "wait", job, stdout=None if live else subprocess.DEVNULL)
        return json.loads(self.printed("job", "show", job, "-o", "json"))


def final_metrics(job):
    return (job.get("attempts") or [{}])[-1].get("outcome", {}).get("finalMetrics", {})


def row(precision, job):
    """Returns the summary of one finished job."""
    final = final_metrics(job)
    return {
        "precision": precision,
        "state": job["state"],
        "accuracy": round(final.get("evalAccuracy", 0.0), 4),
        "steps_per_second": round(final.get("stepsPerSecond", 0.0), 2),
        "peak_memory_bytes": int(final.get("peakMemoryBytes", 0)),
        "final_loss_scale": final.get("finalLossScale", 0.0),
        "skipped_steps": int(final.get("skippedSteps", 0)),
        "emulated": bool(final.get("emulated", False)),
    }


def print_table(rows):
    print(f"\n{'precision':10} {'state':10} {'accuracy':>8} {'steps/s':>8} {'peak MiB':>9} {'loss scale':>11} {'skipped':>8}")
    for entry in rows:
        print(f"{entry['precision']:10} {entry['state']:10} {entry['accuracy']:8.4f} {entry['steps_per_second']:8.1f} "
              f"{entry['peak_memory_bytes'] / 2**20:9.1f} {entry['final_loss_scale']:11g} {entry['skipped_steps']:8d}"
              + ("  emulated: true numerics, not true speed" if entry["emulated"] else ""))


def shortfalls(rows):
    """Returns a sentence for each bound that the jobs have not met."""
    accuracy = {entry["precision"]: entry["accuracy"] for entry in rows if entry["state"] == "SUCCEEDED"}
    found = [f"{entry['precision']} is {entry['state']} and not SUCCEEDED" for entry in rows
             if entry["state"] != "SUCCEEDED"]
    found += [f"{precision} has an accuracy of {value}, below {LEAST_ACCURACY}" for precision, value in accuracy.items()
              if value < LEAST_ACCURACY]
    found += [f"{precision} has an accuracy of {value}, more than {MOST_FROM_FP32} from fp32's {accuracy['fp32']}"
              for precision, value in accuracy.items()
              if round(abs(value - accuracy.get("fp32", value)), 4) > MOST_FROM_FP32]
    for entry in rows:
        if entry["precision"] != "fp16" or entry["state"] != "SUCCEEDED":
            continue
        # Every skipped step halves the scale, to this value. A higher final scale shows that it has grown again.
        fallen = INITIAL_SCALE * 0.5 ** entry["skipped_steps"]
        if entry["skipped_steps"] == 0:
            found.append(f"fp16 has skipped no step: nothing overflowed at a loss scale of {INITIAL_SCALE}")
        elif entry["final_loss_scale"] <= fallen:
            found.append(f"fp16 has not recovered: its loss scale ends at {entry['final_loss_scale']:g}, where "
                         f"{entry['skipped_steps']} skipped steps left it")
    return found


def learn(ampd, texts, live):
    """Runs the longer jobs one after the other. Returns a summary of each and whether it reached its bound."""
    rows = []
    for run in learning_runs.RUNS:
        bound = run.bound(texts)
        for precision in learning_runs.PRECISIONS:
            start = time.monotonic()
            job = ampd.finish(ampd.submit(run.job_file(), *run.flags(precision)), live)
            value = run.value(final_metrics(job), learning_runs.download_samples(job["id"], ampd.folder, ampd.printed))
            rows.append({
                "run": run.name, "precision": precision, "state": job["state"],
                "steps": int(job.get("progress", {}).get("step", 0)), "seconds": round(time.monotonic() - start, 1),
                "metric": run.metric, "value": value, "bound": round(bound, 4),
                "reached": value is not None and run.reached(value, bound)})
    return rows


def print_learned(rows):
    print(f"\n{'run':15} {'precision':10} {'state':10} {'steps':>6} {'seconds':>8}  result")
    for entry in rows:
        value = "none" if entry["value"] is None else f"{entry['value']:.4f}"
        print(f"{entry['run']:15} {entry['precision']:10} {entry['state']:10} {entry['steps']:6d} {entry['seconds']:8.1f}  "
              f"{entry['metric']} {value}, {'as' if entry['reached'] else 'not as'} asked: {entry['bound']}")


def report(rows, learned, as_json):
    """Prints the results, with the JSON on the very last line, and returns the exit code."""
    speeds = {entry["precision"]: entry["steps_per_second"] for entry in rows}
    speedup = round(speeds["bf16"] / speeds["fp32"], 3) if speeds["fp32"] else 0.0
    if not as_json:
        print_table(rows)
        print(f"\nbf16 takes {speedup:.2f} times the steps of fp32 in the same time, on this machine.")
        if learned:
            print_learned(learned)
        sys.stdout.flush()
    wrong = shortfalls(rows) + [f"{entry['run']} in {entry['precision']} has not come to what is asked of it"
                                for entry in learned if not entry["reached"]]
    for sentence in wrong:
        print(f"demo: {sentence}", file=sys.stderr)
    if as_json:
        print(json.dumps({"jobs": rows, "bf16_speedup": speedup} | ({"learned": learned} if learned else {})))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    # SIGTERM ends the demo like Ctrl-C, so that the service is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("demo: ended by SIGTERM"))
    live = sys.stdout.isatty() and not options.json
    with tempfile.TemporaryDirectory(prefix="ampd-demo-") as name, contextlib.ExitStack() as stack:
        texts = pathlib.Path(name) / "texts"
        with contextlib.redirect_stdout(sys.stderr):
            roots = learning_runs.prepare(texts, options.bin / "ampctl") if options.all else []
        ampd = Ampd(options.bin, pathlib.Path(name), roots)
        stack.callback(ampd.stop)
        ampd.wait_until_ready()
        jobs = {precision: ampd.submit(ROOT / "examples" / "fashion.yaml", "--name", f"fashion-{precision}", "--set",
                                       f"precision.preset={precision}", *extra) for precision, extra in JOBS.items()}
        rows = [row(precision, ampd.finish(job, live)) for precision, job in jobs.items()]
        learned = learn(ampd, texts, live) if options.all else []
    return report(rows, learned, options.json)


if __name__ == "__main__":
    sys.exit(main())
