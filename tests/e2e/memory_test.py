#!/usr/bin/env python3
"""Tests trainers in control groups of their own, and processes that the kernel kills for lack of memory. The test runs
alone: the trainers of other tests may be in no group that counts such kills, and then their shims use the machine's
count.

Usage: memory_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import os
import pathlib
import signal
import subprocess

from service import Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main


@contextlib.contextmanager
def memory_group(limit_bytes, kind="trainer"):
    """Makes a control group with a memory limit for its processes. Yields None if this user may not make one."""
    name = f"ampd-test-{kind}-{os.getpid()}"
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


class TrainerMemory(ServiceCase):
    def test_a_trainer_that_the_kernel_ends_for_want_of_memory(self):
        large = JOB.replace("num_samples: 256", "num_samples: 300000")  # 940 MB
        with memory_group(512 << 20) as group:
            if group is None:
                self.skipTest("this user may not make a control group with a memory limit")
            with Service(BINARIES) as service:
                service.start_worker(limits=f"echo $$ > {group}/cgroup.procs")
                final = self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "kernel", "memory",
                                            "smaller data.batch_size")
                self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_an_end_for_want_of_memory_elsewhere_is_not_the_trainers(self):
        with memory_group(4 << 30) as group, memory_group(32 << 20, "other") as other:
            if group is None or other is None:
                self.skipTest("this user may not make a control group with a memory limit")
            with Service(BINARIES) as service:
                worker = service.start_worker(limits=f"echo $$ > {group}/cgroup.procs")
                job = service.submit(JOB.replace("steps: 5", "steps: 100000"))
                step = worker.await_step(job, 20)
                before = machine_oom_kills()
                hog = subprocess.run(["sh", "-c", f"echo $$ > {other}/cgroup.procs; exec tail /dev/zero"], check=False)
                self.assertEqual(hog.returncode, -signal.SIGKILL)
                self.assertGreater(machine_oom_kills(), before, "the kernel ended nothing")
                os.kill(worker.shim(step).trainer_pid, signal.SIGKILL)
                attempt = wait_for(lambda: service.job(job)["attempts"][0].get("outcome"), "the attempt's end")
                self.assertEqual(attempt["reason"], "TRAINER_CRASHED", attempt)
                self.assertIn("KILL", attempt["message"])
                self.assertEqual(service.ampctl("job", "cancel", job)[0], 0)


def machine_oom_kills():
    lines = pathlib.Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


if __name__ == "__main__":
    main()
