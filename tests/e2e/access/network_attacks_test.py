#!/usr/bin/env python3
"""Every attack of http2_attacks.py on a server with TLS by itself and on one behind HAProxy, as docs/access.md sets them
up. Measures the memory of server and proxy, and how long an honest client waits for its answer.

Usage: network_attacks_test.py FOLDER_OF_BINARIES [REPORT.xml]. By default it runs the strongest attacks.
AMPD_ATTACKS=all runs all of them, AMPD_ATTACKS=NAME,NAME some. With AMPD_ATTACKS=all, AMPD_UPDATE_GOLDEN=1 writes what
was measured into docs/guarantees.md.
"""
import base64
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import http2
import http2_attacks
from http2_attacks import ATTACKS
from service import Client, Program, kill_below, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")
MIB = 1 << 20
ANSWERED_AGAIN_SECONDS = 15
ATTACK_SECONDS = 60
# Server and attacker are ended when the server has grown by this much.
GUARD_BYTES = 2048 * MIB
MAX_DESCRIPTORS = 4096  # Of the server: room for 3,072 connections.
NUM_JOBS = 40  # For answers of some size.


# A server with TLS, a server behind HAProxy, and the latter attacked without a certificate.
SHAPES = ("direct", "proxied", "anonymous")


@dataclasses.dataclass
class Bound:
    """How much the server and the proxy may grow, in MiB."""
    direct: int = 64
    proxied: int = 64
    proxy: int = 64


class Deployment(contextlib.ExitStack):
    """A server of one of the SHAPES, on data that the class Fixture prepared."""

    def __init__(self, fixture, shape):
        super().__init__()
        self.fixture, self.shape = fixture, shape
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-attacks-", dir=fixture.folder))
        self.proxy, self.address = None, None

    def __enter__(self):
        tls = self.fixture.tls
        flags = ["--tls-client-ca", tls / "ca.pem", "--grant", "cert:alice=submitter", "--grant", "cert:mallory=viewer"]
        if self.shape == "direct":
            flags += ["--listen", "127.0.0.1:0", "--tls-cert", tls / "server.pem", "--tls-key", tls / "server.key"]
        else:
            (self.folder / "proxy").mkdir(mode=0o700)
            flags += ["--proxy-socket", self.folder / "proxy/ampd.sock"]
        ports = self.folder / "ports"
        self.server = Program(
            [BINARIES / "ampd-server", "--data-dir", self.fixture.data, "--metrics-listen", "127.0.0.1:0", "--port-file",
             ports, *flags], self.folder / "server.log",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS)))
        self.callback(self.server.kill)
        wait_for(lambda: ports.exists() or not self.server.running(), "the server's ports")
        assert self.server.running(), self.server.log()
        port, metrics = ports.read_text().split()
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        self.address = f"127.0.0.1:{port}" if self.shape == "direct" else self.start_proxy(tls)
        wait_for(lambda: self.honest_call(1), "the first answer")
        return self

    def start_proxy(self, tls):
        """Starts HAProxy with the configuration that `init --proxy` prints."""
        listener = self.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        environment = {**os.environ, "AMPD_PROXY_BIND": f"fd@{listener.fileno()}", "AMPD_PROXY_CERT": str(tls / "proxy.pem"),
                       "AMPD_PROXY_CLIENT_CA": str(tls / "ca.pem"), "AMPD_PROXY_SOCKET": str(self.folder / "proxy/ampd.sock")}
        self.proxy = Program([HAPROXY, "-W", "-db", "-f", self.fixture.configuration], self.folder / "proxy.log",
                             env=environment, pass_fds=[listener.fileno()])
        self.callback(self.proxy.process.wait, timeout=60)
        self.callback(self.proxy.signal, 15)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def honest_call(self, seconds=ANSWERED_AGAIN_SECONDS):
        """Asks for a job over a new connection. Returns the seconds until the answer, or None."""
        return http2.honest_call(self.fixture.alice, self.address, self.fixture.request, b"honest", seconds)

    def server_bytes(self):
        return resident(self.server.process.pid)

    def proxy_bytes(self):
        """The memory of HAProxy's worker process, the only child of the process that was started."""
        if self.proxy is None:
            return 0
        pid = self.proxy.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return max((resident(child) for child in children), default=0)

    def num_calls(self, metrics=("ampd_grpc_requests_total{", "ampd_grpc_streams{")):
        """How many calls the server's metrics count."""
        token = (self.fixture.data / "admin.token").read_text().strip()
        request = urllib.request.Request(self.metrics, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines
                   if line.startswith(metrics))

    def attacker(self, name, certificate=None):
        """Starts an attack. `certificate`: "mallory" or "none" instead of what the shape says."""
        certificate = certificate or ("none" if self.shape == "anonymous" else "mallory")
        return subprocess.Popen(
            [sys.executable, http2_attacks.__file__, name, self.address, self.fixture.folder, BINARIES, certificate],
            stdout=subprocess.PIPE, text=True)


