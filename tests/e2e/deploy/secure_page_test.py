#!/usr/bin/env python3
"""Runs every command of docs/operator/secure.md on hosts made for it (debian_hosts.py), and checks what the page promises.

The test runs the blocks in their order, with `bash -eu -o pipefail`.

Usage: secure_page_test.py FOLDER_OF_BINARIES [REPORT.xml]. As packages_test.py, whose packages it installs.
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from debian_hosts import DebianHosts, main_with_own_mounts, run
from packages_test import LONG_JOB, download_wheels, packages, use_wheels
from service import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/operator/secure.md"
SERVER = "ampd.example.com"
CLIENT_DENIED, CLIENT_UNREACHABLE = 4, 5
WATCHED_JOB = f"cat > long.yaml <<'END'{LONG_JOB}END\nampctl job submit -q -f long.yaml\n"


class SecurePage(DebianHosts):
    HOSTS = {SERVER: "10.77.0.1", "worker-1": "10.77.0.2", "worker-2": "10.77.0.3", "desk": "10.77.0.4"}

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.boot([packages(), download_wheels(cls.folder)])
        for worker in ("worker-1", "worker-2"):
            use_wheels(cls.hosts[worker])
        cls.let_the_server_copy_files()

    @classmethod
    def let_the_server_copy_files(cls):
        """Makes the users of desk, and lets root of the server reach the other hosts by ssh."""
        cls.hosts["desk"].run("useradd --create-home --shell /bin/bash alice; useradd --create-home --shell /bin/bash bob")
        made = cls.hosts[SERVER].run("ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519 >&2; cat ~/.ssh/id_ed25519.pub")
        key = made.strip()
        for host, user in (("worker-1", "root"), ("worker-2", "root"), ("desk", "alice"), ("desk", "bob")):
            cls.hosts[host].run(f"install -d -m 0700 ~/.ssh; echo '{key}' > ~/.ssh/authorized_keys", user)

    def read(self, arguments, host=SERVER, user="root"):
        return json.loads(self.hosts[host].run(f"ampctl {arguments} -o json", user))

    def refused(self, arguments, user, *words, code=CLIENT_DENIED):
        done = self.hosts["desk"].attempt(f"ampctl {arguments}", user)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def reaches(self, host, address, port):
        """Whether a TCP connection can be made from the host."""
        return self.hosts[host].attempt(f"timeout 5 bash -c 'exec 3<>/dev/tcp/{address}/{port}'").returncode == 0

    def test_the_page_from_zero(self):
        self.open_page(PAGE)
        self.with_logs(self.follow_and_check)

    def follow_and_check(self):
        self.follow("The workers")
        self.check_that_only_the_proxy_is_on_the_network()
        self.follow("The users")
        self.check_that_both_workers_attach()
        self.follow("Who did what")
        self.check_that_tenants_see_only_their_own()
        self.check_that_strangers_are_refused()
        self.follow("To renew a certificate")
        self.check_the_logs()
        self.check_that_renewing_breaks_no_watch()
        self.check_that_a_revoked_token_ends_soon()
        self.follow(None)
        self.check_that_alice_is_locked_out_and_worker_1_is_not()

    def check_that_only_the_proxy_is_on_the_network(self):
        listening = self.hosts[SERVER].run("ss --no-header --listening --tcp --numeric | awk '{print $4}'").split()
        foreign = {address for address in listening if not address.startswith(("127.", "[::1]"))}
        self.assertLessEqual(foreign, {"*:7443", "0.0.0.0:7443", "0.0.0.0:22", "[::]:22"})
        for host in ("worker-1", "worker-2", "desk"):
            self.assertTrue(self.reaches(host, SERVER, 7443), host)
            for port in (7070, 7071):
                self.assertFalse(self.reaches(host, SERVER, port), (host, port))
        self.assertTrue(self.reaches(SERVER, "127.0.0.1", 7071))
        nobody = self.hosts[SERVER].attempt(
            "runuser -u nobody -- ampctl --address unix:/var/lib/ampd/proxy/ampd.sock auth whoami")
        self.assertEqual(nobody.returncode, CLIENT_UNREACHABLE, nobody.stderr)
        proxy = self.hosts[SERVER].run("systemctl show --property MainPID --value ampd-proxy").strip()
        seen = self.hosts[SERVER].run(f"nsenter --target {proxy} --mount ls /var/lib/ampd").split()
        self.assertEqual(seen, ["proxy", "tls"])
        key = self.hosts[SERVER].run(f"nsenter --target {proxy} --mount wc -c /var/lib/ampd/tls/ca.key").split()[0]
        self.assertEqual(key, "0", "HAProxy does not see the authority's key")

    def check_that_both_workers_attach(self):
        def attached():
            return [worker["name"] for worker in self.read("worker list") if worker["state"] in ("READY", "BUSY")]
        wait_for(lambda: sorted(attached()) == ["worker-1", "worker-2"], "both workers attach")
        self.say("both workers have attached")

    def check_that_tenants_see_only_their_own(self):
        jobs = {job["spec"]["name"]: job for job in self.read("job list")}
        self.assertEqual({name: (job["state"], job["tenant"], job["owner"]) for name, job in jobs.items()},
                         {"first-of-vision": ("SUCCEEDED", "vision", "cert:alice"),
                          "first-of-nlp": ("SUCCEEDED", "nlp", "token:bob")})
        for user, own, foreign in (("alice", "first-of-vision", "first-of-nlp"), ("bob", "first-of-nlp", "first-of-vision")):
            self.assertEqual([job["spec"]["name"] for job in self.read("job list", "desk", user)], [own])
            for name in (foreign, jobs[foreign]["id"]):
                self.refused(f"job show {name}", user, code=3)
        workers = {user: [worker["name"] for worker in self.read("worker list", "desk", user)]
                   for user in ("alice", "bob")}
        self.assertEqual(workers, {"alice": ["worker-1", "worker-2"], "bob": ["worker-1"]})
        self.assertEqual(self.read("job show first-of-nlp", "desk", "bob")["attempts"][-1]["worker"], "worker-1")
        self.refused("audit", "alice", "ROLE_TOO_LOW")

    def check_that_strangers_are_refused(self):
        self.hosts["desk"].run(
            "useradd --create-home --shell /bin/bash mallory; install -m 0644 /home/bob/ampd/ca.pem /home/mallory/ca.pem")
        ca = f"--address {SERVER}:7443 --ca ~/ca.pem"
        self.refused(f"{ca} job list", "mallory", "TOKEN_NEEDED")
        self.refused(f"--address {SERVER}:7443 job list", "mallory", code=CLIENT_UNREACHABLE)
        self.hosts["desk"].run("install -m 0600 /dev/null ~/guess; echo ampd_guess > ~/guess", "mallory")
        self.refused(f"{ca} --token-file ~/guess job list", "mallory", "TOKEN")
        for name in ("alice.key", "ca.pem"):
            self.assertNotEqual(self.hosts["desk"].attempt(f"cat /home/alice/ampd/{name}", "mallory").returncode, 0)

    def check_the_logs(self):
        # The output of the last block ends with HAProxy's log.
        self.assertIn(f'"alice" POST https://{SERVER}:7443/ampd.v1.JobService/CreateJob', self.output)
        entries = self.read("audit --since 1h")
        callers = {entry.get("caller", "") for entry in entries}
        self.assertLessEqual({"token:admin", "token:ops", "token:bob", "cert:alice"}, callers)

    def served_certificate(self):
        """Returns the certificate that HAProxy shows to a new connection from desk."""
        script = f"import ssl; print(ssl.get_server_certificate(('{self.HOSTS[SERVER]}', 7443)))"
        return run("ip", "netns", "exec", self.hosts["desk"].namespace, sys.executable, "-c", script, seconds=60)

    def check_that_renewing_breaks_no_watch(self):
        before = self.served_certificate()
        self.job = self.hosts["desk"].run(WATCHED_JOB, "bob").strip()
        self.watch = self.hosts["desk"].begin(f"exec ampctl job watch {self.job} --retry-for 0s --interval 50ms",
                                              self.folder / "watch.log", "bob")
        self.addCleanup(self.watch.kill)
        wait_for(lambda: len(self.watch.log().splitlines()) > 5, "the watch shows steps")
        self.check_that_the_worker_of_a_tenant_works()
        self.follow("To lock somebody out")
        wait_for(lambda: self.served_certificate() != before, "HAProxy shows the new certificate")
        lines = len(self.watch.log().splitlines())
        wait_for(lambda: len(self.watch.log().splitlines()) > lines + 5, "the watch goes on")
        self.assertTrue(self.watch.running(), self.watch.log()[-2000:])
        self.check_that_both_workers_attach()
        self.say("the certificate is renewed, the watch goes on")

    def check_that_the_worker_of_a_tenant_works(self):
        """While bob's job has worker-1, alice's gets worker-2."""
        self.hosts["desk"].run("ampctl job submit -f first.yaml --name second-of-vision --follow", "alice")
        job = self.read("job show second-of-vision", "desk", "alice")
        self.assertEqual((job["state"], job["attempts"][-1]["worker"]), ("SUCCEEDED", "worker-2"))

    def check_that_a_revoked_token_ends_soon(self):
        line, _, user, commands = self.left.pop(0)
        self.assertIn("ampctl auth token revoke bob", commands)
        self.hosts[SERVER].run(commands, user)
        began = time.monotonic()
        wait_for(lambda: not self.watch.running(), f"line {line}: the watch with a revoked token ends", 5)
        self.say(f"bob's watch ended {time.monotonic() - began:.1f} s after the token was revoked")
        self.assertEqual(self.watch.process.returncode, CLIENT_DENIED, self.watch.log()[-2000:])
        self.refused("job list", "bob", "TOKEN")

    def check_that_alice_is_locked_out_and_worker_1_is_not(self):
        wait_for(lambda: self.hosts["desk"].attempt("ampctl job list", "alice").returncode != 0, "alice is locked out", 5)
        self.refused("job list", "alice", "NO_ROLE", "cert:alice")
        self.check_that_both_workers_attach()
        self.assertEqual(self.read(f"job show {self.job}")["state"], "RUNNING")
        self.hosts[SERVER].run(f"ampctl job cancel {self.job}; ampctl job wait {self.job} --timeout 60s || true")
        self.assertEqual(self.read(f"job show {self.job}")["state"], "CANCELLED")
        self.assertEqual(len(self.read(f"job show {self.job}")["attempts"]), 1, "the job survived everything")


if __name__ == "__main__":
    main_with_own_mounts()
