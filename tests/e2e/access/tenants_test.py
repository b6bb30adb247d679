#!/usr/bin/env python3
"""Two tenants share a server and a worker, and work at the same time. Whatever belongs to one has a marker in its name:
tenant, tokens, workers, jobs, labels, data roots and uploads. No answer, error or log that the other gets contains it.

Usage: tenants_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import hashlib
import os
import pathlib
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Client, Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

MARKERS = ("marker-of-ants", "marker-of-bees")
NOT_FOUND, DENIED = 3, 4


class Tenant(Client):
    """The commands of one tenant's submitter. Keeps everything that ampctl printed."""

    def __init__(self, service, admin, marker):
        folder = pathlib.Path(service.folder)
        self.marker = marker
        self.printed = []
        self.jobs = []
        self.tokens = {}
        for role, flags in (("submitter", []), ("operator", []), ("scraper", []), ("agent", ["--worker", f"{marker}-*"])):
            path = folder / f"{marker}-{role}.token"
            code, _, err = admin.ampctl("auth", "token", "create", f"{marker}-{role}", "--role", role, "--tenant", marker,
                                        *flags, "--out", str(path))
            assert code == 0, err
            self.tokens[role] = path
        super().__init__(BINARIES, folder, service.address, token_file=self.tokens["submitter"])
        (folder / f"{marker}-data").mkdir(exist_ok=True)

    def ampctl(self, *arguments, **options):
        result = super().ampctl(*arguments, **options)
        self.printed.append((arguments, result))
        return result

    def job_file(self):
        return JOB.replace("name: small", f"name: {self.marker}\nlabels: {{team: {self.marker}}}")

    def work(self, rounds):
        """Does what users do, and reads everything that there is to read."""
        for number in range(rounds):
            job = self.submit(self.job_file())
            self.jobs.append(job)
            for arguments in (["job", "list", "-o", "wide"], ["job", "list", "-o", "json"], ["job", "show", job],
                              ["job", "explain", job], ["worker", "list", "-o", "wide"], ["worker", "list", "-o", "json"],
                              ["artifact", "list", "-o", "wide"], ["auth", "whoami"], ["estimate", "-f", "-"],
                              ["job", "list", "--filter", "tenant!=x OR owner=*", "-o", "csv"], ["health"]):
                self.ampctl(*arguments, text=self.job_file())
            self.finished(job)
            for arguments in (["job", "logs", job], ["job", "events", job], ["job", "points", job], ["job", "watch", job],
                              ["checkpoint", "list", job], ["artifact", "list", "--job", job], ["job", "show", job, "-o", "yaml"]):
                self.ampctl(*arguments)