def resident(pid):
    """Returns a process's resident memory in bytes; 0 if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024
    return 0


class Watch:
    """Samples memory, and lets an honest client call, in threads of its own until the end of a `with` statement."""

    def __init__(self, deployment, attacker):
        self.deployment, self.attacker = deployment, attacker
        self.server_bytes, self.proxy_bytes, self.waits = 0, 0, []
        self.guarded = False
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self.sample), threading.Thread(target=self.call)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join()

    def sample(self):
        while not self.done.wait(0.02):
            self.server_bytes = max(self.server_bytes, self.deployment.server_bytes())
            self.proxy_bytes = max(self.proxy_bytes, self.deployment.proxy_bytes())
            if self.server_bytes > GUARD_BYTES and not self.guarded:
                self.guarded = True
                self.attacker.kill()
                self.deployment.server.process.kill()

    def call(self):
        """Each wait lasts until an answer, with as many connections as that takes."""
        while not self.done.wait(0.1):
            begin = time.monotonic()
            while not self.deployment.honest_call(5) and not self.done.wait(0.05):
                pass
            self.waits.append(time.monotonic() - begin)


@dataclasses.dataclass
class Measured:
    """What one attack did to one shape. Memory in MiB before, at most, and after; seconds of the honest client."""
    server: tuple
    proxy: tuple
    latency: tuple
    again: float
    result: dict

    def cells(self):
        """The cells of the table in docs/guarantees.md."""
        memory = [" / ".join(f"{mib:.0f}" for mib in program) for program in (self.server, self.proxy) if any(program)]
        return [*memory, " / ".join(f"{1000 * seconds:.0f}" for seconds in self.latency), f"{self.again:.1f}"]

    def text(self):
        return ", ".join(self.cells())


TABLE_HEAD = """\
| what the client does | server: MiB | answer: ms | again: s | behind HAProxy: MiB | HAProxy: MiB | answer: ms | again: s |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TABLE_MARKS = ("<!-- The next table is made by network_attacks_test.py. -->\n", "<!-- End of the table. -->\n")


def write_table(measured):
    """Writes what was measured into docs/guarantees.md."""
    page = pathlib.Path(__file__).resolve().parents[3] / "docs/guarantees.md"
    before, _, rest = page.read_text().partition(TABLE_MARKS[0])
    after = rest.partition(TABLE_MARKS[1])[2]
    rows = [" | ".join([f"| {ATTACKS[name].title} ({direct.result['sent']})", *direct.cells(),
                        *measured[name, "proxied"].cells()]) + " |\n"
            for (name, shape), direct in measured.items() if shape == "direct" and (name, "proxied") in measured]
    page.write_text(before + TABLE_MARKS[0] + "\n" + TABLE_HEAD + "".join(rows) + "\n" + TABLE_MARKS[1] + after)


def latency(deployment):
    return statistics.median(deployment.honest_call() or ANSWERED_AGAIN_SECONDS for _ in range(5))


def measure(deployment, name):
    server, proxy = deployment.server_bytes(), deployment.proxy_bytes()
    before = latency(deployment)
    attacker = deployment.attacker(name)
    with Watch(deployment, attacker) as watch:
        try:
            out, _ = attacker.communicate(timeout=ATTACK_SECONDS)
        finally:
            attacker.kill()
            attacker.wait()
        ended = time.monotonic()
        while not watch.guarded and not deployment.honest_call(5) and time.monotonic() - ended < 2 * ANSWERED_AGAIN_SECONDS:
            pass
        again = time.monotonic() - ended
    assert not watch.guarded, f"the server grew to {watch.server_bytes / MIB:.0f} MiB"
    assert attacker.returncode == 0, f"the attack ended with {attacker.returncode}"
    after = latency(deployment)
    with contextlib.suppress(AssertionError):
        wait_for(lambda: deployment.server_bytes() < server + 16 * MIB, "the memory is given back", 5)
    return Measured((server / MIB, watch.server_bytes / MIB, deployment.server_bytes() / MIB),
                    (proxy / MIB, watch.proxy_bytes / MIB, deployment.proxy_bytes() / MIB),
                    (before, max(watch.waits, default=again), after), again, json.loads(out.splitlines()[-1]))


