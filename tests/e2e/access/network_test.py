#!/usr/bin/env python3
"""A server on a network, as docs/access.md says: `ampd-server init`, TLS by the server itself and by HAProxy before it.

Usage: network_test.py FOLDER_OF_BINARIES [REPORT.xml]. Fails if scripts/setup has not installed haproxy and curl.
"""
import base64
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import http2
import http2_attacks
from service import Client, Program, kill_below, replace_file, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLIENT_DENIED, CLIENT_UNREACHABLE = 4, 5
ROTATIONS = int(os.environ.get("AMPD_ROTATIONS", "3"))
REVOKED_SECONDS = 5  # Within this time, the streams end of those who lose their right.
# haproxy is in a folder that is not in every user's PATH.
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")


class TlsClient(Client):
    """ampctl with the files of a TLS connection."""

    def __init__(self, folder, address, *flags):
        super().__init__(BINARIES, folder, address)
        self.flags = flags

    def ampctl(self, *arguments, **options):
        return super().ampctl(*arguments, *self.flags, **options)


class Network(ServiceCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-network-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(kill_below, cls.folder)
        cls.data = cls.folder / "data"
        cls.printed = cls.server_command("init", "--data-dir", cls.data, "--host", "127.0.0.1", "--host", "localhost")
        for name in ("alice", "worker-1", "worker-2", "stranger", "prometheus"):
            cls.server_command("cert", name, "--data-dir", cls.data, "--out", cls.folder)
        cls.tls = cls.data / "tls"
        (cls.folder / "proxy").mkdir(mode=0o700)
        cls.start_server()
        cls.start_proxy()

    @classmethod
    def server_command(cls, *arguments):
        done = subprocess.run([BINARIES / "ampd-server", *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @classmethod
    def start_server(cls):
        ports = cls.folder / "ports"
        cls.server = Program(
            [BINARIES / "ampd-server", "--data-dir", cls.data, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
             "--port-file", ports, "--tls-cert", cls.tls / "server.pem", "--tls-key", cls.tls / "server.key",
             "--tls-client-ca", cls.tls / "ca.pem", "--proxy-socket", cls.folder / "proxy/ampd.sock",
             "--metrics-tls-cert", cls.tls / "server.pem", "--metrics-tls-key", cls.tls / "server.key",
             "--metrics-tls-client-ca", cls.tls / "ca.pem", "--grant", "cert:alice=submitter", "--grant", "cert:worker-*=agent",
             "--grant", "cert:prometheus=scraper"], cls.folder / "server.log")
        cls.addClassCleanup(cls.server.kill)
        wait_for(lambda: ports.exists() or not cls.server.running(), "the server's ports")
        assert cls.server.running(), cls.server.log()
        cls.direct, cls.metrics = (f"127.0.0.1:{port}" for port in ports.read_text().split())

    @classmethod
    def start_proxy(cls):
        """Starts HAProxy with the configuration that `init --proxy` prints, on a port that the system chooses."""
        configuration = cls.folder / "haproxy.cfg"
        configuration.write_text(cls.server_command("init", "--proxy"))
        listener = socket.create_server(("127.0.0.1", 0))
        cls.addClassCleanup(listener.close)
        environment = {**os.environ, "AMPD_PROXY_BIND": f"fd@{listener.fileno()}", "AMPD_PROXY_CERT": str(cls.tls / "proxy.pem"),
                       "AMPD_PROXY_CLIENT_CA": str(cls.tls / "ca.pem"),
                       "AMPD_PROXY_SOCKET": str(cls.folder / "proxy/ampd.sock")}
        cls.proxy = Program([HAPROXY, "-W", "-db", "-f", configuration], cls.folder / "proxy.log", env=environment,
                            pass_fds=[listener.fileno()])
        cls.addClassCleanup(cls.proxy.process.wait, timeout=60)
        cls.addClassCleanup(cls.proxy.signal, 15)
        cls.proxied = f"127.0.0.1:{listener.getsockname()[1]}"

    def client(self, address, name=None, token=None):
        flags = ["--ca", self.tls / "ca.pem"]
        flags += ["--cert", self.folder / f"{name}.pem", "--key", self.folder / f"{name}.key"] if name else []
        flags += ["--token-file", token] if token else []
        return TlsClient(self.folder, address, *flags)

    def refused(self, client, *arguments, code, words):
        found, out, err = client.ampctl(*arguments)
        self.assertEqual((found, out), (code, ""), err)
        for word in words:
            self.assertIn(word, err)

    def start_worker(self, address, name, certificate=None):
        ready = self.folder / f"{name}-ready"
        ready.unlink(missing_ok=True)
        agent = Program([BINARIES / "ampd-worker", "--server", address, "--ca", self.tls / "ca.pem", "--cert",
                         self.folder / f"{certificate or name}.pem", "--key", self.folder / f"{certificate or name}.key",
                         "--name", name, "--state-dir", self.folder / name, "--threads", "1", "--ready-file", ready],
                        self.folder / f"{name}.log")
        self.addCleanup(agent.process.wait, timeout=60)
        self.addCleanup(agent.signal, 15)
        return agent, ready

    def test_init_says_what_to_run_next(self):
        for text in ("ampd-server --data-dir", "ampctl context add prod 127.0.0.1:7070 --ca ca.pem",
                     "ampd-worker --server 127.0.0.1:7070"):
            self.assertIn(text, self.printed)
        done = subprocess.run([BINARIES / "ampd-server", "init", "--data-dir", self.data, "--host", "x"], capture_output=True,
                              text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.data), done.stderr)

    def test_a_certificate_is_who_calls_on_both_ways(self):
        for address in (self.direct, self.proxied):
            self.assertEqual(self.client(address, "alice").read("auth", "whoami"),
                             {"name": "cert:alice", "roles": ["SUBMITTER"],
                              "memberships": [{"role": "SUBMITTER", "tenant": "default"}]})
            self.refused(self.client(address, "stranger"), "job", "list", code=CLIENT_DENIED, words=["NO_ROLE", "cert:stranger"])
            admin = self.client(address, "stranger", self.data / "admin.token").read("auth", "whoami")
            self.assertEqual((admin["name"], admin["roles"]), ("token:admin", ["ADMIN"]))

    def test_without_a_certificate_the_server_lets_nobody_in_and_the_proxy_those_with_tokens(self):
        self.refused(self.client(self.direct), "auth", "whoami", code=CLIENT_UNREACHABLE, words=[self.direct, "--cert and --key"])
        self.refused(self.client(self.proxied), "job", "list", code=CLIENT_DENIED, words=["TOKEN_NEEDED"])
        self.assertEqual(self.client(self.proxied, token=self.data / "admin.token").read("auth", "whoami")["name"], "token:admin")

    def test_what_is_wrong_with_tls_is_said_in_one_line(self):
        def message(address, *flags):
            code, out, err = TlsClient(self.folder, address, *flags).ampctl("job", "list")
            self.assertEqual((code, out), (CLIENT_UNREACHABLE, ""), err)
            self.assertEqual(len(err.splitlines()), 1, err)
            return err
        ca = ["--ca", self.tls / "ca.pem"]
        alice = ["--cert", self.folder / "alice.pem", "--key", self.folder / "alice.key"]
        for address in (self.direct, self.proxied):
            self.assertIn("if it has TLS, name the file of its CA with --ca", message(address))
        (self.folder / "foreign").mkdir()
        self.server_command("init", "--data-dir", self.folder / "foreign", "--host", "127.0.0.1")
        other = self.folder / "foreign/tls/ca.pem"
        self.assertIn(f"its certificate was not issued by a CA in {other}", message(self.direct, "--ca", other, *alice))
        self.server_command("cert", "alice", "--data-dir", self.folder / "foreign", "--out", self.folder / "foreign")
        foreign = ["--cert", self.folder / "foreign/alice.pem", "--key", self.folder / "foreign/alice.key"]
        self.assertIn("may not trust the certificate in", message(self.direct, *ca, *foreign))

    def test_the_proxy_speaks_tls_1_3_only(self):
        host, _, port = self.proxied.partition(":")
        context = ssl.create_default_context(cafile=str(self.tls / "ca.pem"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection((host, int(port))) as plain, self.assertRaises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="localhost")

    def watch(self, certificate, job):
        """Opens a watch through the proxy, on a connection of its own."""
        connection = http2.Connection(certificate, self.proxied)
        self.addCleanup(connection.close)
        connection.send(http2.call(1, http2_attacks.WATCH_JOB, http2_attacks.field(1, job.encode())))
        wait_for(lambda: connection.drain(0.1) and connection.answers, "the watch's first message")
        return connection

    def reload_proxy(self):
        """Makes HAProxy read its files again, and waits until it shows a certificate that it has just read."""
        def serial():
            with contextlib.suppress(OSError), http2.tcp(self.proxied) as plain, \
                    http2.tls_context(self.tls, None).wrap_socket(plain) as connection:
                return connection.getpeercert()["serialNumber"]
        before = serial()
        self.server_command("cert", "server", "--host", "127.0.0.1", "--host", "localhost", "--replace", "--out", self.tls,
                            "--data-dir", self.data)
        self.proxy.signal(12)
        wait_for(lambda: serial() not in (before, None), "the proxy's new certificate")

    def test_behind_the_proxy_streams_outlive_new_certificates_but_not_their_authority(self):
        other = self.folder / "second"
        self.server_command("init", "--data-dir", other / "data", "--host", "127.0.0.1")
        self.server_command("cert", "alice", "--data-dir", other / "data", "--out", other)
        own = (self.tls / "ca.pem").read_text()
        shutil.copy(self.tls / "ca.pem", self.folder)
        shutil.copy(self.tls / "ca.pem", other)
        replace_file(self.tls / "ca.pem", own + (other / "data/tls/ca.pem").read_text())
        self.addCleanup(replace_file, self.tls / "ca.pem", own)
        self.reload_proxy()
        kept, removed = http2.tls_context(self.folder, "alice"), http2.tls_context(other, "alice")
        alice = self.client(self.proxied, "alice")
        job = alice.submit(JOB)
        watches = [self.watch(kept, job) for _ in range(20)]
        losing = self.watch(removed, job)
        done, results = threading.Event(), []

        def submit():
            while not done.is_set():
                results.append(alice.ampctl("job", "submit", "-q", "-f", "-", text=JOB))
        thread = threading.Thread(target=submit)
        thread.start()
        try:
            for _ in range(ROTATIONS):
                self.reload_proxy()
            begun = time.monotonic()
            replace_file(self.tls / "ca.pem", own)
            wait_for(lambda: not losing.drain(0.1) or losing.ended_streams, "the end of the stream", REVOKED_SECONDS)
            print(f"  {ROTATIONS} rotations; a stream of the removed authority ended after "
                  f"{time.monotonic() - begun:.1f} s", flush=True)
            # The proxy still lets the certificate in. The server does not take it.
            request = http2_attacks.field(1, job.encode())
            with http2.Connection(removed, self.proxied) as connection:
                connection.send(http2.call(1, http2_attacks.GET_JOB, request))
                wait_for(lambda: not connection.drain(0.1) or connection.ended_streams, "the refusal")
                self.assertNotIn(job.encode(), connection.answers)
            self.reload_proxy()
            with http2.Connection(removed, self.proxied) as connection:
                wait_for(lambda: not connection.drain(0.1), "the end of the handshake")
        finally:
            done.set()
            thread.join()
        self.assertGreater(len(results), ROTATIONS)
        self.assertEqual([result for result in results if result[0] != 0], [])
        for watch in watches:
            self.assertTrue(watch.drain())
            self.assertEqual(watch.ended_streams, set())
        for queued in alice.read("job", "list", "--limit", "1000"):
            if queued["state"] == "QUEUED":
                alice.ampctl("job", "cancel", queued["id"])

    def test_what_clients_say_of_themselves_never_reaches_the_server(self):
        pem = (self.folder / "alice.pem").read_text()
        der = base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode()
        request = self.folder / "request"
        request.write_bytes(bytes(5))  # A gRPC frame with an empty message.

        def who_am_i(*flags):
            done = subprocess.run(
                ["curl", "-sS", "--http2", "--cacert", self.tls / "ca.pem", "-H", "content-type: application/grpc", "-H",
                 "te: trailers", *flags, "--data-binary", f"@{request}", f"https://{self.proxied}/ampd.v1.AuthService/WhoAmI"],
                capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        own = ["--cert", self.folder / "alice.pem", "--key", self.folder / "alice.key"]
        self.assertIn(b"cert:alice", who_am_i(*own))
        self.assertEqual(who_am_i(), bytes(5))
        for header in ("x-ampd-client-cert", "X-Ampd-Client-Cert"):
            self.assertEqual(who_am_i("-H", f"{header}: {der}"), bytes(5))
        stranger = ["--cert", self.folder / "stranger.pem", "--key", self.folder / "stranger.key"]
        self.assertIn(b"cert:stranger", who_am_i(*stranger, "-H", f"x-ampd-client-cert: {der}"))

    def test_workers_work_and_jobs_are_trained_on_both_ways(self):
        for address, worker in ((self.direct, "worker-1"), (self.proxied, "worker-2")):
            agent, ready = self.start_worker(address, worker)
            wait_for(lambda: ready.exists() or not agent.running(), "the worker")
            alice = self.client(address, "alice")
            final = alice.finished(alice.submit(JOB))
            self.assertEqual((final["state"], final["owner"]), ("SUCCEEDED", "cert:alice"), final.get("message"))
        thief, _ = self.start_worker(self.proxied, "worker-3", certificate="worker-1")
        wait_for(lambda: "is for the worker worker-1" in thief.log(), "the refusal is logged")

    def scrape(self, *flags, path="/metrics", scheme="https"):
        """Asks for a page with curl. Returns its exit code, the status of the answer and its text."""
        done = subprocess.run(["curl", "-sS", "--cacert", self.tls / "ca.pem", "-w", "\n%{http_code}", *flags,
                               f"{scheme}://{self.metrics}{path}"], capture_output=True, text=True, check=False, timeout=60)
        text, _, status = done.stdout.rpartition("\n")
        return done.returncode, int(status), text

    def test_metrics_over_tls_need_a_scraper(self):
        admin = self.client(self.direct, "stranger", self.data / "admin.token")
        admin.read("auth", "whoami")
        tokens = {}
        for name, flags in (("scraper", ("--role", "scraper")), ("viewer", ("--role", "viewer"))):
            path = self.folder / f"{name}.token"
            code, _, err = admin.ampctl("auth", "token", "create", name, *flags, "--out", str(path))
            self.assertEqual(code, 0, err)
            tokens[name] = ("-H", f"Authorization: Bearer {path.read_text().strip()}")
        certificate = ("--cert", self.folder / "prometheus.pem", "--key", self.folder / "prometheus.key")
        for flags, status, word in (((), 401, "needs a token"), (("-H", "Authorization: Bearer x"), 401, "does not know"),
                                    (tokens["viewer"], 403, "has the role viewer"), (tokens["scraper"], 200, "ampd_build_info"),
                                    (certificate, 200, "ampd_build_info")):
            code, found, text = self.scrape(*flags)
            self.assertEqual((code, found), (0, status), text)
            self.assertIn(word, text)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(self.scrape(path=path)[:2], (0, 200))
        self.assertNotEqual(self.scrape(*tokens["scraper"], scheme="http")[0], 0)
        self.assertNotEqual(self.scrape(*tokens["scraper"], "--tls-max", "1.2")[0], 0)
        refused = [entry for entry in admin.read("audit", "--limit", "100") if entry["method"] == "GET /metrics"]
        self.assertIn(("token:viewer", "ROLE_TOO_LOW"), [(entry.get("caller"), entry["reason"]) for entry in refused])

    def test_a_context_remembers_everything(self):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.folder / "config")}

        def run(*arguments):
            done = subprocess.run([BINARIES / "ampctl", *arguments], capture_output=True, text=True, cwd=self.folder,
                                  env=environment, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        run("context", "add", "prod", self.proxied, "--ca", "data/tls/ca.pem", "--token-file", "data/admin.token")
        self.assertIn("token:admin", run("--address", "prod", "auth", "whoami"))
        self.assertIn(str(self.data / "admin.token"), run("context", "list", "-o", "csv"))

    def test_a_folder_of_the_proxys_socket_that_is_open_is_refused(self):
        open_folder = self.folder / "open"
        open_folder.mkdir(mode=0o755)
        done = subprocess.run(
            [BINARIES / "ampd-server", "--data-dir", self.folder / "other", "--metrics-listen", "127.0.0.1:0", "--tls-client-ca",
             self.tls / "ca.pem", "--proxy-socket", open_folder / "ampd.sock"], capture_output=True, text=True, check=False,
            timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("install -d -m 0700", done.stderr)


if __name__ == "__main__":
    main()
