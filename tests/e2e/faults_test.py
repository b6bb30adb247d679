#!/usr/bin/env python3
"""What users and operators get for bad input and broken hosts: a typed reason, one line, and a service that goes on.

Usage: faults_test.py FOLDER_OF_BINARIES [REPORT.xml]. As root it mounts small file systems; elsewhere limits and modes
stand for them.
"""
import contextlib
import os
import pathlib
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import unittest

from service import Client, Program, Service, main, wait_for

BINARIES = pathlib.Path(sys.argv[1]).resolve()

JOB = """
name: faults-test
model: {lenet: {widths: [4, 8], hidden: 16}}
data:
  train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}}
  batch_size: 32
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 1e-3}}
train: {steps: 5, seed: 5, num_threads: 1}
"""
IDX_JOB = JOB.replace("synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}",
                      "idx: {images: IMAGES, labels: LABELS}")
# Exit codes: docs/exit-codes.md and `ampctl help exit-codes`.
SERVER_USAGE, SERVER_DATA, SERVER_PORT, SERVER_DIRECTORY = 64, 65, 69, 73
CLIENT_FAILED, CLIENT_USAGE, CLIENT_UNREACHABLE = 1, 2, 5
WORKER_USAGE, WORKER_STATE, WORKER_ADDRESS = 2, 3, 4


def idx(magic, sizes, content):
    return struct.pack(f">I{len(sizes)}I", magic, *sizes) + content


@contextlib.contextmanager
def mounted(folder, options):
    """A tmpfs at the folder for as long as the context lasts; False where this user may not mount."""
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ampd-test", folder], capture_output=True,
                            check=False)
    try:
        yield result.returncode == 0
    finally:
        if result.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def memory_group(limit_bytes):
    """A control group that allows its processes so much memory; None where this user may not make one."""
    name = f"ampd-test-{os.getpid()}"
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(root) / name
        with contextlib.suppress(OSError):
            group.mkdir()
        if (group / file).exists():
            (group / file).write_text(str(limit_bytes))
            try:
                yield group
            finally:
                wait_for(lambda group=group: removed(group), "the group is empty and gone")
            return
        removed(group)
    yield None


