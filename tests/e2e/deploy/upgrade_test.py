#!/usr/bin/env python3
"""Upgrades from the last released version to this one and back, under load; and every mixture of the two versions of
server, worker, trainer and client.

Usage: upgrade_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs the programs of the old version (old_version.py), which it
builds if AMPD_OLD does not name them. AMPD_UPGRADES: how many times to upgrade and go back.
"""
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import old_version
from old_data_test import difference
from record_old_data import await_end_event, view
from service import Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

PAGE = old_version.ROOT / "docs/operator/upgrade.md"
UPGRADES = int(os.environ.get("AMPD_UPGRADES", "2"))
UNREACHABLE = 5
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LONG_JOB = JOB.replace("num_samples: 256", "num_samples: 4096").replace("batch_size: 32", "batch_size: 1024") \
    .replace("steps: 5,", "steps: 1000000,") + "checkpoint: {every_steps: 20, keep: 2}\n"
NICE = "renice -n 19 $$ >/dev/null"  # The long jobs leave the processor to what is tested.


def named(job_file, name):
    return job_file.replace("name: small", f"name: {name}")


class Load:
    """Submits jobs one after the other, in a `with` statement, each until the server accepts it. A repeat has the same
    request id."""

    def __init__(self, service, binaries, seed):
        self.service, self.binaries, self.random = service, binaries, random.Random(seed)
        self.jobs, self.failures, self.unexpected, self.longest = [], 0, [], 0.0
        self.stop, self.thread = threading.Event(), threading.Thread(target=self.run)

    def submit(self, number):
        began = time.monotonic()
        while True:
            ampctl = self.random.choice(self.binaries) / "ampctl"
            done = subprocess.run(
                [ampctl, "--address", self.service.address, "job", "submit", "-q", "-f", "-", "--retry-for", "0s",
                 "--request-id", f"request-{number}"], input=named(JOB, f"load-{number}"), capture_output=True, text=True,
                timeout=120, check=False)
            if done.returncode == 0:
                self.jobs.append(done.stdout.strip())
                self.longest = max(self.longest, time.monotonic() - began)
                return
            self.failures += 1
            # Version 0.1 takes a call that a server drops while it shuts down for one that Ctrl-C has cancelled.
            is_dropped = ampctl.parent == self.binaries[0] and done.stderr == "error: CANCELLED\n"
            if done.returncode != UNREACHABLE and not is_dropped:
                self.unexpected.append((str(ampctl), done.returncode, done.stderr))

    def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            self.submit(number)
            self.stop.wait(0.7)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Upgrades(ServiceCase):
    """`new` and `old`: the folders with the programs."""

    @classmethod
    def setUpClass(cls):
        cls.old, cls.new = old_version.programs(), BINARIES
        cls.number = {cls.old: old_version.number()}
        told = subprocess.run([cls.new / "ampctl", "--version"], capture_output=True, text=True, check=True, timeout=60)
        cls.number[cls.new] = told.stdout.split()[-1]
        assert cls.number[cls.new] != cls.number[cls.old], "both folders have the programs of the same version"

    def client(self, service, binaries):
        """Makes the service's calls with the ampctl of this folder."""
        service.binaries = binaries
        return service

    def replace_server(self, service, binaries):
        self.assertEqual(service.drain_server(), 0, service.server.log()[-2000:])
        service.server_binaries = binaries
        service.start_server()

    def replace_agent(self, service, worker, binaries, trainer=None):
        """Ends the agent as a service manager does, and starts one of another version on the same state."""
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.agent.process.wait(timeout=60), 0, worker.agent.log()[-2000:])
        worker.use(binaries, trainer).start()
        self.await_worker(service, worker, self.number[binaries])

    def await_worker(self, service, worker, number):
        def attached():
            code, out, _ = service.ampctl("worker", "list", "-o", "json")
            return code == 0 and any(
                shown["name"] == worker.name and shown.get("version") == number and shown["state"] in ("READY", "BUSY")
                for shown in json.loads(out))
        wait_for(attached, f"{worker.name} is attached with {number}")

    def check(self, binaries, service):
        self.run_server(binaries, "check", "--data-dir", service.folder / "data")

    def run_server(self, binaries, *command):
        done = subprocess.run([binaries / "ampd-server", *command], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # Upgrades under load.

    def test_pairs_of_upgrades_under_load_lose_nothing(self):
        seed = int(os.environ.get("AMPD_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"  AMPD_SEED={seed}", flush=True)
        service = Service(self.old)
        with service:
            workers = [service.start_worker(f"w{i}", limits=NICE if i < 3 else "") for i in (1, 2, 3)]
            long = {}
            for worker in workers[:2]:  # The queue gives each its long job, and w3 is left for the short ones.
                job = service.submit(named(LONG_JOB, f"long-{worker.name}"))
                wait_for(lambda job=job: service.job(job)["state"] == "RUNNING", "the long job runs")
                long[job] = None
            by_name = {worker.name: worker for worker in workers}
            where = {job: service.job(job)["attempts"][-1]["worker"] for job in long}
            stays, moves = list(long)
            self.watches = [self.watch(service, binaries, stays) for binaries in (self.old, self.new)]
            first = service.submit(named(JOB, "first"))
            self.assertEqual(service.finished(first)["state"], "SUCCEEDED")
            await_end_event(service, first)
            before = view(service, first)
            began, outages = time.monotonic(), []
            with Load(service, [self.old, self.new], seed) as load:
                for number in range(1, UPGRADES + 1):
                    for binaries in (self.new, self.old):
                        outages.append(self.roll(service, workers, binaries))
                        self.assertEqual(difference(before, view(service, first)), "")
                        self.pause_and_resume(service, moves)
                    if number % 10 == 0 or number == UPGRADES:
                        print(f"  {time.monotonic() - began:.0f} s: {number} upgrades and returns, {len(load.jobs)} jobs "
                              f"accepted, {load.failures} calls repeated", flush=True)
            self.expect_all_trained_once(service, load, workers)
            self.expect_whole(service, stays, by_name[where[stays]], moves)
            print(f"  outages of the server: median {sorted(outages)[len(outages) // 2]:.2f} s, longest {max(outages):.2f} s; "
                  f"the slowest submit took {load.longest:.2f} s", flush=True)
            self.check(self.new, service)
            self.check(self.old, service)

    def watch(self, service, binaries, job):
        name = f"watch-{self.number[binaries]}.jsonl"
        return Program([binaries / "ampctl", "--address", service.address, "job", "watch", job, "-o", "jsonl", "--retry-for",
                        "5m"], service.folder / name)

    def roll(self, service, workers, binaries):
        """Replaces the server, then one worker after the other. Returns for how many seconds there was no server."""
        began = time.monotonic()
        self.replace_server(service, binaries)
        outage = time.monotonic() - began
        for worker in workers:
            self.replace_agent(service, worker, binaries)
        return outage

    def pause_and_resume(self, service, job):
        """Lets the job save a checkpoint, and resumes it in a trainer of the present version."""
        for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
            code, out, err = service.ampctl("job", verb, job)
            self.assertEqual(code, 0, out + err)
            wait_for(lambda state=state: service.job(job)["state"] == state, f"{job} is {state}")

    def expect_all_trained_once(self, service, load, workers):
        self.assertEqual(load.unexpected, [])
        self.assertEqual(len(set(load.jobs)), len(load.jobs))
        listed = [job["id"] for job in service.read("job", "list", "--limit", "0", "--filter", "name=load-*")]
        self.assertEqual(sorted(listed), sorted(load.jobs), "each accepted submit made one job")
        for job in load.jobs:
            final = service.finished(job)
            self.assertEqual((final["state"], final["numAttempts"]), ("SUCCEEDED", 1), final.get("message"))
            steps = [step.number for worker in workers for step in worker.steps(job)]
            self.assertEqual(steps, [1, 2, 3, 4, 5], job)
            self.assertEqual(service.curve(job), [(step, 1) for step in range(1, 6)])
        print(f"  {len(load.jobs)} short jobs succeeded, each in one attempt, every step once; {load.failures} calls found no "
              "server and were repeated", flush=True)

    def expect_whole(self, service, stays, worker, moves):
        for job in (stays, moves):
            service.ampctl("job", "cancel", job)
            self.assertEqual(service.finished(job)["state"], "CANCELLED")
            await_end_event(service, job)
        final = service.job(stays)
        self.assertEqual(final["numAttempts"], 1, "one trainer goes on through all upgrades")
        numbers = [step.number for step in worker.steps(stays)]
        self.assertEqual(numbers, list(range(1, numbers[-1] + 1)), "no step of it is lost or computed twice")
        curve = service.curve(stays)
        self.assertEqual(curve, [(step, 1) for step in range(1, curve[-1][0] + 1)])
        self.assertGreaterEqual(curve[-1][0], numbers[-1] - 1)
        moved = service.job(moves)
        self.assertEqual(moved["numAttempts"], 2 * UPGRADES + 1)
        steps = [step for step, _ in service.curve(moves)]
        self.assertEqual(steps, list(range(1, steps[-1] + 1)), "each step of the resumed job is there once")
        self.assertNotIn("TELEMETRY_REFUSED", service.events(stays) + service.events(moves))
        for watch in self.watches:
            watch.process.wait(timeout=60)
            seen = [int(step) for line in watch.log().splitlines() if line.startswith("{")
                    for step in json.loads(line).get("steps", {}).get("step", [])]
            self.assertEqual(seen, [step for step, _ in curve], f"{watch.log_path} saw every step once")
        print(f"  {stays}: {len(curve)} steps in one attempt, also in both watches; {moves}: {len(steps)} steps in "
              f"{moved['numAttempts']} attempts", flush=True)

    # Mixed versions.

    def test_every_mixture_of_versions_works(self):
        for server, worker, client in itertools.product((self.old, self.new), repeat=3):
            with self.subTest(server=self.number[server], worker=self.number[worker], client=self.number[client]):
                self.use_all(server, worker, worker, client)

    def test_an_agent_works_with_a_trainer_of_the_other_version(self):
        for server, agent in itertools.product((self.old, self.new), repeat=2):
            trainer = self.old if agent == self.new else self.new
            with self.subTest(server=self.number[server], agent=self.number[agent], trainer=self.number[trainer]):
                self.use_all(server, agent, trainer, self.new)

    def use_all(self, server, agent, trainer, client):
        """Trains and watches a job, fails and retries one, cancels one, downloads a checkpoint, and hands a running trainer
        to an agent of the other version."""
        service = Service(server)
        with service:
            (service.folder / "root").mkdir()
            self.client(service, client)
            worker = self.add_worker(service, agent, trainer)
            job = service.submit(JOB + "checkpoint: {every_steps: 2, keep: 2}\n")
            code, out, err = service.ampctl("job", "watch", job, "-o", "jsonl")
            self.assertEqual(code, 0, out + err)
            seen = [int(step) for line in out.splitlines() for step in json.loads(line).get("steps", {}).get("step", [])]
            self.assertEqual(seen, [1, 2, 3, 4, 5])
            self.assertEqual(service.job(job)["state"], "SUCCEEDED")
            self.assertEqual(service.curve(job), [(step, 1) for step in range(1, 6)])
            code, out, err = service.ampctl("checkpoint", "download", job, "saved")
            self.assertEqual(code, 0, out + err)
            self.assertEqual(service.ampctl("checkpoint", "verify", "saved")[0], 0)
            self.fail_and_retry(service)
            self.hand_over_and_cancel(service, worker, agent, trainer)
            self.check(server, service)

    def add_worker(self, service, agent, trainer):
        worker = service.start_worker(flags=["--data-root", f"root={service.folder}/root"])
        worker.kill()  # start_worker starts the agent of the service's version.
        worker.use(agent, trainer).start()
        self.await_worker(service, worker, self.number[agent])
        return worker

    def fail_and_retry(self, service):
        failing = JOB.replace(JOB[JOB.index("{synthetic"):JOB.index("\n  batch_size")], "{npz: {file: root/none.npz}}")
        failed = service.finished(service.submit(failing))
        self.assertEqual((failed["state"], failed["reason"]), ("FAILED", "DATA_ERROR"), failed.get("message"))
        code, out, err = service.ampctl("job", "retry", failed["id"], "-q")
        self.assertEqual(code, 0, out + err)
        again = service.finished(out.strip())
        self.assertEqual((again["state"], again["reason"]), ("FAILED", "DATA_ERROR"), again.get("message"))

    def hand_over_and_cancel(self, service, worker, agent, trainer):
        job = service.submit(LONG_JOB)
        worker.await_step(job, 3)
        self.replace_agent(service, worker, self.old if agent == self.new else self.new, trainer)
        reached = worker.last_step(job).number
        worker.await_step(job, reached + 3)
        code, out, err = service.ampctl("job", "cancel", job)
        self.assertEqual(code, 0, out + err)
        final = service.finished(job)
        self.assertEqual((final["state"], final["numAttempts"]), ("CANCELLED", 1), final.get("message"))
        numbers = [step.number for step in worker.steps(job)]
        self.assertEqual(numbers, list(range(1, numbers[-1] + 1)))

    # What both versions have on disk.

    def test_the_older_server_shows_what_the_newer_one_has_stored_and_keeps_what_it_does_not_know(self):
        service = Service(self.old, ["--archive-after", "0s"])
        with service:
            jobs = [service.submit(named(JOB, "job-0"))]
            service.start_worker()
            self.assertEqual(service.finished(jobs[0])["state"], "SUCCEEDED")
            self.replace_server(service, self.new)
            self.client(service, self.new).environment = {"TRACEPARENT": TRACEPARENT}
            jobs += [service.submit(named(JOB, "job-1")),
                     service.submit(named(JOB, "job-2"), "--set", "resources.kind=GPU")]
            self.assertEqual(service.finished(jobs[1])["state"], "SUCCEEDED")
            traces = [service.job(job).get("traceparent", "") for job in jobs]
            self.assertEqual([TRACEPARENT[:35] in trace for trace in traces], [False, True, True])
            backup, restored = service.folder / "backup", service.folder / "restored"
            self.run_server(self.new, "backup", "--data-dir", service.folder / "data", "--out", backup)
            self.replace_server(service, self.old)
            self.client(service, self.old).environment = {}
            self.run_server(self.old, "restore", "--from", backup, "--data-dir", restored)
            self.run_server(self.old, "check", "--data-dir", restored)
            self.expect_created(service, 3)
            self.assertEqual([service.job(job)["state"] for job in jobs], ["SUCCEEDED", "SUCCEEDED", "QUEUED"])
            jobs.append(service.submit(named(JOB, "job-3")))
            self.assertEqual(service.finished(jobs[3])["state"], "SUCCEEDED")
            self.assertEqual(service.ampctl("job", "update", jobs[2], "--priority", "7")[0], 0)
            self.replace_server(service, self.new)
            self.client(service, self.new)
            self.assertEqual([service.job(job).get("traceparent", "") for job in jobs], [*traces, ""])
            entries = self.expect_created(service, 4)
            self.assertEqual([entry.get("traceId") == TRACEPARENT[3:35] for entry in entries], [False, True, True, False])
            for binaries in (self.old, self.new):
                self.check(binaries, service)

    def expect_created(self, service, number):
        """Checks that the audit log has the first jobs, in their order. Returns its entries."""
        entries = [entry for entry in service.read("audit") if entry["method"] == "ampd.v1.JobService/CreateJob"]
        self.assertEqual([entry["object"] for entry in entries], [f"job-{i}" for i in range(number)])
        return entries

    # The page.

    def test_every_command_of_the_page(self):
        """The commands run in folders of the test, in their order, while a job trains. Its `apt-get` and `systemctl` make
        this test do to server and worker what a host's would do."""
        service = Service(self.old)
        with service:
            self.tools = service.folder / "tools"
            self.tools.mkdir()
            os.mkfifo(self.tools / "done")  # Whoever reads it waits until this test opens it for writing.
            for name in ("apt-get", "systemctl"):
                self.tool(name, f"echo {name} \"$@\" > {self.tools}/new; mv {self.tools}/new {self.tools}/request\n"
                                f"read -r answer < {self.tools}/done\n")
            self.tool("runuser", 'test "$1 $2 $3" = "-u ampd --"; shift 3; exec "$@"\n')
            self.install_links(self.old)
            worker = service.start_worker()
            job = service.submit(LONG_JOB)
            worker.await_step(job, 3)
            blocks = self.blocks(service)
            self.assertEqual(len(blocks), 3)
            out = self.run_block(service, worker, blocks[0])
            self.assertIn(f"ampctl {self.number[self.new]}\nampd-server {self.number[self.new]} at ", out)
            self.assertIn(f"\nampd-worker {self.number[self.new]}: w1\n", out)
            worker.await_step(job, worker.last_step(job).number + 2)
            self.assertIn(f"ampctl {self.number[self.old]}\nampd-server {self.number[self.old]} at ",
                          self.run_block(service, worker, blocks[1]))
            worker.await_step(job, worker.last_step(job).number + 2)
            self.assertEqual(service.job(job)["numAttempts"], 1)
            self.assertIn("is serving", self.run_block(service, worker, blocks[2]))
            self.assertEqual([shown["id"] for shown in service.read("job", "list")], [job], "the backup has the job")

    def tool(self, name, script):
        (self.tools / name).write_text(f"#!/bin/sh\nset -eu\n{script}")
        (self.tools / name).chmod(0o700)

    def install_links(self, binaries):
        """Puts the programs of a folder into the PATH of the page's commands."""
        for name in ("ampctl", "ampd-server"):
            (self.tools / f"{name}.new").symlink_to(binaries / name)
            (self.tools / f"{name}.new").rename(self.tools / name)

    def blocks(self, service):
        text = PAGE.read_text().replace("/var/lib/ampd", str(service.folder / "data")).replace("-o ampd -g ampd ", "")
        text = text.replace("/var/backups/ampd", str(service.folder / "backups"))
        return re.findall(r"^```sh\n# On ampd.example.com, as root\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    def run_block(self, service, worker, block):
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "AMPD_ADDRESS": service.address}
        log = service.folder / "page.log"
        log.unlink(missing_ok=True)
        shell = Program(["bash", "-eu", "-o", "pipefail", "-c", block], log, env=environment)
        request = self.tools / "request"
        while wait_for(lambda: request.exists() or not shell.running(), "the next command of the page", 120) \
                and request.exists():
            words = request.read_text().split()
            request.unlink()
            self.carry_out(words, service, worker)
            (self.tools / "done").write_text("done\n")
        self.assertEqual(shell.process.wait(timeout=10), 0, shell.log())
        return shell.log()

    def carry_out(self, words, service, worker):
        if words[0] == "systemctl":
            self.assertEqual(words[2], "ampd-server")
            {"stop": service.drain_server, "start": service.start_server}[words[1]]()
            return
        self.assertEqual(words[1:3], ["install", "-y"])
        binaries = {"./newer": self.new, "./older": self.old}[words[-1].rpartition("/")[0]]
        self.assertEqual("--allow-downgrades" in words, binaries == self.old)
        if any("ampd-server_" in word for word in words):
            self.replace_server(service, binaries)
            self.install_links(binaries)
            self.client(service, binaries)
        if any("ampd-worker_" in word for word in words):
            self.replace_agent(service, worker, binaries)


if __name__ == "__main__":
    main()