class Fixture(ServiceCase):
    """Certificates, and the data of a server with some jobs, for all cases of a class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-attacks-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(kill_below, cls.folder)
        cls.data, cls.tls = cls.folder / "data", cls.folder / "data/tls"
        cls.prepare("init", "--data-dir", cls.data, "--host", "127.0.0.1")
        cls.prepare("init", "--data-dir", cls.folder / "other", "--host", "127.0.0.1")
        for name in ("alice", "mallory"):
            cls.prepare("cert", name, "--data-dir", cls.data, "--out", cls.folder)
        cls.prepare("cert", "foreign", "--data-dir", cls.folder / "other", "--out", cls.folder)
        shutil.copy(cls.tls / "ca.pem", cls.folder)
        der = ssl.PEM_cert_to_DER_cert((cls.folder / "alice.pem").read_text())
        (cls.folder / "alice.der64").write_bytes(base64.b64encode(der))
        cls.configuration = cls.folder / "haproxy.cfg"
        cls.configuration.write_text(cls.prepare("init", "--proxy"))
        cls.alice = http2.tls_context(cls.folder, "alice")
        cls.add_jobs()

    @classmethod
    def prepare(cls, *arguments):
        return subprocess.run([BINARIES / "ampd-server", *arguments], capture_output=True, text=True, check=True,
                              timeout=60).stdout

    @classmethod
    def add_jobs(cls):
        """Submits jobs that no worker runs. The newest has the name `honest`."""
        server = Program([BINARIES / "ampd-server", "--data-dir", cls.data, "--metrics-listen", "127.0.0.1:0"],
                         cls.folder / "first.log")
        socket_path = cls.data / "ampd.sock"
        wait_for(socket_path.exists, "the server's socket")
        client = Client(BINARIES, cls.folder, f"unix:{socket_path}")
        for _ in range(NUM_JOBS):
            client.submit(JOB)
        job = client.submit(JOB.replace("name: small", "name: honest"))
        (cls.folder / "job").write_text(job)
        cls.request = http2_attacks.field(1, job.encode())
        server.signal(15)
        server.process.wait(timeout=60)

    def audited(self):
        """The entries of the audit log."""
        wait_for(lambda: (self.data / "audit.log").exists(), "the audit log")
        return [json.loads(line) for line in (self.data / "audit.log").read_text().splitlines()]


# How much the programs may grow, in MiB, where that is more than 64. Measured growth is about half of it.
BOUNDS = {
    "answers_not_read": Bound(direct=256, proxied=160),
    "continuation_flood": Bound(direct=256),
    "endless_message": Bound(direct=192, proxied=192),
    "many_followers": Bound(direct=128, proxied=128, proxy=96),
    "many_watches": Bound(direct=160, proxied=160, proxy=96),
    "ping_flood": Bound(direct=160),
    "rapid_reset": Bound(direct=256, proxied=128),
    "refused_calls": Bound(proxied=96),
    "too_many_connections": Bound(direct=192, proxy=320),
    "unfinished_messages": Bound(direct=160, proxied=160),
    "watch_resets": Bound(direct=192, proxied=128),
}
# Attacks that do no harm to the proxy, and of which its log has no line.
QUIET = ("handshakes", "ping_flood", "priority_flood", "settings_flood", "slow_greeting")
# Attacks that open one connection, and can try it without a certificate.
FRAMES = [name for name, attack in ATTACKS.items()
          if attack.certified and name not in ("handshakes", "slow_greeting", "estimates")]
EVERYDAY = (("continuation_flood", "direct"), ("continuation_flood", "proxied"), ("rapid_reset", "direct"),
            ("rapid_reset", "proxied"), ("gzip_bomb", "direct"), ("gzip_bomb", "anonymous"), ("endless_message", "anonymous"),
            ("answers_not_read", "direct"))
CHOSEN = os.environ.get("AMPD_ATTACKS", "")


def pairs():
    """Returns the attacks to run and the shapes to run them on."""
    if not CHOSEN:
        return EVERYDAY
    names = list(ATTACKS) if CHOSEN == "all" else CHOSEN.split(",")
    return [(name, shape) for name in names for shape in SHAPES if shape != "anonymous" or name in FRAMES]


class Attacks(Fixture):
    measured = {}

    @classmethod
    def tearDownClass(cls):
        if CHOSEN == "all" and os.environ.get("AMPD_UPDATE_GOLDEN"):
            write_table(cls.measured)

    def check(self, name, shape):
        with Deployment(self, shape) as deployment:
            found = measure(deployment, name)
            self.measured[name, shape] = found
            print(f"  {found.text()}\n  {json.dumps(found.result)}", flush=True)
            self.assertTrue(deployment.server.running())
            self.assertTrue(deployment.proxy is None or deployment.proxy.running())
            bound = BOUNDS.get(name, Bound())
            self.assertLess(found.server[1] - found.server[0], bound.direct if shape == "direct" else bound.proxied)
            self.assertLess(found.proxy[1] - found.proxy[0], bound.proxy)
            self.assertLess(found.again, ANSWERED_AGAIN_SECONDS)
            self.assertNotIn("cert:alice", found.result.get("answers", ""))
            if ATTACKS[name].certified and name not in QUIET and shape == "proxied":
                self.assertIn('"mallory"', deployment.proxy.log())


for _name, _shape in pairs():
    def _case(self, name=_name, shape=_shape):
        self.check(name, shape)
    setattr(Attacks, f"test_{_name}_{_shape}", _case)


class Shapes(Fixture):
    """Who gets how far, and what the logs say."""

    def attack(self, deployment, name, certificate="mallory"):
        """Returns what the attack reports."""
        with deployment.attacker(name, certificate) as attacker:
            out, _ = attacker.communicate(timeout=ATTACK_SECONDS)
        self.assertEqual(attacker.returncode, 0)
        return json.loads(out.splitlines()[-1])

    def test_without_a_certificate_the_server_reads_no_frame(self):
        with Deployment(self, "direct") as deployment:
            calls, memory = deployment.num_calls(), deployment.server_bytes()
            for name in FRAMES if CHOSEN == "all" else ("continuation_flood", "rapid_reset", "token_guesses", "gzip_bomb"):
                result = self.attack(deployment, name, "none")
                print(f"  {name}: {result}", flush=True)
                self.assertEqual(result.get("seen", {}), {}, name)  # Not even the server's own SETTINGS.
                self.assertTrue(result["ended"], name)
            self.assertEqual(deployment.num_calls(), calls)
            self.assertLess(deployment.server_bytes() - memory, 16 * MIB)
            self.assertIn("SETTINGS", self.attack(deployment, "token_guesses")["seen"])
            self.assertGreater(deployment.num_calls(), calls)

    def test_the_audit_log_names_an_attacker_with_a_certificate(self):
        for shape, address in (("direct", "ipv4:127.0.1.1:"), ("proxied", "127.0.1.1")):
            with Deployment(self, shape) as deployment:
                before = len(self.audited())
                for name in ("refused_calls", "token_guesses"):
                    print(f"  {name}, {shape}: {self.attack(deployment, name)['sent']}", flush=True)
                deployment.server.signal(15)
                deployment.server.process.wait(timeout=60)
            entries = self.audited()[before:]
            found = {(one.get("caller"), one.get("reason")) for one in entries if one.get("address", "").startswith(address)}
            print(f"  {len(entries)} entries: {found}", flush=True)
            self.assertLessEqual({("cert:mallory", "ROLE_TOO_LOW"), ("cert:mallory", "TOKEN_UNKNOWN")}, found)

            self.assertLess(len(entries), 500)

    def test_the_proxy_cuts_off_stuck_handshakes_and_no_patient_client(self):
        with Deployment(self, "proxied") as deployment, http2.Connection(self.alice, deployment.address) as idle, \
                http2.Connection(self.alice, deployment.address) as follower:
            follower.send(http2.call(1, http2_attacks.TAIL_LOGS, self.request + b"\x20\x01"))
            self.expect_answer(idle, 1)
            result = self.attack(deployment, "half_handshake")
            self.assertEqual(result["closed"], result["opened"])
            self.assertTrue(follower.drain(0.1))
            self.assertEqual(follower.resets, {})
            self.expect_answer(idle, 3)

    def test_streams_of_clients_that_are_gone_end_behind_the_proxy(self):
        with Deployment(self, "proxied") as deployment:
            with http2.Connection(self.alice, deployment.address) as follower:
                follower.flood(http2.call(stream, http2_attacks.TAIL_LOGS, self.request + b"\x20\x01")
                               for stream in http2_attacks.streams(50))
                wait_for(lambda: follower.drain() and deployment.num_calls("ampd_grpc_streams{") == 50, "the streams")
            wait_for(lambda: deployment.num_calls("ampd_grpc_streams{") == 0, "their end", ANSWERED_AGAIN_SECONDS)

    def expect_answer(self, connection, stream):
        """Expects an answer to a call on this stream."""
        connection.answers = b""
        connection.send(http2.call(stream, http2_attacks.GET_JOB, self.request))
        wait_for(lambda: b"honest" in connection.answers or not connection.drain(0.1), "the answer")
        self.assertIn(b"honest", connection.answers)


if __name__ == "__main__":
    main()
