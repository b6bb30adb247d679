#!/usr/bin/env python3
"""Runs every command of docs/operator/troubleshoot.md in the situations that the page describes, and looks for the words
that the page names. The programs run in folders of the test; its `journalctl` prints the log of the program.

Usage: troubleshoot_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile

from service import Service, Worker, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operator/troubleshoot.md"
SHORT_LEASE = ["--lease", "1s", "--margin", "1s"]
ALL_DISKS = "1000000TiB"  # More free space than any disk has.
LONG_JOB = JOB.replace("steps: 5,", "steps: 1000000,")


class Troubleshoot(ServiceCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-troubleshoot-"))
        self.addCleanup(shutil.rmtree, self.folder)
        text = PAGE.read_text()
        self.blocks = dict(re.findall(r"^## (.*?)\n.*?^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        self.assertEqual(len(self.blocks), text.count("```sh\n"), "each section with commands has one block")
        # `journalctl` also checks its options, as far as the page uses them.
        self.tool("journalctl", 'test "$1 $3" = "--unit --lines"; tail -n "$4" "$LOGS/$2.log"\n')
        self.tool("runuser", 'test "$1 $2 $3" = "-u ampd --"; shift 3; exec "$@"\n')

    def tool(self, name, script):
        (self.folder / name).write_text(f"#!/bin/sh\nset -eu\n{script}")
        (self.folder / name).chmod(0o700)

    def run_block(self, title, service=None, data=None, job=""):
        """Runs the commands below the heading as the page has them, but for folders and ports. Returns what they print."""
        self.ran.add(title)
        block = self.blocks[title].replace("/var/lib/ampd", str(data or service.folder / "data"))
        environment = {**os.environ, "PATH": f"{self.folder}:{BINARIES}:{os.environ['PATH']}", "LOGS": str(self.folder),
                       "JOB": job}
        if service is not None:
            block = block.replace("127.0.0.1:7071", service.metrics)
            environment["AMPD_ADDRESS"] = service.address
            for unit, log in (("ampd-server", "server.log"), ("ampd-worker", "w1.log")):
                if (service.folder / log).exists():
                    shutil.copy(service.folder / log, self.folder / f"{unit}.log")
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", block], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def expect(self, text, *words):
        for word in words:
            self.assertIn(word, text)

    def start_in_vain(self, data, *flags):
        """Starts a server that must refuse, with its log where the unit's is. Returns its exit code."""
        with open(self.folder / "ampd-server.log", "w") as log:
            return subprocess.run([BINARIES / "ampd-server", "--data-dir", data, "--metrics-listen", "127.0.0.1:0", *flags],
                                  stdout=log, stderr=log, timeout=60, check=False).returncode

    ran = set()  # The titles of the blocks that a case has run.

    def test_everything_is_well(self):
        with Service(BINARIES) as service:
            worker = service.start_worker()
            wait_for(lambda: "READY" in service.ampctl("worker", "list")[1], "the worker is ready")
            self.expect(self.run_block("Where to look first", service), "is serving", "ampd-worker ", "READY", " listening on ")
            job = service.submit(LONG_JOB)
            worker.await_step(job, 20)
            wait_for(lambda: len(service.curve(job)) > 3, "there are points")
            self.expect(self.run_block("Training is slow", service, job=job), "BUSY", 'ampd_jobs{', "ampd_workers{")

    def test_a_server_that_does_not_start(self):
        title, data = "The server does not start", self.folder / "data"
        with Service(BINARIES) as service:
            shutil.copytree(service.folder / "data", data, ignore=shutil.ignore_patterns("*.sock", "reserve"))
            self.assertEqual(self.start_in_vain(service.folder / "data"), 73)
            self.expect(self.run_block(title, data=data), "is in use by another server")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assertEqual(self.start_in_vain(data, "--listen", f"127.0.0.1:{port}", "--allow-unauthenticated-loopback"), 69)
            self.expect(self.run_block(title, data=data), "Address already in use", f"127.0.0.1:{port}")
        wrong = self.folder / "wrong.pem"
        wrong.write_text("no certificate\n")
        wrong.chmod(0o600)
        self.assertEqual(self.start_in_vain(data, "--listen", "127.0.0.1:0", "--tls-cert", wrong, "--tls-key", wrong,
                                            "--tls-client-ca", wrong), 64)
        self.expect(self.run_block(title, data=data), "wrong.pem: has no certificate in PEM form")
        data.chmod(0o777)
        self.assertEqual(self.start_in_vain(data), 73)
        self.expect(self.run_block(title, data=data), "so that other users can change what ampd trusts", "chmod go-w")
        data.chmod(0o700)
        with sqlite3.connect(data / "journal.db") as journal:
            journal.execute("PRAGMA user_version = 99")
        self.assertEqual(self.start_in_vain(data), 65)
        self.expect(self.run_block(title, data=data), "the journal has schema 99, this ampd", "WRONG  journal.db")
        for suffix in ("-wal", "-shm"):
            (data / f"journal.db{suffix}").unlink(missing_ok=True)
        (data / "journal.db").write_bytes(b"no database" * 1000)
        self.assertEqual(self.start_in_vain(data), 65)
        self.expect(self.run_block(title, data=data), "the journal is damaged")

    def test_a_full_disk(self):
        with Service(BINARIES, ["--min-free-space", ALL_DISKS]) as service:
            wait_for(lambda: service.ampctl("health")[0] == 1, "the check of the disk fails")
            self.expect(self.run_block("The disk is full", service), "failed disk: is nearly full", "Avail")
            code, _, err = service.ampctl("job", "submit", "-f", "-", "--retry-for", "0s", text=JOB)
            self.assertNotEqual(code, 0)
            self.expect(err, "DISK_FULL")

    def test_certificates(self):
        data = self.folder / "made"
        done = subprocess.run([BINARIES / "ampd-server", "init", "--data-dir", data, "--host", "localhost"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with Service(BINARIES) as service:
            self.expect(self.run_block("Clients or workers get no connection", service, data), "subject=", "notAfter=",
                        "is serving")

    def test_workers_that_are_not_listed_and_jobs_that_wait(self):
        with Service(BINARIES) as service:
            job = service.submit(JOB)
            self.expect(self.run_block("A job is queued for ever", service, job=job), "NO_WORKERS")
            worker = service.start_worker()
            service.finished(job)
            gpu = service.submit(JOB, "--set", "resources.kind=GPU")
            self.expect(self.run_block("A job is queued for ever", service, job=gpu), "NO_MATCHING_DEVICE", "w1")
            rival = Worker(service, "rival")
            rival.name = "w1"  # With a state folder of its own.
            rival.start()
            service.workers.append(rival)
            wait_for(lambda: "another agent uses the name w1" in rival.agent.log(), "the rival is refused")
            self.expect(self.run_block("A worker is not in the list", service), "another agent uses the name w1", "VERSION")
            worker.kill()

    def test_a_job_that_lost_its_worker_and_one_that_failed(self):
        with Service(BINARIES, SHORT_LEASE) as service:
            (service.folder / "root").mkdir()
            worker = service.start_worker(flags=["--data-root", f"root={service.folder}/root"])
            broken = JOB[JOB.index("{synthetic"):JOB.index("\n  batch_size")]
            failed = service.finished(service.submit(JOB.replace(broken, "{npz: {file: root/none.npz}}")))
            self.expect(self.run_block("A job failed", service, job=failed["id"]), "FAILED", "DATA_ERROR", "none.npz")
            job = service.submit(LONG_JOB)
            worker.await_step(job, 5)
            worker.kill()
            wait_for(lambda: "WORKER_LOST" in str(service.job(job)), "the worker is lost")
            self.expect(self.run_block("A job lost its worker", service, job=job), "WORKER_LOST", "w1")

    def test_commands_and_reasons_within_the_text_exist(self):
        text = PAGE.read_text()
        commands = set(re.findall(r"`ampctl ([a-z]+(?: [a-z]+)*)([^`]*)`", text))
        self.assertGreater(len(commands), 10)
        for words, rest in commands:
            done = subprocess.run([BINARIES / "ampctl", *words.split(), "--help"], capture_output=True, text=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, f"ampctl {words}: {done.stderr}")
            self.assertIn(f"Usage: ampctl {words} ", done.stdout)
            for flag in re.findall(r" (--?[a-z-]+)", rest):
                self.assertRegex(done.stdout, rf"(?m)^ .*{flag}\b", f"ampctl {words}")
        known = "".join(file.read_text() for file in [ROOT / "docs/errors.md", *(ROOT / "proto/ampd/v1").glob("*.proto")])
        for reason in set(re.findall(r"`([A-Z]+_[A-Z_]+)`", text)):
            self.assertRegex(known, rf"\b{reason}\b")

    def test_z_every_block_was_run(self):
        self.assertEqual(set(self.blocks) - self.ran, set())


if __name__ == "__main__":
    main()
