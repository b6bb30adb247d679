"""Runs the real programs as separate processes: one server, workers, and ampctl. Ends only the processes that it
started, by their ids."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

POLL_SECONDS = 0.005
# The shim runs this script in place of the trainer. The script makes a second link to steps.log, so that the log
# remains when the spawn folder is removed.
TRAINER = """#!/bin/sh
: >> "$2/steps.log"
ln "$2/steps.log" "{steps}/${{2##*/}}"
{limits}
exec "{binaries}/ampd-trainer" --step-log "$@"
"""


def boottime():
    """Returns the seconds since boot, on the clock that leases and step logs use."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wait_for(condition, what, seconds=60):
    """Waits until condition() returns a true value, and returns that value. Raises AssertionError, which names `what`,
    if it stays false."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(POLL_SECONDS)
    return value


def pass_time(seconds):
    """Lets time pass during a fault that lasts. Never used to wait for an event."""
    until = boottime() + seconds
    wait_for(lambda: boottime() >= until, "time passes")


def replace_file(path, text):
    """Replaces a file's content in one step, so that a program which reads the file meanwhile never gets half of it."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def below(folder):
    """Returns {pid: command} of the living processes that name the folder on their command line."""
    commands = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in command:
                commands[int(entry.name)] = command.strip()
    return commands


