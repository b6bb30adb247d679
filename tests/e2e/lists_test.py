#!/usr/bin/env python3
"""Finds, lists, filters, sorts and watches the jobs of a server without workers. Some of the jobs are in the server's
memory, others in its history table. This test needs no trainer, so it also runs in a build without LibTorch.

Usage: lists_test.py FOLDER_OF_BINARIES [REPORT.xml]
"""
import csv
import io
import signal
import sqlite3
import subprocess

from service import Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

NUM_JOBS = 60
NUM_CANCELLED = 10


class ListsTest(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES, ["--archive-after", "1s"])
        cls.enterClassContext(cls.service)
        kinds = ("even", "odd")
        cls.ids = [cls.service.submit(JOB, "--name", f"job-{number}", "--set", f"labels.kind={kinds[number % 2]}")
                   for number in range(NUM_JOBS)]
        cls.call("job", "cancel", *cls.ids[:NUM_CANCELLED])
        wait_for(lambda: cls.num_archived() == NUM_CANCELLED, "the cancelled jobs are archived")

    @classmethod
    def num_archived(cls):
        """The number of rows in the history table, read through a connection that writes nothing."""
        with sqlite3.connect(f"file:{cls.service.folder}/data/journal.db?mode=ro", uri=True) as database:
            return database.execute("SELECT count(*) FROM finished_jobs").fetchone()[0]

    @classmethod
    def call(cls, *arguments, text=None):
        code, out, err = cls.service.ampctl(*arguments, text=text)
        assert code == 0, err
        return out

    def ids_like(self, filter_text, *options):
        return self.call("job", "list", "-q", "--filter", filter_text, *options).split()

    def test_a_list_holds_all_jobs_unless_it_is_limited(self):
        self.assertEqual(self.call("job", "list", "-q").split(), self.ids[::-1])
        self.assertEqual(len(self.service.read("job", "list")), NUM_JOBS)
        code, out, err = self.service.ampctl("job", "list", "-o", "name", "--limit", "7")
        self.assertEqual((code, out.split()), (0, self.ids[:-8:-1]))
        self.assertIn(f"7 of {NUM_JOBS} jobs; next page: --page-token ", err)

    def test_filters_reach_both_tables(self):
        self.assertEqual(self.ids_like("state=cancelled"), self.ids[NUM_CANCELLED - 1::-1])
        self.assertEqual(self.ids_like("state!=cancelled AND labels.kind=odd"), self.ids[:NUM_CANCELLED:-2])
        self.assertEqual(self.ids_like("name=job-1 OR (name=job-5? and not name=job-5[0-8])"),
                         [self.ids[59], self.ids[1]])
        self.assertEqual(self.ids_like(f"id={self.ids[3][:12]}*"), [self.ids[3]])
        code, _, err = self.service.ampctl("job", "list", "--filter", "colour=red")
        self.assertEqual(code, 2)
        self.assertIn("columns are state, name, queue, id, owner, worker, tenant and labels.KEY", err)

    def test_a_name_or_the_beginning_of_an_id_names_a_job(self):
        for number in (2, 20):  # archived; in memory
            for text in (f"job-{number}", self.ids[number][:9], self.ids[number]):
                self.assertEqual(self.service.job(text)["id"], self.ids[number])
        self.call("job", "pause", "job-21")
        self.assertEqual(self.service.job(self.ids[21])["state"], "PAUSED")
        self.call("job", "resume", "job-21")
        self.assertEqual(self.service.ampctl("job", "show", "job-99")[0], 3)

    def test_an_ambiguous_name_is_refused_with_the_jobs_that_it_may_mean(self):
        again = self.service.submit(JOB, "--name", "job-3")
        self.addCleanup(self.call, "job", "delete", "--yes", again)
        self.addCleanup(self.call, "job", "cancel", again)
        code, out, err = self.service.ampctl("job", "cancel", "job-3")
        self.assertEqual((code, out), (2, ""))
        lines = err.splitlines()
        self.assertIn("matches 2 jobs", lines[0])
        self.assertTrue(lines[1].strip().startswith(again) and "QUEUED" in lines[1], err)
        self.assertTrue(lines[2].strip().startswith(self.ids[3]) and "CANCELLED" in lines[2], err)
        self.assertEqual(self.service.job(again)["state"], "QUEUED")

    def test_a_queued_job_says_why_it_waits_and_submit_warns(self):
        code, out, err = self.service.ampctl("job", "submit", "-f", "-", "--name", "waits", text=JOB)
        self.addCleanup(self.call, "job", "delete", "--yes", out.strip())
        self.addCleanup(self.call, "job", "cancel", out.strip())
        self.assertEqual(code, 0)
        self.assertIn("warning: no worker can run this job now, and it waits until one can: no worker has ever reported",
                      err)
        self.assertIn("try: start a worker", err)
        self.assertRegex(self.call("job", "list", "--limit", "1").splitlines()[1], r" NO_WORKERS$")
        self.assertIn("waits       NO_WORKERS: no worker has ever reported a device", self.call("job", "show", "waits"))

    def test_csv_is_read_by_other_programs(self):
        rows = list(csv.DictReader(io.StringIO(self.call("job", "list", "-o", "csv", "--sort", "age,desc"))))
        self.assertEqual([row["id"] for row in rows], self.ids)
        self.assertEqual({row["state"] for row in rows[:NUM_CANCELLED]}, {"CANCELLED"})
        self.assertEqual({row["reason"] for row in rows[NUM_CANCELLED:]}, {"NO_WORKERS"})
        self.assertRegex(rows[0]["end_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z$")

    def test_sort_orders_the_whole_list(self):
        self.assertEqual(self.ids_like("name=job-?", "--sort", "name"), self.ids[:10])
        self.assertEqual(self.ids_like("state=queued", "--sort", "name,desc", "--limit", "1"), [self.ids[59]])

    def test_watch_prints_what_changes(self):
        with subprocess.Popen([BINARIES / "ampctl", "--address", self.service.address, "job", "list", "--watch",
                               "--interval", "50ms", "--no-headers", "--filter", "name=job-3?"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
            first = [watch.stdout.readline().split()[0] for _ in range(10)]
            self.assertEqual(first, self.ids[39:29:-1])
            self.call("job", "pause", "job-35")
            self.assertEqual(watch.stdout.readline().split()[:3], [self.ids[35], "job-35", "PAUSED"])
            watch.send_signal(signal.SIGINT)
            rest, err = watch.communicate(timeout=60)
            self.assertEqual((watch.returncode, rest, err), (130, "", ""))
        self.call("job", "resume", "job-35")

    def test_names_are_still_found_after_a_restart(self):
        self.assertEqual(self.service.drain_server(), 0)
        self.service.start_server()
        for number in (2, 20):
            self.assertEqual(self.service.job(f"job-{number}")["id"], self.ids[number])


if __name__ == "__main__":
    main()
