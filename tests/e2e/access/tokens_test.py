#!/usr/bin/env python3
"""Users and workers with tokens share a server on loopback, as docs/access.md says.

Usage: tokens_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Client, Program, Service, below, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

CLIENT_DENIED = 4
LONG_JOB = JOB.replace("steps: 5,", "steps: 1000000,")


class Tokens(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service(BINARIES, trusts_loopback=False))
        cls.folder = pathlib.Path(cls.service.folder)
        cls.admin = Client(BINARIES, cls.folder, f"unix:{cls.folder}/data/ampd.sock")
        cls.secrets = []

    def token(self, name, *flags):
        """Creates a token and returns the path of its file."""
        path = self.folder / f"{name}.token"
        code, out, err = self.admin.ampctl("auth", "token", "create", name, *flags, "--out", str(path))
        self.assertEqual((code, out), (0, ""), err)
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.secrets.append(path.read_text().strip())
        return path

    def user(self, token):
        return Client(BINARIES, self.folder, self.service.address, token_file=token)

    def start_worker(self, name, token=None, environment=None):
        flags = ["--token-file", token] if token else []
        ready = self.folder / f"{name}-ready"
        agent = Program([BINARIES / "ampd-worker", "--server", self.service.address, "--name", name, *flags, "--threads", "1",
                         "--state-dir", self.folder / name, "--ready-file", ready], self.folder / f"{name}.log",
                        env={**os.environ, **(environment or {})})
        self.addCleanup(agent.process.wait, timeout=60)
        self.addCleanup(agent.signal, 15)
        return agent, ready

    def refused(self, client, *arguments, words):
        code, out, err = client.ampctl(*arguments)
        self.assertEqual((code, out), (CLIENT_DENIED, ""), err)
        for word in words:
            self.assertIn(word, err)

    def test_without_a_token_nothing_but_the_version_is_told(self):
        nobody = self.user(None)
        self.refused(nobody, "job", "list", words=["TOKEN_NEEDED", "ampctl auth token create", "--token-file"])
        code, out, err = nobody.ampctl("version")
        self.assertEqual(code, 0, err)
        self.assertIn("ampd-server", out)
        self.assertEqual(nobody.read("auth", "whoami"), {})

    def test_a_job_of_a_token_is_trained_by_a_worker_with_a_token(self):
        ci = self.user(self.token("ci", "--role", "submitter", "--expires", "1h"))
        self.assertEqual(ci.read("auth", "whoami")["name"], "token:ci")
        agent, ready = self.start_worker("gpu-1", self.token("gpus", "--role", "agent", "--worker", "gpu-*"))
        wait_for(lambda: ready.exists() or not agent.running(), "the worker")
        final = ci.finished(ci.submit(JOB))
        self.assertEqual((final["state"], final["owner"]), ("SUCCEEDED", "token:ci"), final.get("message"))
        self.refused(ci, "auth", "token", "list", words=["ROLE_TOO_LOW", "admin"])
        other, _ = self.start_worker("cpu-1", self.folder / "gpus.token")
        wait_for(lambda: "WRONG_WORKER" in other.log() or "is for the worker gpu-*" in other.log(), "the refusal is logged")
        self.assertEqual([worker["name"] for worker in self.admin.read("worker", "list")], ["gpu-1"])

    def test_a_revoked_token_ends_its_watch_and_its_worker(self):
        viewer = self.token("viewer", "--role", "viewer")
        agent, ready = self.start_worker("w1", environment={"AMPD_TOKEN": self.token(
            "w1", "--role", "agent", "--worker", "w1").read_text().strip()})
        wait_for(lambda: ready.exists() or not agent.running(), "the worker")
        job = self.admin.submit(LONG_JOB)
        wait_for(lambda: self.admin.job(job)["state"] == "RUNNING", "the job runs")
        trainers = [pid for pid, command in below(self.folder / "w1").items() if "ampd-trainer" in command.split()[0]]
        self.assertTrue(trainers)
        for pid in trainers:
            self.assertNotIn(b"AMPD_TOKEN", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
        watch = subprocess.Popen([BINARIES / "ampctl", "--address", self.service.address, "--token-file", viewer, "job",
                                  "watch", job], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        kept = subprocess.Popen([BINARIES / "ampctl", "--address", self.admin.address, "job", "watch", job],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(kept.wait, timeout=60)
        self.addCleanup(kept.kill)
        wait_for(lambda: self.admin.job(job).get("progress", {}).get("step"), "the job makes steps")
        revoked = time.monotonic()
        for name in ("viewer", "w1"):
            code, out, err = self.admin.ampctl("auth", "token", "revoke", name)
            self.assertEqual((code, out), (0, f"{name}  revoked\n"), err)
        _, errors = watch.communicate(timeout=30)
        self.assertLess(time.monotonic() - revoked, 10)
        self.assertEqual(watch.returncode, CLIENT_DENIED, errors)
        self.assertIn("TOKEN_UNKNOWN", errors)
        wait_for(lambda: "does not know this token" in agent.log(), "the worker logs why")
        self.assertIsNone(kept.poll(), "the admin's watch goes on")
        self.refused(self.user(viewer), "job", "list", words=["TOKEN_UNKNOWN"])
        code, _, err = self.admin.ampctl("job", "cancel", job)
        self.assertEqual(code, 0, err)

    def test_secrets_are_in_no_file_of_the_server(self):
        self.token("secret", "--role", "admin")
        self.user(self.folder / "secret.token").ampctl("job", "show", "none")
        for path in [self.folder / "server.log", *(self.folder / "data").rglob("*")]:
            if path.is_file():
                content = path.read_bytes()
                for secret in self.secrets:
                    self.assertNotIn(secret[5:].encode(), content, path)

    def test_tokens_outlive_a_restart(self):
        path = self.token("lasting", "--role", "viewer")
        self.service.drain_server()
        self.service.start_server()
        self.assertEqual(self.user(path).read("auth", "whoami")["roles"], ["VIEWER"])
        self.assertIn("lasting", [token["name"] for token in self.admin.read("auth", "token", "list")])


if __name__ == "__main__":
    main()
