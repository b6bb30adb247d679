#!/usr/bin/env python3
"""Opens what the programs of the last released version left on disk (tests/golden/data-VERSION.tar.gz, which
record_old_data.py made): this version shows the same history, and continues the job that was running.

Usage: old_data_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import json
import pathlib
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import old_version
from record_old_data import ARCHIVE, LONG_STEPS, MODEL_BYTES, job, view
from service import Service, Worker, wait_for
from service_case import BINARIES, ServiceCase, main

# The recorded worker's agent is known by a host and a folder that are not those of this test. The server lets the agent
# in when the one that it knows is lost.
SHORT_LEASE = ["--lease", "2s", "--margin", "1s"]


def difference(old, new, path=""):
    """Returns where the newer value lacks something of the older one or has another value; empty if nowhere. New fields
    are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = (difference(value, new.get(name), f"{path}.{name}") for name, value in old.items())
        return next(filter(None, found), "")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return next(filter(None, (difference(*pair, f"{path}[{i}]") for i, pair in enumerate(zip(old, new)))), "")
    return "" if old == new else f"{path}: {old!r} has become {new!r}"


class OldData(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES, SHORT_LEASE)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(cls.service.folder, filter="data")
        for folder in (cls.service.folder / "data", cls.service.folder / "w1"):
            folder.chmod(0o700)
        cls.views = json.loads((cls.service.folder / "views.json").read_text())
        cls.jobs = cls.views["jobs"]
        cls.enterClassContext(cls.service)

    def check_data(self):
        done = subprocess.run([BINARIES / "ampd-server", "check", "--data-dir", self.service.folder / "data"],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_1_the_archive_is_of_the_old_version(self):
        self.assertEqual(self.views["version"], old_version.number())
        self.assertNotEqual(self.service.read("version")["version"], old_version.number())

    def test_2_the_history_is_the_same(self):
        for name, before in self.views["ended"].items():
            self.assertEqual(difference(before, view(self.service, self.jobs[name])), "", name)
        runs = self.jobs["runs"]
        self.assertEqual(difference(self.views["runs"]["points"], self.service.read("job", "points", runs)), "")
        events = self.views["runs"]["events"]["events"]  # There are more when the server has lost the worker.
        self.assertEqual(difference(events, self.service.read("job", "events", runs)["events"][:len(events)]), "")
        self.assertEqual(difference(self.views["audit"], self.service.read("audit")[-len(self.views["audit"]):]), "")
        self.check_data()

    def test_3_artifacts_and_tokens_are_the_same(self):
        self.assertEqual(difference(self.views["artifacts"], self.service.read("artifact", "list")), "")
        code, _, err = self.service.ampctl("artifact", "download", self.views["artifacts"][0]["name"], "copy.bin")
        self.assertEqual(code, 0, err)
        self.assertEqual((self.service.folder / "copy.bin").read_bytes(), MODEL_BYTES)
        self.assertEqual(difference(self.views["tokens"], self.service.read("auth", "token", "list")), "")
        secret = self.service.folder / "secret"
        secret.write_text(self.views["token"])
        secret.chmod(0o600)
        code, out, err = self.service.ampctl("--token-file", str(secret), "auth", "whoami")
        self.assertEqual((code, "recorded" in out), (0, True), out + err)

    def test_4_the_jobs_that_had_not_ended_continue(self):
        worker = Worker(self.service, "w1")
        self.service.workers.append(worker.start())
        final = self.service.finished(self.jobs["runs"])
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        last = final["attempts"][-1]
        saved = max(int(event["step"]) for event in self.views["runs"]["events"]["events"]
                    if event["kind"] == "CHECKPOINT_SAVED")
        self.assertGreaterEqual(int(last["fromStep"]), saved)
        curve = self.service.curve(self.jobs["runs"])
        self.assertEqual([step for step, _ in curve], list(range(1, LONG_STEPS + 1)))
        self.assertEqual(worker.steps(self.jobs["runs"])[0].number, int(last["fromStep"]) + 1)
        self.assertEqual(self.service.job(self.jobs["waits"])["state"], "QUEUED")
        self.service.ampctl("job", "cancel", self.jobs["waits"])
        self.assertEqual(self.service.job(self.jobs["waits"])["state"], "CANCELLED")

    def test_5_a_checkpoint_of_the_old_version_begins_a_job(self):
        code, _, err = self.service.ampctl("checkpoint", "download", f"{self.jobs['fp32']}@60", "saved")
        self.assertEqual(code, 0, err)
        code, out, err = self.service.ampctl("checkpoint", "verify", "saved")
        self.assertEqual(code, 0, out + err)
        follower = self.service.submit(job("follower"), "--set", f"model.initial_checkpoint.job_id={self.jobs['fp32']}",
                                       "--set", "model.initial_checkpoint.step=60")
        self.assertEqual(self.service.finished(follower)["state"], "SUCCEEDED")

    def test_6_after_all_that_the_data_are_sound(self):
        self.service.drain_server()
        self.service.start_server()
        for name, before in self.views["ended"].items():
            self.assertEqual(difference(before, view(self.service, self.jobs[name])), "", name)
        self.check_data()


if __name__ == "__main__":
    main()