def kill_if_there(pid):
    """Sends SIGKILL to a process of ours that may have ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_below(folder):
    """Kills every process that names the folder on its command line, and returns once all of them are gone."""
    def gone():
        commands = below(folder)
        for pid in commands:
            kill_if_there(pid)
        return not commands
    wait_for(gone, f"the processes below {folder} are gone")


def start_ticks(pid):
    """Returns when a process started, in the kernel's ticks, or None if it is gone. Pid and start together identify
    it."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def varints(payload):
    """Returns {field number: value} of a protobuf message's integer fields. Ignores other fields."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = payload[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(payload):
        key = varint()
        if key & 7 == 0:
            fields[key >> 3] = varint()
        elif key & 7 == 2:
            at += varint()
        else:
            at += 8 if key & 7 == 1 else 4
    return fields


class ShimView:
    """The status that a shim reports on a connection of our own: proto/ampd/internal/trainer.proto, ShimStatus."""

    def __init__(self, spawn):
        with socket.socket(socket.AF_UNIX) as shim:
            shim.settimeout(10)
            shim.connect(str(spawn / "shim.sock"))
            length, _ = struct.unpack("<II", self._exactly(shim, 8))
            status = varints(self._exactly(shim, length))
        self.trainer_pid = status.get(2, 0)
        self.suspended = bool(status.get(3, 0))
        self.exited = bool(status.get(4, 0))
        self.lease_deadline = status.get(7, 0) * 1e-9  # seconds since boot, as boottime()

    @staticmethod
    def _exactly(shim, size):
        data = b""
        while len(data) < size:
            part = shim.recv(size - len(data))
            if not part:
                raise ConnectionError("the shim ended")
            data += part
        return data


class Step:
    """A step that began: one line of a steps.log."""

    def __init__(self, line, spawn):
        nanos, self.job, attempt, number = line.split()
        self.time, self.attempt, self.number, self.spawn = int(nanos) * 1e-9, int(attempt), int(number), spawn


class Program:
    """A child process whose output goes to a file."""

    def __init__(self, arguments, log_path, **options):
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)
        self.log_path = log_path

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=60)

    def running(self):
        return self.process.poll() is None

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")


class Worker:
    """One worker: an agent and its processes. Its folder remains when the agent is killed, so start() continues with
    the state that is left there."""

    def __init__(self, service, name, flags=(), limits="", threads=1):
        self.service, self.name, self.flags, self.threads = service, name, tuple(flags), threads
        self.binaries = self.trainer_binaries = service.binaries
        self.state = service.folder / name
        self.checkpoints = self.state / "checkpoints"
        self.steps_folder = service.folder / f"{name}-steps"
        self.steps_folder.mkdir()
        self.trainer = service.folder / f"{name}-trainer"
        self.limits = limits
        self.limit(limits)
        self.agent = None

    def limit(self, limits):
        """Sets shell commands, such as ulimit, that run before each trainer that starts from here on."""
        self.limits = limits
        script = self.trainer.with_name(f"{self.trainer.name}.new")
        script.write_text(TRAINER.format(steps=self.steps_folder, binaries=self.trainer_binaries, limits=limits))
        script.chmod(0o700)
        script.rename(self.trainer)  # A shell may just read the script.

    def use(self, binaries, trainer=None):
        """Takes the programs of another folder: trainers from the next one that starts, the agent from the next start.
        `trainer`: the folder of the trainer, if it is another one."""
        self.binaries, self.trainer_binaries = pathlib.Path(binaries), pathlib.Path(trainer or binaries)
        self.limit(self.limits)
        return self

    def start(self):
        command = [self.binaries / "ampd-worker", "--server", self.service.address, "--name", self.name,
                   "--state-dir", self.state, "--trainer", self.trainer, "--threads", str(self.threads), *self.flags]
        self.agent = Program(command, self.service.folder / f"{self.name}.log", **self.service.options)
        return self

    def signal(self, number):
        self.agent.signal(number)

    def kill(self):
        self.agent.kill()

    def steps(self, job):
        """Returns every step of the job that began here, ordered by time."""
        found = []
        for log in self.steps_folder.iterdir():
            lines = log.read_text().split("\n")[:-1]  # without the last line, which may be incomplete
            found += [Step(line, log.name) for line in lines if line.split()[1] == job]
        return sorted(found, key=lambda step: step.time)

    def last_step(self, job):
        """Returns the newest step of the job that began here, or None. Cheap: reads only the ends of the logs."""
        newest = None
        for log in self.steps_folder.iterdir():
            with open(log, "rb") as lines:
                lines.seek(max(0, log.stat().st_size - 512))
                whole = lines.read().decode().split("\n")[:-1]
            if whole and whole[-1].split()[1] == job:
                step = Step(whole[-1], log.name)
                newest = step if newest is None or step.time > newest.time else newest
        return newest

    def await_step(self, job, number=1, seconds=60):
        """Returns the newest step of the job once it is `number` or later."""
        def reached():
            step = self.last_step(job)
            return step if step is not None and step.number >= number else None
        return wait_for(reached, f"step {number} of {job} on {self.name}", seconds)

    def shim(self, step):
        """Returns the shim of the trainer that began the step."""
        return ShimView(self.state / "spawn" / step.spawn)

    def kill_trainer(self, job, number):
        """Kills the job's trainer with SIGKILL once it has begun the step `number`. Returns the last step that began,
        or None if the job ended first."""
        step = self.await_step(job, number)
        try:
            shim = self.shim(step)
            if shim.exited:
                return None
            os.kill(shim.trainer_pid, signal.SIGKILL)
        except OSError:  # the shim or the trainer is gone
            return None
        return self.last_step(job).number


class Client:
    """ampctl in a folder. It uses the address or, if there is none, finds the server by itself. Only root can run it as
    another user."""

    def __init__(self, binaries, folder, address=None, user=None, token_file=None):
        self.binaries, self.folder, self.address = pathlib.Path(binaries), pathlib.Path(folder), address
        self.user = user  # The uid that runs ampctl; None: the uid of this process.
        self.token_file = token_file  # The file with the token that ampctl sends; None: none.
        self.environment = {}  # Variables for ampctl, besides those of this process.

    def ampctl(self, *arguments, text=None, seconds=120):
        """Runs ampctl. Returns exit code, stdout and stderr."""
        server = ["--address", self.address] if self.address else []
        server += ["--token-file", self.token_file] if self.token_file else []
        result = subprocess.run([self.binaries / "ampctl", *server, *arguments], cwd=self.folder, input=text,
                                capture_output=True, text=True, timeout=seconds, check=False, user=self.user,
                                env={**os.environ, **self.environment})
        return result.returncode, result.stdout, result.stderr

    def read(self, *arguments):
        code, out, err = self.ampctl(*arguments, "-o", "json")
        assert code == 0, err
        return json.loads(out)

    def submit(self, job_file, *flags):
        code, out, err = self.ampctl("job", "submit", "-q", "-f", "-", *flags, text=job_file)
        assert code == 0, err
        return out.strip()

    def job(self, job):
        return self.read("job", "show", job)

    def finished(self, job, seconds=120):
        self.ampctl("job", "wait", job, seconds=seconds)
        return self.job(job)

    def curve(self, job):
        """Returns (step, attempt) of every stored point in order, without segments that a later attempt has
        repeated."""
        return [(int(step), segment["attempt"]) for segment in self.read("job", "points", job).get("segments", [])
                if not segment.get("superseded") for step in segment["steps"].get("step", [])]

    def numbers(self, job):
        """Returns the numbers that a rerun must repeat bit for bit: for steps {step: (loss, norm, scale, skipped,
        rate, and those of phases)}, for evaluations {step: (loss, accuracy)}. Leaves out those that a later attempt
        has repeated."""
        steps, evals = {}, {}
        for segment in self.read("job", "points", job).get("segments", []):
            if segment.get("superseded"):
                continue
            # An attempt that resumes right before an evaluation may have a segment without a step.
            columns = [segment["steps"].get(name, [])
                       for name in ("loss", "gradNorm", "lossScale", "skipped", "learningRate")]
            columns += [phase[name] for phase in segment["steps"].get("phases", [])
                        for name in ("loss", "gradNorm", "skipped")]
            for i, step in enumerate(segment["steps"].get("step", [])):
                steps[int(step)] = tuple(column[i] for column in columns)
            for point in segment.get("evals", []):
                evals[int(point["step"])] = (point["loss"], point.get("accuracy"))
        return steps, evals

    def events(self, job):
        return [event["kind"] for event in self.read("job", "events", job)["events"]]


class Service(Client):
    """A server, workers and ampctl in a folder of their own. Used in a `with` statement. `options` are passed to
    subprocess.Popen for the server and the agents. Unless the server trusts loopback, calls there need a token."""

    def __init__(self, binaries, server_flags=(), options=None, trusts_loopback=True):
        super().__init__(binaries, tempfile.mkdtemp(prefix="ampd-e2e-"), "127.0.0.1:0")
        self.server_flags, self.options = tuple(server_flags), options or {}
        self.server_flags += ("--allow-unauthenticated-loopback",) if trusts_loopback else ()
        self.server, self.metrics, self.lives = None, "127.0.0.1:0", 0
        self.server_binaries = self.binaries
        self.workers = []

    def __enter__(self):
        self.start_server()
        return self

    def __exit__(self, kind, *_):
        for worker in self.workers:
            if worker.agent is not None:
                worker.kill()
        self.server.kill()
        kill_below(self.folder)  # shims and trainers whose agents are gone
        if kind in (None, unittest.SkipTest):
            shutil.rmtree(self.folder)
        else:
            print(f"the service's folder is kept: {self.folder}", flush=True)

    def start_server(self):
        """Starts the server, each time on the same data directory and the same ports."""
        self.lives += 1
        ports = self.folder / f"ports-{self.lives}"
        self.server = Program(
            [self.server_binaries / "ampd-server", "--listen", self.address, "--metrics-listen", self.metrics, "--data-dir",
             self.folder / "data", "--port-file", ports, *self.server_flags], self.folder / "server.log", **self.options)
        wait_for(lambda: ports.exists() or not self.server.running(), "the server's ports")
        assert self.server.running(), self.server.log()
        self.address, self.metrics = (f"127.0.0.1:{port}" for port in ports.read_text().split())

    def drain_server(self):
        """Ends the server with SIGTERM, as an operator does. Returns its exit code."""
        self.server.signal(signal.SIGTERM)
        return self.server.process.wait(timeout=60)

    def start_worker(self, name="w1", flags=(), limits="", threads=1):
        worker = Worker(self, name, flags, limits, threads)
        self.workers.append(worker)
        return worker.start()
