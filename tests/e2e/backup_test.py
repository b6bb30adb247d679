#!/usr/bin/env python3
"""Backups of a server under load, restored elsewhere: docs/operator/back-up.md.

Usage: backup_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time

from service import Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

SAMPLED_JOB = JOB.replace("name: small", "name: sampled")
LONG_JOB = JOB.replace("name: small", "name: long").replace("steps: 5,", "steps: 1000000,") + \
    "checkpoint: {every_steps: 50, keep: 2}\n"
CANNOT_WRITE, DAMAGED = 73, 65
KILLS = int(os.environ.get("AMPD_BACKUP_KILLS", "25"))


def command(*arguments, seconds=120):
    """Runs ampd-server with a command. Returns exit code, stdout and stderr."""
    result = subprocess.run([BINARIES / "ampd-server", *arguments], capture_output=True, text=True, timeout=seconds,
                            check=False)
    return result.returncode, result.stdout, result.stderr


class Load:
    """Submits jobs as fast as it can, in a `with` statement, from two threads."""

    def __init__(self, service):
        self.service, self.jobs, self.slowest, self.stop = service, [], 0.0, threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(2)]

    def run(self):
        while not self.stop.is_set():
            began = time.monotonic()
            job = self.service.submit(JOB)
            self.jobs.append((began, job))
            self.slowest = max(self.slowest, time.monotonic() - began)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


class Backups(ServiceCase):
    def shown(self, service, job):
        """Returns everything that ampctl shows of a job that has ended."""
        wait_for(lambda: service.read("job", "events", job)["events"][-1].get("toState") == "SUCCEEDED",
                 "the event of the job's end is stored")
        view = service.job(job)
        for of_the_moment in ("progress", "retention", "pending"):
            view.pop(of_the_moment, None)
        logs = service.ampctl("job", "logs", job)
        return {"job": view, "points": service.read("job", "points", job), "events": service.read("job", "events", job),
                "logs": logs[1] if logs[0] == 0 else logs[2],
                "artifacts": service.read("artifact", "list", "--job", job)}

    def back_up(self, service, name="backup"):
        out = service.folder / name
        code, text, err = command("backup", "--data-dir", service.folder / "data", "--out", out)
        self.assertEqual(code, 0, err)
        self.assertIn(f"backed up {service.folder}/data to {out}", text)
        return out

    def restored(self, backup, address=None):
        """Returns a service whose server was restored from the backup and will listen on the address."""
        service = Service(BINARIES)
        code, text, err = command("restore", "--from", backup, "--data-dir", service.folder / "data")
        self.assertEqual(code, 0, err)
        self.assertIn("then start ampd-server", text)
        service.address = address or service.address
        return service

    def test_a_server_backed_up_under_load_is_restored_with_its_history_and_trains_on(self):
        with contextlib.ExitStack() as stack:
            old = stack.enter_context(Service(BINARIES))
            worker = old.start_worker()
            model = old.folder / "model.bin"
            model.write_bytes(random.Random(1).randbytes(1 << 20))
            code, out, err = old.ampctl("artifact", "upload", str(model))
            self.assertEqual(code, 0, err)
            ended = [old.submit(job) for job in (JOB, SAMPLED_JOB)]
            for job in ended:
                self.assertEqual(old.finished(job)["state"], "SUCCEEDED")
            long = old.submit(LONG_JOB, "--set", "priority=5")
            worker.await_step(long, 120)
            with Load(old) as load:
                wait_for(lambda: len(load.jobs) >= 10, "some jobs are submitted")
                before = {job: self.shown(old, job) for job in ended}
                began, waiting = time.monotonic(), [job for _, job in load.jobs]
                backup = self.back_up(old)
                took = time.monotonic() - began
                wait_for(lambda: load.jobs[-1][0] > began + took, "jobs are submitted after the backup")
            submitted = {job for _, job in load.jobs}
            print(f"  {took:.2f} s for a backup beside {len(submitted)} submits; the slowest took {load.slowest:.2f} s")
            artifacts = old.read("artifact", "list")
            code, text, err = command("check", "--backup", backup)
            self.assertEqual(code, 0, text + err)
            code, text, err = command("check", "--data-dir", old.folder / "data")
            self.assertEqual(code, 0, text + err)
            # The job trains on after the backup was made. Then the old server is gone, and its worker is not.
            last_saved = max(int(c["step"]) for c in old.job(long)["checkpoints"])
            wait_for(lambda: min(int(c["step"]) for c in old.job(long)["checkpoints"]) > last_saved,
                     "no checkpoint that the backup knows is left")
            old.server.kill()
            new = self.restored(backup, old.address)
            stack.enter_context(new)
            for job, view in before.items():
                self.assertEqual(self.shown(new, job), view)
            self.assertEqual(new.read("artifact", "list"), artifacts)
            self.assertEqual({job["id"] for job in new.read("job", "list", "--limit", "0")} - submitted - {*ended, long},
                             set())
            self.expect_wholly_there_or_not_at_all(new, submitted, set(waiting))
            self.expect_continued(new, worker, long, last_saved)
            final = new.finished(waiting[0])
            self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
            self.assertGreater(final["attempts"][-1]["number"], 1000)

    def expect_wholly_there_or_not_at_all(self, new, submitted, waiting):
        """Checks that every job that was submitted before the backup is there, and that of those during it each one is
        there with its spec and its events, or unknown."""
        there = 0
        for job in submitted:
            code, out, err = new.ampctl("job", "show", job, "-o", "json")
            if code != 0:
                self.assertNotIn(job, waiting)
                self.assertIn("JOB_NOT_FOUND", err)
                continue
            there += 1
            self.assertEqual(json.loads(out)["spec"]["name"], "small")
            self.assertEqual(new.events(job)[0], "CREATED")
        print(f"  {there} of {len(submitted)} submitted jobs are in the restored server")

    def expect_continued(self, new, worker, long, last_saved):
        """Checks that the attempt of before saves a checkpoint and leaves, and that the job continues from it."""
        def continued():
            job = new.job(long)
            return job if job["state"] == "RUNNING" and job["attempts"][-1]["number"] > 1000 else None
        job = wait_for(continued, "the job continues", 120)
        self.assertEqual([attempt["outcome"]["reason"] for attempt in job["attempts"][:-1]], ["PREEMPTED"])
        self.assertGreater(int(job["attempts"][-1]["fromStep"]), last_saved)
        steps = worker.steps(long)
        numbers = [step.number for step in steps]
        self.assertEqual(numbers, sorted(set(numbers)), "no step was computed twice or at once")
        self.assertIn("TELEMETRY_REFUSED", new.events(long))
        new.ampctl("job", "cancel", long)

    def test_a_backup_that_is_killed_is_never_taken_for_complete(self):
        with Service(BINARIES) as service:
            for number in range(8):
                file = service.folder / f"upload-{number}"
                file.write_bytes(random.Random(number).randbytes(4 << 20))
                code, _, err = service.ampctl("artifact", "upload", str(file))
                self.assertEqual(code, 0, err)
            service.submit(JOB)
            seed = int(os.environ.get("AMPD_SEED", random.SystemRandom().randrange(1 << 32)))
            print(f"  AMPD_SEED={seed}")
            moments, out, complete = random.Random(seed), service.folder / "backup", 0
            incomplete = service.folder / "backup.incomplete"
            for _ in range(KILLS):
                backup = Program([BINARIES / "ampd-server", "backup", "--data-dir", service.folder / "data", "--out", out],
                                 service.folder / "backup.log")
                deadline = time.monotonic() + moments.uniform(0, 0.3)
                while backup.running() and time.monotonic() < deadline:
                    pass
                backup.kill()
                if out.exists():
                    code, text, err = command("check", "--backup", out)
                    self.assertEqual(code, 0, text + err)
                    complete += 1
                    shutil.rmtree(out)
                elif (incomplete / "manifest.json").exists():  # Killed after the manifest, before the folder's final name.
                    code, text, err = command("check", "--backup", incomplete)
                    self.assertEqual(code, 0, text + err)
                    complete += 1
                else:
                    code, _, err = command("restore", "--from", incomplete, "--data-dir", service.folder / "restored")
                    self.assertEqual(code, DAMAGED, err)
                    self.assertIn("is no complete backup", err)
            print(f"  {KILLS - complete} of {KILLS} backups were killed before their manifest was written")
            self.assertLess(complete, KILLS)
            code, text, err = command("check", "--backup", self.back_up(service))
            self.assertEqual(code, 0, text + err)
            self.assertEqual([path.name for path in service.folder.glob("backup*") if path.is_dir()], ["backup"])
            service.submit(JOB)

    def test_the_script_of_the_page_keeps_seven_backups_and_the_newest_is_restored(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/operator/back-up.md").read_text()
        script = re.search(r"^cat > /usr/local/sbin/ampd-backup <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL)[1]
        restore = re.search(r"^ampd-server restore .*$", page, re.MULTILINE)[0]
        with Service(BINARIES) as service:
            job = service.submit(JOB)
            backups, tools = service.folder / "backups", service.folder / "tools"
            backups.mkdir(mode=0o700)
            tools.mkdir()
            # Every call of this `date` is a second later.
            (tools / "date").write_text(f"#!/bin/sh\necho >> {tools}/calls\n"
                                        f"printf '2026-01-01T00-00-%02dZ\n' $(wc -l < {tools}/calls)\n")
            (tools / "date").chmod(0o755)

            def run(text):
                text = text.replace("/var/lib/ampd", str(service.folder / "data")).replace("/var/backups/ampd", str(backups))
                return subprocess.run(["sh", "-eu", "-c", text], check=True, capture_output=True, text=True, timeout=120,
                                      env={**os.environ, "PATH": f"{tools}:{BINARIES}:{os.environ['PATH']}"}).stdout
            for _ in range(9):
                self.assertNotIn("WRONG", run(script))
            self.assertEqual(sorted(path.name for path in backups.iterdir()),
                             [f"2026-01-01T00-00-{number:02}Z" for number in range(3, 10)])
            service.drain_server()
            (service.folder / "data").rename(service.folder / "data.old")
            self.assertIn("backup of", run(restore))
            service.start_server()
            self.assertEqual(service.job(job)["state"], "QUEUED")

    def test_wrong_commands_and_damage_have_their_exit_codes(self):
        with Service(BINARIES) as service:
            service.submit(JOB)
            data, backup = service.folder / "data", self.back_up(service)
            for arguments, code, words in (
                    (["backup", "--data-dir", data], 64, "--out"),
                    (["check"], 64, "check needs --data-dir FOLDER or --backup FOLDER"),
                    (["backup", "--data-dir", data, "--out", backup], CANNOT_WRITE, "exists already"),
                    (["backup", "--data-dir", backup.parent, "--out", backup.parent / "b"], CANNOT_WRITE, "journal.db"),
                    (["restore", "--from", backup, "--data-dir", data], CANNOT_WRITE, "a server uses"),
                    (["restore", "--from", data, "--data-dir", data.parent / "r"], DAMAGED, "no complete backup")):
                found, out, err = command(*arguments)
                self.assertEqual(found, code, (arguments, out, err))
                self.assertIn(words, err)
                self.assertEqual(err.count("\n"), 1, err)
            journal = pathlib.Path(backup / "journal.db")
            content = bytearray(journal.read_bytes())
            content[len(content) // 2] ^= 1
            journal.write_bytes(content)
            code, out, err = command("check", "--backup", backup)
            self.assertEqual(code, DAMAGED, out + err)
            self.assertIn("WRONG  journal.db: ", out)
            code, out, err = command("restore", "--from", backup, "--data-dir", data.parent / "r")
            self.assertEqual(code, DAMAGED, out + err)
            self.assertFalse((data.parent / "r").exists())


if __name__ == "__main__":
    main()
