#!/usr/bin/env python3
"""Server and worker with configuration files: the command line replaces the file, SIGHUP applies what it can, and every
command of docs/operator/configure.md works.

Usage: config_test.py FOLDER_OF_BINARIES [REPORT.xml]. Some cases need root, which runs programs as other users.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from service import Client, Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/operator/configure.md"
SERVER_USAGE, WORKER_USAGE, CLIENT_DENIED = 64, 2, 4
VIEWER = 61001  # A uid without a name in the system.


def output(*command, **options):
    """Runs a command that must succeed, and returns what it prints."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


class Config(ServiceCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-config-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.file = self.folder / "server.yaml"

    def reload(self, program, times=1):
        """Sends SIGHUP and returns the log's lines about configurations, once the program has reloaded."""
        program.signal(signal.SIGHUP)
        wait_for(lambda: len(re.findall("configuration (?:not )?reloaded", program.log())) == times, "it has reloaded")
        return [line for line in program.log().splitlines() if " configuration " in line]

    def refused(self, program, code, *flags):
        """Runs a program that must refuse its configuration. Returns its one line."""
        result = subprocess.run([BINARIES / program, *flags], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_the_command_line_replaces_the_file(self):
        self.file.write_text("listen: 127.0.0.1:1\nmetrics-listen: 127.0.0.1:0\ntenant-limit: ['*:jobs=1']\n"
                             "allow-unauthenticated-loopback: false\nlog-level: debug\n")
        # The service itself gives --listen, --metrics-listen and --allow-unauthenticated-loopback.
        with Service(BINARIES, ["--config", self.file, "--tenant-limit", "*:streams=9"]) as service:
            for _ in range(2):
                service.submit(JOB)

    def test_a_relative_path_begins_at_the_file(self):
        self.file.write_text("data-dir: data\nmetrics-listen: 127.0.0.1:0\nport-file: ports\n")
        server = Program([BINARIES / "ampd-server", "--config", self.file], self.folder / "log")
        try:
            wait_for(lambda: (self.folder / "ports").exists() or not server.running(), "the server listens")
            self.assertTrue((self.folder / "data/journal.db").exists(), server.log())
            self.assertEqual(Client(BINARIES, self.folder, f"unix:{self.folder}/data/ampd.sock").ampctl("health")[0], 0)
        finally:
            server.kill()

    def test_a_mistake_is_named_with_its_line(self):
        for program, code in (("ampd-server", SERVER_USAGE), ("ampd-worker", WORKER_USAGE)):
            self.file.write_text("# a comment\nlog-levl: debug\n")
            line = self.refused(program, code, "--config", self.file)
            self.assertEqual(line, f"{program}: {self.file}:2:1: there is no key 'log-levl'; did you mean 'log-level'?\n")
            self.assertIn("/nowhere: cannot be read: No such file", self.refused(program, code, "--config", "/nowhere"))
            self.file.chmod(0o666)
            self.assertIn("chmod", self.refused(program, code, "--config", self.file))
            self.file.chmod(0o644)

    def test_print_config_is_a_configuration(self):
        flags = ["--server", "127.0.0.1:7070", "--state-dir", "state", "--data-root", f"a={self.folder}", "--no-warm"]
        printed = output(BINARIES / "ampd-worker", *flags, "--print-config")
        self.assertIn(f'state-dir: "{pathlib.Path.cwd()}/state"\n', printed)
        self.file.write_text(printed)
        self.assertEqual(output(BINARIES / "ampd-worker", "--config", self.file, "--print-config"), printed)
        self.assertFalse(pathlib.Path("state").exists(), "nothing was started")

    def test_sighup_applies_what_it_can_and_names_the_rest(self):
        self.file.write_text("tenant-limit: ['*:jobs=1']\nlease: 10s\n")
        with Service(BINARIES, ["--config", self.file]) as service:
            service.submit(JOB)
            code, _, err = service.ampctl("job", "submit", "-f", "-", text=JOB)
            self.assertNotEqual(code, 0)
            self.assertIn("TENANT_LIMIT", err)
            self.file.write_text("tenant-limit: ['*:jobs=2']\nlease: 20s\nlog-level: warning\n")
            lines = self.reload(service.server)
            self.assertEqual(len(lines), 4, lines)
            for key, effect in (("tenant-limit", "applied"), ("lease", '"needs a restart"'), ("log-level", "applied")):
                self.assertEqual(len([line for line in lines if f"key={key} " in line and f"effect={effect}" in line]), 1,
                                 lines)
            service.submit(JOB)
            self.assertNotEqual(service.ampctl("job", "submit", "-f", "-", text=JOB)[0], 0)
            self.assertNotIn("name=small", service.server.log().split("configuration reloaded")[1], "log level warning")

    def test_sighup_with_an_invalid_file_changes_nothing(self):
        self.file.write_text("tenant-limit: ['*:jobs=1']\n")
        with Service(BINARIES, ["--config", self.file]) as service:
            service.submit(JOB)
            self.file.write_text("tenant-limit: ['*:jobs=5']\nnonsense: 1\n")
            line, = self.reload(service.server)
            self.assertIn("error configuration not reloaded", line)
            self.assertIn(f"{self.file}:2:1: there is no key 'nonsense'", line)
            self.assertNotEqual(service.ampctl("job", "submit", "-f", "-", text=JOB)[0], 0)
            self.file.unlink()
            self.assertIn("cannot be read", self.reload(service.server, times=2)[-1])
            self.assertEqual(service.ampctl("health")[0], 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root can run programs as other users")
    def test_a_new_grant_holds_after_sighup(self):
        binaries = self.folder / "bin"
        shutil.copytree(BINARIES, binaries, ignore=lambda _, names: [name for name in names if name != "ampctl"])
        socket = f"unix:{self.folder}/ampd.sock"
        user = Client(binaries, self.folder, socket, user=VIEWER)
        self.file.write_text(f"socket: ampd.sock\ngrant: ['uid:{VIEWER}=viewer']\n")
        with Service(BINARIES, ["--config", self.file]) as service:
            self.assertEqual(user.ampctl("job", "submit", "-f", "-", text=JOB)[0], CLIENT_DENIED)
            self.file.write_text(f"socket: ampd.sock\ngrant: ['uid:{VIEWER}=submitter']\n")
            self.assertIn("effect=applied", self.reload(service.server)[0])
            user.submit(JOB)
            self.file.write_text("socket: ampd.sock\n")
            self.assertIn('effect="needs a restart"', self.reload(service.server, times=2)[2])
            user.submit(JOB)

    def test_sighup_changes_the_log_level_of_a_worker(self):
        file = self.folder / "worker.yaml"
        file.write_text("threads: 1\n")
        with Service(BINARIES) as service:
            agent = service.start_worker(flags=["--config", file]).agent
            wait_for(lambda: "started for server" in agent.log(), "the worker has read the file")
            file.write_text("threads: 1\nlog-level: error\ndevice: [cpu]\n")
            lines = self.reload(agent)
            self.assertIn("key=device", lines[0])
            self.assertIn('effect="needs a restart"', lines[0])
            self.assertIn("key=log-level", lines[1])
            self.assertIn("effect=applied", lines[1])
            self.expect_success(service)

    def test_every_command_of_the_page(self):
        """The commands run in folders of the test. Its `systemctl` sends the signal that a unit would send."""
        folders = {"/etc/ampd": self.folder / "etc", "/var/lib/ampd": self.folder / "lib"}
        text = PAGE.read_text()
        for named, real in folders.items():
            text = text.replace(named, str(real))
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 3)
        (self.folder / "lib").mkdir(mode=0o700)
        environment = {**os.environ, "PATH": f"{self.folder}:{BINARIES}:{os.environ['PATH']}"}

        def run(block):
            return output("bash", "-eu", "-o", "pipefail", "-c", block, env=environment)
        self.assertIn('drain-grace: "10s"', run(blocks[0]))
        printed = run(blocks[1])
        self.assertIn("name: worker-1\n", printed)
        self.assertIn("threads: 2\n", printed)
        server = Program([BINARIES / "ampd-server", "--config", folders["/etc/ampd"] / "server.yaml", "--listen",
                          "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--port-file", self.folder / "ports"],
                         self.folder / "log")
        self.addCleanup(server.kill)
        wait_for(lambda: (self.folder / "ports").exists() or not server.running(), "the server listens")
        stub = self.folder / "systemctl"
        stub.write_text(f'#!/bin/sh\ntest "$*" = "reload ampd-server" && kill -HUP {server.process.pid}\n')
        stub.chmod(0o700)
        run(blocks[2])
        wait_for(lambda: "configuration reloaded" in server.log(), "the server has reloaded")
        self.assertIn("key=tenant-limit", server.log())


if __name__ == "__main__":
    main()