class Tenants(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service(BINARIES, trusts_loopback=False))
        cls.folder = pathlib.Path(cls.service.folder)
        cls.admin = Client(BINARIES, cls.folder, f"unix:{cls.folder}/data/ampd.sock")
        cls.tenants = [Tenant(cls.service, cls.admin, marker) for marker in MARKERS]
        shared = cls.folder / "shared.token"
        cls.admin.ampctl("auth", "token", "create", "shared", "--role", "agent", "--worker", "shared", "--out", str(shared))
        cls.start_worker("shared", shared, [f"--data-root={marker}@{marker}={cls.folder / marker}-data" for marker in MARKERS])
        cls.start_worker(f"{MARKERS[0]}-w", cls.tenants[0].tokens["agent"], [])
        # What each tenant has before the test: a job, and an uploaded file.
        for tenant in cls.tenants:
            tenant.jobs.append(tenant.submit(tenant.job_file()))
            tenant.finished(tenant.jobs[0])

    @classmethod
    def start_worker(cls, name, token, flags):
        ready = cls.folder / f"{name}-ready"
        agent = Program([BINARIES / "ampd-worker", "--server", cls.service.address, "--name", name, "--token-file", token,
                         "--threads", "1", "--state-dir", cls.folder / name, "--ready-file", ready, *flags],
                        cls.folder / f"{name}.log", env=dict(os.environ))
        cls.addClassCleanup(agent.process.wait, timeout=60)
        cls.addClassCleanup(agent.signal, 15)
        wait_for(lambda: ready.exists() or not agent.running(), f"worker {name}")

    def expect_no_marker(self, tenant, other):
        self.assertTrue(tenant.printed)
        for arguments, (code, out, err) in tenant.printed:
            if other.marker not in " ".join(map(str, arguments)):
                self.assertNotIn(other.marker, out, arguments)
                self.assertNotIn(other.marker, err, arguments)
            for job in other.jobs:
                if job not in arguments:
                    self.assertNotIn(job, out + err, arguments)

    def test_two_tenants_work_at_the_same_time_and_see_only_their_own(self):
        threads = [threading.Thread(target=tenant.work, args=(3,)) for tenant in self.tenants]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ants, bees = self.tenants
        for tenant, other in ((ants, bees), (bees, ants)):
            self.assertEqual(len(tenant.jobs), 4)
            self.assertEqual({job["tenant"] for job in tenant.read("job", "list")}, {tenant.marker})
            self.expect_no_marker(tenant, other)
            self.assertTrue(any(tenant.marker in out for _, (_, out, _) in tenant.printed), "the marker shows at all")
        self.assertEqual([worker["name"] for worker in bees.read("worker", "list")], ["shared"])
        self.assertEqual(sorted(worker["name"] for worker in ants.read("worker", "list")), [f"{ants.marker}-w", "shared"])
        self.assertEqual({job["tenant"] for job in self.admin.read("job", "list")}, set(MARKERS))

    def test_what_belongs_to_another_is_answered_as_what_does_not_exist(self):
        ants, bees = self.tenants
        job, none = ants.jobs[0], "j-" + "a" * 16
        commands = [["job", verb] for verb in ("show", "cancel", "pause", "resume", "clone", "retry", "events", "points", "logs",
                                               "watch", "wait", "explain", "gradients", "profile")]
        commands += [["job", "delete", "--yes"], ["checkpoint", "list"], ["job", "update", "--priority", "3"]]
        for command in commands:
            of_other, of_none = bees.ampctl(*command, job), bees.ampctl(*command, none)
            self.assertNotEqual(of_none[0], 0, command)
            self.assertEqual([of_other[0], *(text.replace(job, none) for text in of_other[1:])], list(of_none), command)
        for text, unknown in ((ants.marker, "marker-of-cats"), (job[:8], none[:8])):
            of_other, of_none = bees.ampctl("job", "show", text), bees.ampctl("job", "show", unknown)
            self.assertEqual([of_other[0], *(part.replace(text, unknown) for part in of_other[1:])], list(of_none))
        of_other = bees.ampctl("--tenant", ants.marker, "job", "submit", "-f", "-", text=bees.job_file())
        of_none = bees.ampctl("--tenant", "marker-of-cats", "job", "submit", "-f", "-", text=bees.job_file())
        self.assertEqual(of_other[0], DENIED)
        self.assertEqual([part.replace(ants.marker, "marker-of-cats") for part in of_other[1:]], list(of_none[1:]))
        operator = Client(BINARIES, self.folder, self.service.address, token_file=bees.tokens["operator"])
        for verb in ("drain", "undrain", "remove"):
            of_other, of_none = (operator.ampctl("worker", verb, name) for name in (f"{ants.marker}-w", "marker-of-cats-w"))
            self.assertEqual([part.replace(ants.marker, "marker-of-cats") for part in of_other[1:]], list(of_none[1:]), verb)
        code, _, err = operator.ampctl("worker", "drain", "shared")
        self.assertEqual(code, DENIED)
        self.assertIn("ROLE_TOO_LOW", err)
        self.assertEqual(ants.job(job)["state"], "SUCCEEDED")

    def scrape(self, token):
        request = urllib.request.Request(f"http://{self.service.metrics}/metrics",
                                         headers={"Authorization": f"Bearer {token.read_text().strip()}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def test_scrapes_show_the_series_of_the_tenants_jobs_and_workers_only(self):
        pages = [self.scrape(tenant.tokens["scraper"]) for tenant in self.tenants]
        for tenant, page, other in zip(self.tenants, pages, reversed(self.tenants)):
            self.assertIn(f'tenant="{tenant.marker}"', page)
            self.assertIn(tenant.jobs[0], page)
            self.assertNotIn(other.marker, page)
            for job in other.jobs:
                self.assertNotIn(job, page)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.scrape(self.tenants[0].tokens["submitter"])
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()

    def test_an_uploaded_file_is_its_tenants(self):
        ants, bees = self.tenants
        content = b"not a model, " * 1000
        path = self.folder / f"{ants.marker}.pt2"
        path.write_bytes(content)
        code, _, err = ants.ampctl("artifact", "upload", str(path))
        self.assertEqual(code, 0, err)
        digest = hashlib.sha256(content).hexdigest()
        self.assertEqual([artifact["name"] for artifact in ants.read("artifact", "list")], [digest])
        self.assertEqual(bees.read("artifact", "list"), [])
        for command in (["artifact", "download", digest, str(self.folder / "taken")],):
            code, _, err = bees.ampctl(*command)
            self.assertEqual(code, NOT_FOUND, err)
            self.assertIn("ARTIFACT_NOT_FOUND", err)
        operator = Client(BINARIES, self.folder, self.service.address, token_file=bees.tokens["operator"])
        code, _, err = operator.ampctl("artifact", "delete", "--yes", digest)
        self.assertIn("ARTIFACT_NOT_FOUND", err)
        copy = self.folder / f"{bees.marker}.pt2"
        copy.write_bytes(content)
        code, _, err = bees.ampctl("artifact", "upload", str(copy))
        self.assertEqual(code, 0, err)
        self.assertNotIn("already", err)
        self.assertEqual([artifact["tenant"] for artifact in bees.read("artifact", "list")], [bees.marker])
        self.assertEqual(len(list((self.folder / "data/artifacts").iterdir())), 1, "the content is stored once")


if __name__ == "__main__":
    main()