def removed(group):
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def fill(path):
    """Takes all room of the file system that the path is on."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


class FaultsTest(unittest.TestCase):
    def setUp(self):
        print(self.id(), flush=True)

    def expect_failure(self, service, job, reason, *words):
        """The job ended for the reason, with one line that has the words; the worker takes and ends the next job."""
        final = service.finished(job)
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final["message"])
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])
        self.expect_success(service)
        return final

    def expect_clean_line(self, line):
        print(f"  {line}", flush=True)
        self.assertNotIn("\n", line)
        self.assertLess(len(line), 400)
        for inside in (str(BINARIES), ".cc", "0x7f", "frame #", "terminate called"):
            self.assertNotIn(inside, line)

    def expect_success(self, service):
        final = service.finished(service.submit(JOB))
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))


class TrainerFaults(FaultsTest):
    def test_a_full_disk_under_the_checkpoints(self):
        # A megabyte and a half of weights do not fit, the next job's do.
        large = JOB.replace("hidden: 16", "hidden: 1024")
        with Service(BINARIES) as service:
            root = service.folder / "small-disk"
            root.mkdir()
            with mounted(root, "size=512k") as is_small:
                # Elsewhere the limit on a file's size, as an error and not as a signal, stands for it.
                limits = "" if is_small else "trap '' XFSZ; ulimit -f 1024"
                worker = service.start_worker(flags=["--checkpoint-root", root], limits=limits)
                reason, why = ("DISK_FULL", "free space") if is_small else ("CHECKPOINT_ERROR", "too large")
                final = self.expect_failure(service, service.submit(large), reason, "checkpoint of step 5", why)
                self.assertFalse(list(root.glob(f"{final['id']}/*/*")), "half a checkpoint was left")
                self.assertTrue(worker.agent.running())
                worker.kill()

    def test_a_full_disk_under_the_agents_state(self):
        with Service(BINARIES) as service:
            state = service.folder / "w1"
            state.mkdir()
            with mounted(state, "size=1m") as is_small:
                if not is_small:
                    self.skipTest("this user may not mount, and nothing else fills a disk for agent and shim alike")
                worker = service.start_worker(flags=["--no-warm", "--checkpoint-root", service.folder / "checkpoints"])
                job = service.submit(JOB.replace("steps: 5", "steps: 2000"))
                wait_for(lambda: int(service.job(job).get("progress", {}).get("step", 0)) > 0, "the first step")
                fill(state / "filling")
                final = service.finished(job)
                self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
                # The disk is full, and the device comes free all the same.
                wait_for(lambda: not list((state / "spawn").iterdir()), "nothing is left of the trainer's folder")
                wait_for(lambda: len(service.processes()) == 2, "server and agent are left")
                fill(state / "filling-more")
                failed = service.submit(JOB)
                service.finished(failed)
                (state / "filling").unlink()
                self.expect_failure(service, failed, "DISK_FULL", "can't start a trainer", "space")
                self.assertTrue(worker.agent.running())
                worker.kill()

    def test_a_checkpoint_folder_that_cannot_be_written(self):
        with Service(BINARIES) as service:
            root = service.folder / "read-only"
            root.mkdir()
            with mounted(root, "size=8m") as is_mounted:
                def allow(write):
                    if is_mounted:
                        subprocess.run(["mount", "-o", f"remount,{'rw' if write else 'ro'}", root], check=True)
                    else:
                        self.assertNotEqual(os.geteuid(), 0, "root who may not mount: no folder is read-only to it")
                        root.chmod(0o700 if write else 0o500)

                worker = service.start_worker(flags=["--checkpoint-root", root])
                allow(write=False)
                failed = service.submit(JOB)
                service.finished(failed)
                allow(write=True)
                self.expect_failure(service, failed, "CHECKPOINT_ERROR", "checkpoint of step 5", "be able to write")
                worker.kill()

    def test_a_loss_that_is_not_finite(self):
        with Service(BINARIES) as service:
            service.start_worker()
            job = JOB.replace("learning_rate: 1e-3", "learning_rate: 1e+6").replace("steps: 5", "steps: 200")
            final = self.expect_failure(service, service.submit(job), "NONFINITE_LOSS", "not finite",
                                        "lower the learning rate")
            self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_no_memory_for_a_batch(self):
        # The second convolution's output of one batch alone has 13 GB.
        large = JOB.replace("widths: [4, 8]", "widths: [64, 512]").replace("num_samples: 256", "num_samples: 16384")
        large = large.replace("batch_size: 32", "batch_size: 16384")
        with Service(BINARIES) as service:
            service.start_worker(limits="ulimit -v 8000000")
            final = self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "no memory for", "bytes",
                                        "lower data.batch_size")
            self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_a_trainer_that_the_kernel_ends_for_want_of_memory(self):
        large = JOB.replace("num_samples: 256", "num_samples: 300000")  # 940 MB
        with memory_group(512 << 20) as group:
            if group is None:
                self.skipTest("this user may not make a control group with a memory limit")
            with Service(BINARIES) as service:
                service.start_worker(limits=f"echo $$ > {group}/cgroup.procs")
                final = self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "kernel", "memory",
                                            "lower data.batch_size")
                self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_no_memory_for_the_data(self):
        large = JOB.replace("num_samples: 256", "num_samples: 1000000")  # 3 GB
        with Service(BINARIES) as service:
            service.start_worker(limits="ulimit -v 3000000")
            self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "no memory for", "or the data")


class DataFaults(FaultsTest):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.service.__enter__()
        cls.addClassCleanup(lambda: cls.service.__exit__(None))
        cls.root = cls.service.folder / "data"
        cls.images = idx(0x803, [64, 28, 28], bytes(range(256)) * 196)
        cls.labels = idx(0x801, [64], bytes(i % 10 for i in range(64)))
        cls.root = cls.service.folder / "root"
        cls.root.mkdir()
        (cls.root / "images").write_bytes(cls.images)
        (cls.root / "labels").write_bytes(cls.labels)
        (cls.service.folder / "outside").write_bytes(cls.images)
        cls.service.start_worker(flags=["--data-root", f"set={cls.root}"])

    def run_with(self, images="set/images", labels="set/labels"):
        return self.service.submit(IDX_JOB.replace("IMAGES", images).replace("LABELS", labels))

    def expect_data_error(self, words, **files):
        self.expect_failure(self.service, self.run_with(**files), "DATA_ERROR", *words)

    def write(self, name, content):
        (self.root / name).write_bytes(content)
        return f"set/{name}"

    def test_good_files_train(self):
        final = self.service.finished(self.run_with())
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))

    def test_a_missing_file(self):
        self.expect_data_error(["nowhere", "No such file"], images="set/nowhere")

    def test_a_truncated_file(self):
        self.expect_data_error(["cut", "ends after"], images=self.write("cut", self.images[:-1]))

    def test_a_file_cut_in_its_header(self):
        self.expect_data_error(["header-only", "header"], labels=self.write("header-only", self.labels[:6]))

    def test_a_compressed_file_cut_off(self):
        packed = subprocess.run(["gzip", "-c"], input=self.images, capture_output=True, check=True).stdout
        self.expect_data_error(["cut.gz", "cut off"], images=self.write("cut.gz", packed[:-20]))

    def test_a_wrong_magic(self):
        self.expect_data_error(["labels", "magic", "images"], images="set/labels")

    def test_labels_out_of_range(self):
        labels = self.labels[:-1] + b"\x0a"
        self.expect_data_error(["high", "label 10", "63"], labels=self.write("high", labels))

    def test_more_images_than_labels(self):
        labels = idx(0x801, [63], self.labels[8:-1])
        self.expect_data_error(["63", "64"], labels=self.write("few", labels))

    def test_sizes_beyond_all_memory(self):
        images = idx(0x803, [2**32 - 1, 2**16, 2**16], b"")
        self.expect_data_error(["huge"], images=self.write("huge", images))

    def test_images_of_another_size_than_the_models(self):
        images = idx(0x803, [64, 14, 14], bytes(64 * 14 * 14))
        self.expect_failure(self.service, self.run_with(images=self.write("small", images)), "SPEC_ERROR", "196", "784")

    def test_a_link_out_of_the_root(self):
        (self.root / "link").symlink_to(self.service.folder / "outside")
        self.expect_data_error(["link", "none is followed"], images="set/link")

    def test_a_folder_for_a_file(self):
        (self.root / "folder").mkdir()
        self.expect_data_error(["folder", "regular file"], images="set/folder")

    def test_a_path_out_of_the_root_is_refused_at_submit(self):
        for path in ("set/../outside", "/etc/passwd", "../outside"):
            job = IDX_JOB.replace("IMAGES", path).replace("LABELS", "set/labels")
            code, out, err = self.service.ampctl("job", "submit", "-q", "-f", "-", text=job)
            self.assertEqual((code, out), (CLIENT_USAGE, ""), err)
            self.assertIn("images", err)
            self.assertIn(path, err)
        self.expect_success(self.service)

    def test_a_data_root_that_no_worker_has_waits_and_says_so(self):
        job = self.run_with(images="other/images", labels="other/labels")
        code, out, _ = self.service.ampctl("job", "explain", job)
        self.assertEqual(code, 0)
        self.assertIn("other", out)
        self.service.ampctl("job", "cancel", job)
        self.expect_success(self.service)


class JobFileFaults(FaultsTest):
    """Through ampctl to a real server: exit code 2, what is wrong at its line, no job."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.service.__enter__()
        cls.addClassCleanup(lambda: cls.service.__exit__(None))

    def expect_refusal(self, text, *words):
        code, out, err = self.service.ampctl("job", "submit", "-f", "-", text=text)
        self.assertEqual((code, out), (CLIENT_USAGE, ""), err[:500])
        for word in words:
            self.assertIn(word, err)
        self.assertLess(len(err), 4000)
        self.assertTrue(self.service.server.running())
        self.assertEqual(self.service.ampctl("job", "list", "-q", "-o", "name")[1], "", "a job was half-created")

    def test_ten_megabytes(self):
        self.expect_refusal(JOB + "labels: {a: " + "x" * (10 << 20) + "}\n", "bytes")

    def test_a_key_twice(self):
        self.expect_refusal(JOB + "name: again\n", "'name' appears twice", "stdin:10:1")

    def test_deep_nesting(self):
        self.expect_refusal("a: " + "[" * 5000 + "]" * 5000, "nested deeper")

    def test_an_alias_bomb(self):
        lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1]"]
        lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
        self.expect_refusal("\n".join(lines), "more than")

    def test_bytes_that_are_no_text(self):
        self.expect_refusal("name: \x00\x01\n", "error:")

    def test_wrong_names_types_and_ranges_all_at_once(self):
        self.expect_refusal(JOB.replace("batch_size: 32", "batch_size: many").replace("hidden:", "hiden:"),
                            "data.batch_size", "many", "did you mean 'hidden'?")
        self.expect_refusal(JOB.replace("batch_size: 32", "batch_size: -1").replace("steps: 5", "steps: -3"),
                            "data.batch_size", "-1", "train.steps", "-3")

    def test_the_server_itself_refuses_what_ampctl_cannot_know(self):
        self.expect_refusal(JOB.replace("preset: fp32", "preset: fp31"), "precision.preset", "fp31")
        self.expect_refusal(JOB.replace("name: faults-test", f"name: {'n' * 10000}"), "name")


class HostFaults(FaultsTest):
    """Wrong addresses, taken ports, data of others: one line and a documented exit code."""

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
        return [BINARIES / "ampd-server", *(part for name, value in values.items() for part in (f"--{name}", value))]

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
            before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
            self.run_refused(self.server_command(service, **{"data-dir": path.parent}), SERVER_DATA, "schema", "99",
                             service=service)
            after = {file.name: file.read_bytes() for file in path.parent.iterdir()}
            self.assertEqual(before["journal.db"], after["journal.db"], "data that is not understood was changed")
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
            self.run_refused([*command, fresh, "--data-root", "x=/nowhere"], WORKER_USAGE, "x=/nowhere",
                             service=service)
            self.run_refused([*command, fresh, "--trainer", "/nowhere"], WORKER_USAGE, "/nowhere", service=service)
            self.expect_success(service)

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
            for address in (service.address, "nowhere.invalid:7070", "127.0.0.1:99999", "::nonsense::"):
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
    """Passes connections on to an address, the first bytes of each after a while."""

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
