#!/usr/bin/env python3
"""Runs short jobs, one after the other, on one agent whose user may have few processes. Finished jobs leave nothing
behind.

Usage: many_jobs_test.py FOLDER_OF_BINARIES [REPORT.xml]. AMPD_JOBS is the number of jobs. The limit on processes does
not bind root, and only root can run programs as another user. Other users run the case without a limit; it prints that.
"""
import os
import pathlib
import resource
import unittest

from service import Program, Service, wait_for
from service_case import BINARIES, main

NUM_JOBS = int(os.environ.get("AMPD_JOBS", "12"))
MAX_PROCESSES = 150  # threads count too
USER = 60_000 + os.getpid() % 5_000  # a user id that nobody else has
TABLE = (1, 10, 100, 250, 500, 750, 1000)  # numbers of jobs after which the figures are printed

TINY = """
name: tiny
model: {mlp: {in_features: 4, hidden: [4], num_classes: 2}}
data: {train: {synthetic: {shape: [4], num_classes: 2, num_samples: 32, seed: 1}}, batch_size: 16}
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 0.1}}
train: {steps: 1, num_threads: 1}
"""


def children_of(pid):
    """Returns (pid, state) of each child."""
    children = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == pid:
                children.append((int(entry.name), state))
    return children


def zombies_of(pid):
    return [child for child, state in children_of(pid) if state == "Z"]


def figures(pid):
    """Returns resident memory in KiB, the number of open descriptors, and the number of threads."""
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return int(status["VmRSS"].split()[0]), descriptors, int(status["Threads"])


class FewProcesses(Service):
    """A service whose programs run as a user of their own, with a limit on that user's processes."""

    def __init__(self, binaries):
        # Archive jobs soon: by default finished jobs stay in memory for an hour, and the server grows with each of
        # them.
        super().__init__(binaries, ["--archive-after", "1s", "--metrics-linger", "1s"])
        if os.geteuid() == 0:
            os.chown(self.folder, USER, USER)
            limit = lambda: resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
            self.options = {"user": USER, "group": USER, "extra_groups": [], "preexec_fn": limit}
        else:
            print(f"  WITHOUT A LIMIT: only root can run this under ulimit -u {MAX_PROCESSES}", flush=True)

    def start_agent(self):
        command = [self.binaries / "ampd-worker", "--server", self.address, "--name", "w1", "--state-dir",
                   self.folder / "w1", "--device", "cpu", "--threads", "1"]
        self.agent = Program(command, self.folder / "w1.log", **self.options)
        return self.agent.process.pid

    def __exit__(self, *arguments):
        self.agent.kill()
        super().__exit__(*arguments)


class ManyJobsTest(unittest.TestCase):
    def test_ended_jobs_leave_no_process_memory_or_descriptor_behind(self):
        with FewProcesses(BINARIES) as service:
            agent = service.start_agent()
            seen = {}
            for number in range(1, NUM_JOBS + 1):
                final = service.finished(service.submit(TINY))
                self.assertEqual(final["state"], "SUCCEEDED", f"job {number}: {final.get('message')}")
                # Wait, because a shim that is just ending may not have been reaped yet.
                wait_for(lambda: len(zombies_of(agent)) == 0, f"no zombie after job {number}", 10)
                self.note(number, seen, service.server.process.pid, agent)
            self.expect_flat(seen)

    def note(self, number, seen, server, agent):
        if number in TABLE or number == NUM_JOBS:
            seen[number] = figures(server), figures(agent)
            print("  job %4d  server %6d KiB %3d fds %3d threads  agent %6d KiB %3d fds %3d threads  zombies %d" % (
                number, *seen[number][0], *seen[number][1], len(zombies_of(agent))), flush=True)

    def expect_flat(self, seen):
        """Checks that there are no more descriptors than after the tenth job, and no more memory than after the
        hundredth, when caches are full."""
        last = max(seen)
        for which, name in enumerate(("server", "agent")):
            base = seen[10][which]
            self.assertLessEqual(seen[last][which][1], base[1] + 6, f"the {name}'s descriptors grow")
            if last > 100:
                growth = seen[last][which][0] - seen[100][which][0]
                self.assertLess(growth, 4096, f"KiB of the {name} beyond job 100")


if __name__ == "__main__":
    main()
