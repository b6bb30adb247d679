#!/usr/bin/env python3
"""Runs server and worker with a wall clock that is one hour ahead of the kernel's. No wait takes an hour longer.

Usage: clock_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import os
import signal
import unittest

from service import Service, wait_for
from service_case import BINARIES, JOB, main

LIBRARY = BINARIES.parent / "tests" / "libampd-clock-ahead.so"
SOON = 30


class ClockTest(unittest.TestCase):
    def setUp(self):
        print(self.id(), flush=True)
        self.assertTrue(LIBRARY.exists(), LIBRARY)
        options = {"env": {**os.environ, "LD_PRELOAD": str(LIBRARY)}}
        self.service = self.enterContext(Service(BINARIES, ["--lease", "1s", "--margin", "500ms"], options))

    def state_of_worker(self):
        return [worker["state"] for worker in self.service.read("worker", "list")]

    def test_a_lost_worker_is_noticed(self):
        worker = self.service.start_worker()
        final = self.service.finished(self.service.submit(JOB), seconds=SOON)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        worker.kill()
        wait_for(lambda: self.state_of_worker() == ["LOST"], "the server notices that the worker is gone", SOON)

    def test_a_server_that_comes_back_is_found(self):
        self.service.start_worker()
        wait_for(lambda: self.state_of_worker() == ["READY"], "the worker is there", SOON)
        self.service.server.kill()
        worker = self.service.workers[0]
        wait_for(lambda: "ended" in worker.agent.log() or "connect" in worker.agent.log(), "the worker sees it", SOON)
        self.service.start_server()
        final = self.service.finished(self.service.submit(JOB), seconds=SOON)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))

    def test_a_server_that_stands_still_is_found_when_it_goes_on(self):
        worker = self.service.start_worker()
        wait_for(lambda: self.state_of_worker() == ["READY"], "the worker is there", SOON)
        self.service.server.signal(signal.SIGSTOP)
        # The worker's keepalive pings are not answered. Later its new connections are not answered either.
        wait_for(lambda: "ended" in worker.agent.log(), "the worker gives the stream up", 60)
        self.service.server.signal(signal.SIGCONT)
        final = self.service.finished(self.service.submit(JOB), seconds=SOON)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))

    def test_sigterm_ends_both(self):
        worker = self.service.start_worker(flags=["--stop-trainers-on-exit"])
        job = self.service.submit(JOB.replace("steps: 5", "steps: 100000000"))
        worker.await_step(job, 3)
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.agent.process.wait(timeout=SOON), 0)
        self.service.server.signal(signal.SIGTERM)
        self.assertEqual(self.service.server.process.wait(timeout=SOON), 0)


if __name__ == "__main__":
    main()
