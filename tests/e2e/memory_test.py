#!/usr/bin/env python3
"""A trainer that the kernel ends for want of memory, in a control group of its own. It runs beside no other test: the
shim knows such an end by the machine's count of them, and a trainer that another test kills meanwhile would have it too.

Usage: memory_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import os
import pathlib

from service import Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main


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


class TrainerMemory(ServiceCase):
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


if __name__ == "__main__":
    main()
