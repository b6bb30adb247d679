#!/usr/bin/env python3
"""Records what the programs of the last released version leave on disk, and what they show of it, as an archive that
old_data_test.py reads: tests/golden/data-VERSION.tar.gz. Run it once for each released version, with its programs
(old_version.py says where they come from).

Usage: record_old_data.py

The archive has the server's data directory, the state folder of a worker, and views.json: what the old ampctl shows of
every job, of artifacts, tokens and the audit log, and secrets that exist only in this archive. The server has ended as
by an upgrade. The worker and its trainer were killed in the middle of a job.
"""
import gzip
import io
import json
import pathlib
import sys

import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import old_version
from service import Service, kill_below, wait_for

ARCHIVE = pathlib.Path(__file__).resolve().parents[2] / f"golden/data-{old_version.number()}.tar.gz"
MAX_BYTES = 200_000
ROOM = 1 << 20  # Bytes that the server reserves on the disk; they are not recorded.
MODEL_BYTES = bytes(range(256)) * 4
LONG_STEPS = 400
JOB = """
name: {name}
model: {{lenet: {{widths: [1, 2], hidden: 4}}}}
data:
  train: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 2048, seed: 3}}}}
  eval: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 4}}}}
  batch_size: 512
precision: {{preset: {preset}}}
optimizer: {{adamw: {{learning_rate: 1e-3}}}}
train: {{steps: {steps}, seed: 5, num_threads: 1}}
eval: {{every_steps: 20}}
checkpoint: {{every_steps: 20, keep: 2}}
labels: {{kind: old}}
"""
OF_THE_MOMENT = ("progress", "retention", "pending")


def job(name, preset="fp32", steps=60):
    return JOB.format(name=name, preset=preset, steps=steps)


def view(client, job_id):
    """Returns everything that ampctl shows of a job that has ended."""
    shown = client.job(job_id)
    for name in OF_THE_MOMENT:
        shown.pop(name, None)
    code, out, err = client.ampctl("job", "logs", job_id)
    return {"job": shown, "points": client.read("job", "points", job_id), "events": client.read("job", "events", job_id),
            "logs": out if code == 0 else err, "checkpoints": client.read("checkpoint", "list", job_id)}


def await_end_event(client, job_id):
    """Waits until the event of the job's end is stored."""
    def ended():
        events = client.read("job", "events", job_id)["events"]
        return events and events[-1].get("toState") in ("SUCCEEDED", "FAILED", "CANCELLED")
    wait_for(ended, f"the end of {job_id} is in its history")


def run_jobs(service, worker):
    """Runs jobs that end in every way, and one that is running and one that waits. Returns their ids by name."""
    jobs = {"fp32": service.submit(job("fp32")), "fp16": service.submit(job("fp16", "fp16"))}
    jobs["failed"] = service.submit(job("failed").replace("synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 2048,"
                                                          " seed: 3}", "npz: {file: empty/none.npz}"))
    for name in ("fp32", "fp16", "failed"):
        service.finished(jobs[name])
    jobs["waits"] = service.submit(job("waits"), "--set", "resources.kind=GPU")
    jobs["cancelled"] = service.submit(job("cancelled"), "--set", "resources.kind=GPU")
    service.ampctl("job", "cancel", jobs["cancelled"])
    jobs["resumed"] = service.submit(job("resumed", steps=100_000))
    worker.kill_trainer(jobs["resumed"], 50)
    wait_for(lambda: service.job(jobs["resumed"])["numAttempts"] == 2, "the job resumes")
    worker.await_step(jobs["resumed"], 70)
    service.ampctl("job", "cancel", jobs["resumed"])
    service.finished(jobs["resumed"])
    jobs["runs"] = service.submit(job("runs", steps=LONG_STEPS))
    wait_for(lambda: any(int(saved["step"]) >= 60 for saved in service.job(jobs["runs"]).get("checkpoints", [])),
             "the running job has checkpoints")
    return jobs


def record(binaries):
    """Returns {path: bytes} of the archive."""
    with Service(binaries, ["--archive-after", "1s", "--reserve-space", str(ROOM)]) as service:
        (service.folder / "empty").mkdir()
        worker = service.start_worker(flags=["--data-root", f"empty={service.folder}/empty"])
        (service.folder / "model.bin").write_bytes(MODEL_BYTES)
        code, _, err = service.ampctl("artifact", "upload", "model.bin")
        assert code == 0, err
        code, secret, err = service.ampctl("auth", "token", "create", "recorded", "--role", "viewer", "-q")
        assert code == 0, err
        jobs = run_jobs(service, worker)
        worker.kill()
        kill_below(worker.state)
        ended = [name for name in jobs if name not in ("runs", "waits")]
        for name in ended:
            await_end_event(service, jobs[name])
        code, out, err = service.ampctl("--version")
        assert code == 0 and out.split()[-1] == old_version.number(), out + err
        views = {"version": old_version.number(), "jobs": jobs, "token": secret.split()[-1],
                 "ended": {name: view(service, jobs[name]) for name in ended},
                 "runs": {"events": service.read("job", "events", jobs["runs"]),
                          "points": service.read("job", "points", jobs["runs"])},
                 "artifacts": service.read("artifact", "list"), "tokens": service.read("auth", "token", "list"),
                 "audit": service.read("audit")}
        assert service.drain_server() == 0
        files = {"views.json": json.dumps(views, indent=1).encode()}
        for folder in (service.folder / "data", worker.state):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name not in ("lock", "reserve"):
                    files[str(path.relative_to(service.folder))] = path.read_bytes()
        service.start_server()  # Service ends it.
        return files


def main():
    binaries = old_version.programs()
    files = record(binaries)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o600
            tar.addfile(entry, io.BytesIO(content))
    packed = gzip.compress(archive.getvalue(), 9, mtime=0)
    assert len(packed) <= MAX_BYTES, f"the archive has {len(packed)} bytes; at most {MAX_BYTES}"
    ARCHIVE.write_bytes(packed)
    print(f"{ARCHIVE}: {len(files)} files, {len(packed)} bytes")


if __name__ == "__main__":
    main()
