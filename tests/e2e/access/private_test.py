#!/usr/bin/env python3
"""Tests that the folders and files of server, worker, trainer and `ampctl dev` are for their own user only, whatever
the umask is, and that folders that others could write are refused with the command that corrects them.

Usage: private_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import os
import pathlib
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Service, kill_below, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

OPEN_UMASK = {"umask": 0}
CHECKPOINTS = "checkpoint: {every_steps: 2, keep: 2}\n"


class Private(ServiceCase):
    def expect_closed(self, top):
        """Checks the mode of everything below the folder, and returns the names. Sockets have modes of their own."""
        names = []
        for path in [top, *sorted(top.rglob("*"))]:
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # A running job replaces its checkpoints.
            if stat.S_ISSOCK(status.st_mode):
                continue
            wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
            self.assertEqual(oct(stat.S_IMODE(status.st_mode)), oct(wanted), path)
            names.append(str(path.relative_to(top)))
        return names

    def test_all_that_a_service_writes_is_for_its_own_user(self):
        with Service(BINARIES, options=OPEN_UMASK) as service:
            ready = service.folder / "ready"
            worker = service.start_worker("w", ["--ready-file", ready])
            wait_for(ready.exists, "the worker is ready")
            job = service.submit(JOB + CHECKPOINTS)
            self.assertEqual(service.finished(job)["state"], "SUCCEEDED")
            held = service.submit(JOB.replace("steps: 5", "steps: 1000000") + CHECKPOINTS)
            worker.await_step(held, 4)
            server = self.expect_closed((service.folder / "data"))
            state = self.expect_closed(worker.state)
            for name in ("journal.db", "journal.db-wal", "metrics.db", "artifacts.db", "tokens.db", "audit.log", "lock",
                         "reserve", "artifacts"):
                self.assertIn(name, server)
            for pattern in ("agent-id", "lock", r"spawn/[^/]+/record", r"spawn/[^/]+/.*log.*",
                            rf"checkpoints/{job}/1/step-\d+/model.safetensors",
                            rf"checkpoints/{job}/1/step-\d+/state.json"):
                self.assertTrue(any(re.fullmatch(pattern, name) for name in state), (pattern, state))
            self.assertEqual(oct(stat.S_IMODE(ready.stat().st_mode)), oct(0o600))
            for ports in service.folder.glob("ports*"):
                self.assertEqual(oct(stat.S_IMODE(ports.stat().st_mode)), oct(0o600))
            # A file that a user asks for is as open as the user's umask makes it.
            out = service.folder / "exported"
            old = os.umask(0o022)
            try:
                code, _, err = service.ampctl("checkpoint", "export", job, str(out))
            finally:
                os.umask(old)
            self.assertEqual(code, 0, err)
            self.assertEqual(oct(stat.S_IMODE(out.stat().st_mode)), oct(0o644))
            service.ampctl("job", "cancel", held)

    def test_a_service_with_folders_of_an_older_ampd_closes_them(self):
        with Service(BINARIES) as service:
            worker = service.start_worker("w")
            self.expect_success(service)
            worker.signal(signal.SIGTERM)
            worker.agent.process.wait(timeout=60)
            service.server.kill()
            for top in ((service.folder / "data"), worker.state):
                for path in [top, *top.rglob("*")]:
                    path.chmod(0o755 if path.is_dir() else 0o644)
            service.start_server()
            worker.start()
            self.expect_success(service)
            for top, log in (((service.folder / "data"), service.server), (worker.state, worker.agent)):
                self.assertEqual(oct(stat.S_IMODE(top.stat().st_mode)), oct(0o700))
                self.assertRegex(log.log(), rf"closed {top} to other users: mode 0755 is now 0700, and \d+ more in the")
            self.assertEqual(oct(stat.S_IMODE(((service.folder / "data") / "metrics.db").stat().st_mode)), oct(0o600))

    def test_dev_refuses_a_folder_that_others_write_and_its_command_corrects_that(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-private-"))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", folder], check=True))
        self.addCleanup(kill_below, folder)
        (folder / ".ampd").mkdir()
        (folder / ".ampd").chmod(0o777)
        (folder / ".ampd" / "context").write_text("127.0.0.1:1\n")
        for words in (["dev", "--port", "0", "--metrics-port", "0"], ["job", "list"]):
            refused = subprocess.run([BINARIES / "ampctl", *words], cwd=folder, capture_output=True, text=True,
                                     timeout=60, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("OPEN_TO_OTHERS", refused.stderr)
            self.assertIn("has mode 0777", refused.stderr)
        command = re.search(r"correct it with: (.*?)(  \[|\n)", refused.stderr).group(1)
        subprocess.run(shlex.split(command), cwd=folder, check=True)
        log = (folder / "log").open("w+b")
        self.addCleanup(log.close)
        dev = subprocess.Popen([BINARIES / "ampctl", "dev", "--port", "0", "--metrics-port", "0"], cwd=folder,
                               stdout=log, stderr=log, stdin=subprocess.DEVNULL, umask=0)
        try:
            wait_for(lambda: b"Ctrl-C" in (folder / "log").read_bytes(), "ampctl dev is up")
            names = self.expect_closed(folder / ".ampd")
        finally:
            dev.send_signal(signal.SIGINT)
            dev.wait(timeout=90)
        for name in ("lock", "context", "ports", "worker-ready", "server.log", "worker.log", "server/journal.db",
                     "worker/agent-id", "checkpoints"):
            self.assertIn(name, names)

    def test_contexts_of_another_user_are_not_followed(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-private-"))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", folder], check=True))
        environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "new" / "config")}
        environment.pop("AMPD_ADDRESS", None)

        def ampctl(*words):
            return subprocess.run([BINARIES / "ampctl", *words], cwd=folder, capture_output=True, text=True, timeout=60,
                                  check=False, env=environment, umask=0)
        self.assertEqual(ampctl("context", "add", "lab", "127.0.0.1:1").returncode, 0)
        self.assertEqual(self.expect_closed(folder / "new"), [".", "config", "config/ampd", "config/ampd/contexts"])
        contexts = folder / "new" / "config" / "ampd" / "contexts"
        for path, mode in ((contexts, 0o666), (contexts.parent, 0o770)):
            before = path.stat().st_mode
            path.chmod(mode)
            for words in (("context", "list"), ("context", "add", "b", "h:2"), ("job", "list")):
                refused = ampctl(*words)
                self.assertNotEqual(refused.returncode, 0, words)
                self.assertIn(f"chmod go-w {path}", refused.stderr)
            path.chmod(before)
        self.assertEqual(ampctl("context", "list").returncode, 0)
        if os.geteuid() == 0:
            os.chown(contexts, 12345, 12345)
            self.assertIn("belongs to the user 12345", ampctl("context", "list").stderr)


if __name__ == "__main__":
    main()
