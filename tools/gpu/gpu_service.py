"""The last stage of scripts/gpu-check: the whole service, with jobs on the device."""
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from gpu_context import finding

JOB = """
name: gpu-check
model: {resnet: %(model)s}
data:
  train: {synthetic: {shape: %(shape)s, num_classes: 10, num_samples: %(samples)d, seed: 3}}
  batch_size: %(batch)d
precision: {preset: bf16}
optimizer: {adamw: {learning_rate: 1e-3}}
train: {steps: %(steps)d, seed: 5, deterministic: %(deterministic)s}
"""
SMALL = {"model": "{depth: 18, stem: CIFAR}", "shape": "[3, 32, 32]", "samples": 256, "batch": 64, "steps": 30,
         "deterministic": "true"}
TINY = SMALL | {"batch": 4, "steps": 3}
# Takes about 50 MB of activations per sample.
TOO_LARGE = {"model": "{depth: 50, stem: CIFAR}", "shape": "[3, 64, 64]", "samples": 4000, "batch": 4000, "steps": 2,
             "deterministic": "true"}


def ask_service(context, folder, *arguments, seconds=30):
    done = subprocess.run([str(context.bundle.program("ampctl")), *map(str, arguments)], cwd=folder, text=True,
                          capture_output=True, env=context.environment(), check=False, timeout=max(1, seconds))
    print(f"ampctl {' '.join(map(str, arguments))}\n{done.stdout[-20000:]}{done.stderr[-4000:]}", flush=True)
    return done


def run_job(context, folder, name, sizes):
    """Runs a job to its end, or until the stage's time is nearly over. Returns the job as the service shows it."""
    (folder / f"{name}.yaml").write_text(JOB % sizes, encoding="utf-8")
    submitted = ask_service(context, folder, "job", "submit", "-q", "-f", f"{name}.yaml")
    job = submitted.stdout.strip()
    if submitted.returncode != 0 or not job:
        return {"state": "refused", "message": submitted.stderr.strip()[:200]}
    try:
        ask_service(context, folder, "job", "wait", job, seconds=context.left() - 8)
    except subprocess.TimeoutExpired:
        print("it has not ended")
    return json.loads(ask_service(context, folder, "job", "show", job, "-o", "json").stdout)


def service(context):
    """Runs the whole service with a job on the device, and then with a job that does not fit."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-service-"))
    with open(folder / "dev.log", "w", encoding="utf-8") as log:
        dev = subprocess.Popen([str(context.bundle.program("ampctl")), "dev", "--port", "0", "--metrics-port", "0"],
                               cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=context.environment())
    try:
        while ask_service(context, folder, "health").returncode != 0:
            if dev.poll() is not None:
                finding(why="ampctl dev ended")
                return False
            time.sleep(0.3)
        ask_service(context, folder, "worker", "list", "-o", "json")
        job = run_job(context, folder, "fits", TINY if context.tiny else SMALL)
        attempt = (job.get("attempts") or [{}])[-1]
        device = ",".join(attempt.get("devices", []))
        final = attempt.get("outcome", {}).get("finalMetrics", {})
        finding(line=f"{job.get('state')} on {device or 'nothing'}; {final.get('stepsPerSecond', 0):.1f} steps/s, "
                     f"{int(final.get('peakMemoryBytes', 0)) / 2**20:.0f} MiB, "
                     f"{final.get('energyJoules', 0):.1f} J {job.get('message', '')[:80]}",
                state=job.get("state"), device=device)
        good = job.get("state") == "SUCCEEDED" and device == context.device
        if context.on_gpu:
            varies = run_job(context, folder, "varies", SMALL | {"deterministic": "false"})
            finding(line=f"a job that need not be deterministic: {varies.get('state')} {varies.get('message', '')[:80]}")
            good = good and varies.get("state") == "SUCCEEDED"
            large = run_job(context, folder, "large", TOO_LARGE)
            finding(line=f"a job that does not fit: {large.get('state')} {large.get('reason', '')} "
                         f"{large.get('message', '')[:80]}")
            good = good and (large.get("state"), large.get("reason")) == ("FAILED", "OUT_OF_MEMORY")
        return good
    finally:
        print((folder / "dev.log").read_text(encoding="utf-8", errors="replace")[-20000:])
        if dev.poll() is None:
            dev.send_signal(signal.SIGINT)
            try:
                dev.wait(timeout=max(1, min(10, context.left() - 1)))
            except subprocess.TimeoutExpired:
                dev.kill()
        shutil.rmtree(folder, ignore_errors=True)
