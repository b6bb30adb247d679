#!/usr/bin/env python3
"""Tests how docker/compose-init treats the workers' token, with a fake ampctl, and the times in docker/compose.yaml."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

DOCKER = pathlib.Path(__file__).resolve().parents[2] / "docker"
AMPCTL = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
  *whoami*) exit "$WHOAMI" ;;
  *"token list"*) echo "workers  agent" ;;
  *"token create"*) while [ "$1" != --out ]; do shift; done; echo new >"$2" ;;
esac
"""


class WorkerToken(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "ampctl").write_text(AMPCTL)
        (self.root / "ampctl").chmod(0o755)
        self.file = self.root / "issued/worker/worker.token"
        self.file.parent.mkdir(parents=True)

    def run_script(self, whoami):
        """Runs compose-init worker-token. `whoami` is the exit code of ampctl auth whoami. Returns the result, and the
        calls of ampctl."""
        text = (DOCKER / "compose-init").read_text().replace("/etc/ampd/issued", str(self.root / "issued"))
        calls = self.root / "calls"
        calls.write_text("")
        environment = {"PATH": f"{self.root}:{os.environ['PATH']}", "CALLS": str(calls), "WHOAMI": str(whoami)}
        done = subprocess.run(["/bin/sh", "-c", text, "compose-init", "worker-token"], capture_output=True, text=True,
                              check=False, env=environment)
        return done, calls.read_text()

    def test_a_good_token_stays(self):
        self.file.write_text("old\n")
        done, calls = self.run_script(whoami=0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.file.read_text(), "old\n")
        self.assertNotIn("revoke", calls)

    def test_a_token_that_the_server_does_not_know_is_replaced(self):
        for content in ("old\n", ""):
            self.file.write_text(content)
            done, calls = self.run_script(whoami=4)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.file.read_text(), "new\n")
            self.assertIn("auth token revoke workers", calls)

    def test_a_token_that_cannot_be_checked_stays(self):
        for whoami in (1, 3, 5, 75):
            self.file.write_text("old\n")
            done, calls = self.run_script(whoami)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"ampctl ended with {whoami}", done.stderr)
            self.assertEqual(self.file.read_text(), "old\n")
            self.assertNotIn("revoke", calls)


class Compose(unittest.TestCase):
    def test_a_worker_may_take_longer_than_its_trainers(self):
        text = (DOCKER / "compose.yaml").read_text()
        grace = int(re.search(r"--exit-grace=(\d+)", text)[1])
        worker = text[text.index("--exit-grace="):]
        # What the worker needs after its trainers: helm/ampd/templates/worker/_pod.tpl.
        self.assertGreaterEqual(int(re.search(r"stop_grace_period: (\d+)s", worker)[1]), grace + 23)


if __name__ == "__main__":
    unittest.main()
