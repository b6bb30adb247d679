#!/usr/bin/env python3
"""Tests wrong addresses, taken ports, folders of other programs and slow connections. Each gives one line and a
documented exit code.

Usage: hosts_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import shutil
import signal
import socket
import sqlite3
import threading

from service import Client, Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

# The exit codes are documented in docs/exit-codes.md, `ampctl help exit-codes`, and the head of worker/agent/main.cc.
SERVER_USAGE, SERVER_DATA, SERVER_PORT, SERVER_DIRECTORY = 64, 65, 69, 73
CLIENT_FAILED, CLIENT_USAGE, CLIENT_UNREACHABLE = 1, 2, 5
WORKER_USAGE, WORKER_STATE, WORKER_ADDRESS = 2, 3, 4


class HostFaults(ServiceCase):
    """Wrong addresses, taken ports, data of other programs: each gives one line and a documented exit code."""

    def run_refused(self, command, code, *words, service):
        program = Program(command, service.folder / f"refused-{len(list(service.folder.iterdir()))}")
        self.assertEqual(program.process.wait(timeout=60), code, program.log())
        self.assertEqual(program.log().count("\n"), 1, program.log())
        for word in words:
            self.assertIn(word, program.log())
        self.expect_clean_line(program.log().strip())

    def server_command(self, service, **flags):
        values = {"listen": "127.0.0.1:0", "metrics-listen": "127.0.0.1:0", "data-dir": service.folder / "other"}
        values.update(flags)
        return [BINARIES / "ampd-server", "--allow-unauthenticated-loopback",
                *(part for name, value in values.items() for part in (f"--{name}", value))]

    def test_servers_that_cannot_start(self):
        with Service(BINARIES) as service:
            service.start_worker()
            for flag in ("listen", "metrics-listen"):
                for address in (service.address, service.metrics):
                    self.run_refused(self.server_command(service, **{flag: address}), SERVER_PORT, address,
                                     service=service)
            self.run_refused(self.server_command(service, **{"data-dir": service.folder / "data"}), SERVER_DIRECTORY,
                             "in use by another server", service=service)
            self.run_refused(self.server_command(service, listen="nonsense"), SERVER_USAGE, "nonsense", service=service)
            self.expect_success(service)

    def test_a_data_directory_of_a_newer_schema(self):
        with Service(BINARIES) as service:
            service.server.kill()
            path = service.folder / "data" / "journal.db"
            with contextlib.closing(sqlite3.connect(path)) as journal:
                version = journal.execute("PRAGMA user_version").fetchone()[0]
                journal.execute("PRAGMA user_version = 99")
            before = path.read_bytes()
            self.run_refused(self.server_command(service, **{"data-dir": path.parent}), SERVER_DATA, "schema", "99",
                             service=service)
            self.assertEqual(path.read_bytes(), before, "data that is not understood was changed")
            with contextlib.closing(sqlite3.connect(path)) as journal:
                journal.execute(f"PRAGMA user_version = {version}")
            service.start_server()
            service.start_worker()
            self.expect_success(service)

    def test_a_worker_that_has_not_reported_since_the_servers_start_shows_no_time(self):
        with Service(BINARIES) as service:
            worker = service.start_worker()
            self.expect_success(service)
            self.assertIn(" ago", service.ampctl("worker", "list")[1])
            worker.kill()
            service.server.kill()
            service.start_server()
            code, out, _ = service.ampctl("worker", "list")
            self.assertEqual(code, 0)
            self.assertRegex(out, r"w1 +\w+ +0 +not yet +cpu \([^,]*, [^f]*\)")

    def test_workers_that_cannot_start(self):
        with Service(BINARIES) as service:
            worker = service.start_worker()
            self.expect_success(service)
            command = [BINARIES / "ampd-worker", "--server", service.address, "--state-dir"]
            fresh = service.folder / "fresh"
            self.run_refused([*command, worker.state], WORKER_STATE, "another agent", service=service)
            self.run_refused([*command, "/proc/nowhere"], WORKER_STATE, "/proc/nowhere", service=service)
            self.run_refused([*command, fresh, "--metrics-listen", service.metrics], WORKER_ADDRESS, service.metrics,
                             service=service)
            self.run_refused([*command, fresh, "--metrics-listen", "0.0.0.0:0"], WORKER_USAGE, "only loopback",
                             service=service)
            self.run_refused([*command, fresh, "--checkpoint-root", worker.trainer], WORKER_STATE, worker.trainer.name,
                             service=service)
            self.run_refused(command[:-1], WORKER_USAGE, "--state-dir", service=service)
            self.run_refused([*command, fresh, "--data-root", "x=/nowhere"], WORKER_USAGE, "x=/nowhere",
                             service=service)
            self.run_refused([*command, fresh, "--data-group", "no such group"], WORKER_USAGE, "no such group",
                             service=service)
            self.run_refused([*command, fresh, "--trainer", "/nowhere"], WORKER_USAGE, "/nowhere", service=service)
            self.expect_success(service)

    def test_two_workers_of_one_name(self):
        with Service(BINARIES) as service:
            first = service.start_worker("w1")
            self.expect_success(service)
            command = [BINARIES / "ampd-worker", "--server", service.address, "--name", "w1", "--no-warm", "--state-dir",
                       service.folder / "other"]
            second = Program(command, service.folder / "second.log")
            wait_for(lambda: "another agent uses the name w1" in second.log(), "the second says who has the name")
            self.assertIn(str(first.state), second.log())
            self.expect_success(service)
            self.assertNotIn("accepted this worker", second.log())
            first.kill()
            wait_for(lambda: "accepted this worker" in second.log(), "the second has the name")
            self.assertEqual(second.log().count("another agent"), 1, second.log())
            second.kill()

    def test_a_copy_of_a_state_folder_takes_nothing_from_the_first(self):
        with Service(BINARIES, ["--lease", "2s", "--margin", "1s"]) as service:
            first = service.start_worker("node", ["--no-warm"])
            self.expect_success(service)
            secret = (first.state / "agent-id").read_text()
            copied = service.folder / "copied"
            shutil.copytree(first.state, copied, ignore=shutil.ignore_patterns("*.sock"))
            command = [BINARIES / "ampd-worker", "--server", service.address, "--name", "node", "--no-warm", "--state-dir",
                       copied]
            copy = Program(command, service.folder / "copy.log")
            wait_for(lambda: "was copied or moved" in copy.log(), "the copy says what it is")
            _, out, err = service.ampctl("worker", "list")
            self.assertIn("READY", out)
            self.assertIn(f"{copied} is refused", err)
            self.expect_success(service)
            self.assertNotIn("accepted this worker", copy.log())
            copy.signal(signal.SIGTERM)
            self.assertEqual(copy.process.wait(timeout=60), 0)
            self.expect_success(service)
            self.assertRegex(service.server.log(), r"warning the state folder of worker node was copied or moved: .* worker=node\n")
            for text in (service.server.log(), first.agent.log(), copy.log(), out, err,
                         service.ampctl("worker", "list", "-o", "json")[1]):
                self.assertNotIn(secret, text)

    def test_an_agent_that_a_copy_displaced_is_back_when_the_copy_is_gone(self):
        with Service(BINARIES, ["--lease", "1s", "--margin", "0.5s"]) as service:
            first = service.start_worker("node", ["--no-warm"])
            self.expect_success(service)
            wait_for(lambda: not list((first.state / "spawn").iterdir()), "what the job left is gone")
            # The copy runs under the first worker's path, as in a second container, so the server takes it for a
            # restart.
            away = service.folder / "away"
            first.state.rename(away)
            shutil.copytree(away, first.state, ignore=shutil.ignore_patterns("*.sock"))
            command = [BINARIES / "ampd-worker", "--server", service.address, "--name", "node", "--no-warm", "--state-dir",
                       first.state]
            copy = Program(command, service.folder / "copy.log")
            wait_for(lambda: "another agent took over as worker node" in first.agent.log(), "the first says so")
            wait_for(lambda: "another agent has come since" in service.ampctl("worker", "list")[2],
                     "the first has asked again and is shown")
            taken = first.agent.log().count("the server accepted this worker")
            shutil.rmtree(first.state)
            copy.signal(signal.SIGTERM)
            copy.process.wait(timeout=60)
            away.rename(first.state)
            wait_for(lambda: first.agent.log().count("the server accepted this worker") > taken, "the first is back")
            self.expect_success(service)

    def test_lost_workers_can_be_removed(self):
        with Service(BINARIES, ["--lease", "500ms", "--margin", "200ms"]) as service:
            worker = service.start_worker("gone", ["--no-warm"])
            wait_for(lambda: "accepted this worker" in worker.agent.log(), "the worker is there")
            code, _, err = service.ampctl("worker", "remove", "gone")
            self.assertEqual(code, CLIENT_FAILED, err)
            self.assertIn("is not lost", err)
            worker.kill()
            wait_for(lambda: "LOST" in service.ampctl("worker", "list")[1], "it is lost")
            self.assertEqual(service.ampctl("worker", "remove", "gone")[:2], (0, "gone  removed\n"))
            self.assertEqual(service.read("worker", "list"), [])

    def test_a_checkpoint_comes_from_its_worker_while_the_worker_runs(self):
        with Service(BINARIES) as service:
            worker = service.start_worker()
            job = service.submit(JOB)
            self.assertEqual(service.finished(job)["state"], "SUCCEEDED")
            downloaded = service.read("checkpoint", "download", job)
            self.assertEqual(service.ampctl("checkpoint", "verify", "--recorded", downloaded["folder"])[0], 0)
            code, out, err = service.ampctl("checkpoint", "export", job, "model.safetensors")
            self.assertEqual(code, 0, err)
            self.assertIn(f"from the checkpoint of step {downloaded['step']}", out)
            code, _, err = service.ampctl("checkpoint", "export", downloaded["folder"], "again.safetensors")
            self.assertEqual(code, 0, err)
            files = [(service.folder / name).read_bytes() for name in ("model.safetensors", "again.safetensors")]
            self.assertEqual(*files)
            worker.agent.process.terminate()
            worker.agent.process.wait(timeout=60)
            code, _, err = service.ampctl("checkpoint", "download", job, "elsewhere")
            self.assertEqual(code, CLIENT_UNREACHABLE, err)
            self.assertIn("WORKER_UNREACHABLE", err)
            self.expect_clean_line(err.splitlines()[0])

    def test_sighup_ends_no_server(self):
        with Service(BINARIES) as service:
            service.server.signal(signal.SIGHUP)
            wait_for(lambda: "SIGHUP is ignored" in service.server.log(), "the server says so")
            self.assertEqual(service.ampctl("health")[0], 0)
            self.assertEqual(service.drain_server(), 0)

    def test_a_worker_waits_for_a_server_that_is_not_there_yet(self):
        with Service(BINARIES) as service:
            service.server.kill()
            service.start_worker()
            wait_for(lambda: "connect" in service.workers[0].agent.log(), "the worker says that it can't connect")
            service.start_server()
            self.expect_success(service)

    def test_ampctl_with_a_wrong_address(self):
        with Service(BINARIES) as service:
            service.server.kill()
            for address, why in (("127.0.0.1:99999", "a port is a number from 1 to 65535"), ("::nonsense::", "")):
                code, out, err = Client(BINARIES, service.folder, address).ampctl("job", "list")
                self.assertEqual((code, out), (CLIENT_USAGE, ""), f"{address}: {err}")
                self.assertTrue(err.startswith("error:") and address in err and why in err, err)
            for address in (service.address, "nowhere.invalid:7070"):
                code, out, err = Client(BINARIES, service.folder, address).ampctl("job", "list")
                self.assertEqual((code, out), (CLIENT_UNREACHABLE, ""), f"{address}: {err}")
                lines = err.strip().split("\n")
                self.assertTrue(lines[0].startswith("error:") and address in lines[0], err)
                self.assertEqual(len(lines), 2, err)
                self.assertIn("try:", lines[1])
            code, _, err = service.ampctl("job", "submit", "-f", "-", "--retry-for", "1s", text=JOB)
            self.assertEqual(code, CLIENT_UNREACHABLE, err)

    def test_ampctl_dev_on_a_port_in_use(self):
        with Service(BINARIES) as service:
            port = service.address.split(":")[1]
            code, _, err = service.ampctl("dev", "--port", port, "--metrics-port", "0")
            self.assertEqual(code, CLIENT_FAILED, err)
            self.assertIn(service.address, err)
            self.assertIn("error:", err)
            self.assertFalse((service.folder / ".ampd" / "context").exists())

    def test_a_slow_line_is_no_unreachable_server(self):
        with Service(BINARIES) as service, SlowLine(service.address, seconds=0.5) as line:
            code, _, err = Client(BINARIES, service.folder, line.address).ampctl("job", "list")
            self.assertEqual(code, 0, err)
            direct, service.address = service.address, line.address
            service.start_worker()
            service.address = direct
            self.expect_success(service)


class SlowLine:
    """Forwards connections to an address, and delays the first bytes of each."""

    def __init__(self, address, seconds):
        host, port = address.split(":")
        self.target, self.seconds = (host, int(port)), seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.closing = threading.Event()

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.relay, args=(near,), daemon=True).start()

    def relay(self, near):
        self.closing.wait(self.seconds)
        with near, contextlib.suppress(OSError), socket.create_connection(self.target) as far:
            back = threading.Thread(target=self.copy, args=(far, near), daemon=True)
            back.start()
            self.copy(near, far)
            back.join()

    @staticmethod
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
