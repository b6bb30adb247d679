#!/usr/bin/env python3
"""Several users of one host share a server by its Unix socket, as docs/access.md says: each has the rights of its role,
and a submitter changes only its own jobs.

Usage: access_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs root, which runs programs as other users; others skip it.
"""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Client, Program, Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

# Uids without a name in the system. The last one has no role.
VIEWER, SUBMITTER, OPERATOR, AGENT, STRANGER = 61001, 61002, 61003, 61004, 61005
CLIENT_DENIED = 4


@unittest.skipUnless(os.geteuid() == 0, "only root can run programs as other users")
class Access(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.public = pathlib.Path(tempfile.mkdtemp(prefix="ampd-access-"))
        cls.addClassCleanup(shutil.rmtree, cls.public)
        cls.public.chmod(0o755)
        cls.socket = f"unix:{cls.public}/ampd.sock"
        grants = {VIEWER: "viewer", SUBMITTER: "submitter", OPERATOR: "operator", AGENT: "agent"}
        flags = ["--socket", cls.public / "ampd.sock"]
        flags += [word for uid, role in grants.items() for word in ("--grant", f"uid:{uid}={role}")]
        # Programs of other users must be able to run ours.
        cls.bin = cls.public / "bin"
        shutil.copytree(BINARIES, cls.bin, ignore=lambda _, names: [name for name in names if name != "ampctl"])
        cls.service = cls.enterClassContext(Service(BINARIES, flags))
        cls.root = Client(cls.bin, cls.public, cls.socket)

    def user(self, uid):
        return Client(self.bin, self.public, self.socket, user=uid)

    def refused(self, client, *arguments, words, text=None):
        code, out, err = client.ampctl(*arguments, text=text)
        self.assertEqual((code, out), (CLIENT_DENIED, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.expect_clean_line(err.splitlines()[0])

    def test_a_submitter_owns_what_it_submits(self):
        mine = self.user(SUBMITTER).submit(JOB)
        theirs = self.root.submit(JOB)
        self.assertEqual(self.root.job(mine)["owner"], f"uid:{SUBMITTER}")
        self.assertEqual(self.root.job(theirs)["owner"], "user:root")
        self.refused(self.user(SUBMITTER), "job", "cancel", theirs, words=["user:root", "operator"])
        self.assertEqual(self.root.job(theirs)["state"], "QUEUED")
        for client, job in ((self.user(SUBMITTER), mine), (self.user(OPERATOR), theirs)):
            code, _, err = client.ampctl("job", "cancel", job)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.root.job(job)["state"], "CANCELLED")

    def test_a_viewer_sees_all_and_changes_nothing(self):
        job = self.root.submit(JOB)
        viewer = self.user(VIEWER)
        self.assertEqual(viewer.job(job)["id"], job)
        self.assertIn(job, [one["id"] for one in viewer.read("job", "list")])
        self.refused(viewer, "job", "submit", "-f", "-", text=JOB, words=["viewer", "submitter"])
        self.refused(viewer, "job", "pause", job, words=["viewer"])
        self.refused(viewer, "worker", "drain", "w1", words=["viewer", "operator"])

    def test_a_stranger_is_told_how_to_get_a_role(self):
        stranger = self.user(STRANGER)
        self.refused(stranger, "job", "list", words=[f"uid:{STRANGER}", f"--grant uid:{STRANGER}=ROLE"])
        code, out, err = stranger.ampctl("version")
        self.assertEqual(code, 0, err)

    def test_a_worker_works_over_the_socket_and_by_its_role(self):
        state = self.service.folder / "socket-worker"
        ready = self.service.folder / "socket-worker-ready"
        agent = Program([BINARIES / "ampd-worker", "--server", self.socket, "--name", "s1", "--state-dir", state,
                         "--threads", "1", "--ready-file", ready], self.service.folder / "s1.log")
        try:
            wait_for(lambda: ready.exists() or not agent.running(), "the worker")
            final = self.root.finished(self.user(SUBMITTER).submit(JOB))
            self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
            self.assertEqual(final["attempts"][0]["worker"], "s1")
        finally:
            agent.signal(15)
            agent.process.wait(timeout=60)
        self.refused(self.user(AGENT), "job", "list", words=["agent"])

    def test_without_a_grant_others_cannot_even_connect(self):
        with Service(BINARIES, ["--socket", self.public / "own.sock"]):
            self.assertEqual((self.public / "own.sock").stat().st_mode & 0o777, 0o600)
            other = Client(self.bin, self.public, f"unix:{self.public}/own.sock", user=SUBMITTER)
            code, _, err = other.ampctl("job", "list")
            self.assertNotEqual(code, 0)
            self.assertIn("own.sock", err)


if __name__ == "__main__":
    main()
