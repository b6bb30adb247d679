"""Debian hosts for tests: each is a Debian root of its own, made from nothing by mmdebstrap, with systemd as its first
process (systemd-nspawn) and with a network namespace of its own. A bridge in one more namespace joins them. From this
machine the hosts get the files that the test gives them and a mirror of Debian's packages, and nothing else.

AMPD_DEBIAN_ROOT names a folder where the base root is kept for the next run. The mirror is that of this machine's apt.
"""
import concurrent.futures
import contextlib
import ctypes
import fcntl
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from service import Program, wait_for
from service_case import ServiceCase, main

LAN = "10.77.0.254"  # The address of the packages' mirror.
# What a Debian host has that can be reached by ssh; mmdebstrap adds the packages that every root needs.
BASE_PACKAGES = "systemd-sysv,dbus,iproute2,openssh-server"
HOME = "root"  # The home folder of root, below the root of a host.
BLOCK_SECONDS = 600
CLONE_NEWNET = 0x40000000


def run(*command, seconds=BLOCK_SECONDS, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds, **options).stdout


@contextlib.contextmanager
def made_once(path):
    """Waits while another test makes this file or folder, which is kept for later runs."""
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def debian_mirror():
    """Returns the address of the mirror from which this machine's apt gets Debian 12, or None."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm",
                    "Component: main").split()
        return next((address for address in found if address.startswith("http://")), None)
    return None


def blocks(page, known):
    """Returns [(line, hosts, user, commands)] of the page's blocks ```sh, in order. The first line of each names its hosts
    and its user: `# On HOST and HOST, as USER`, `# On every host, as root` or `# On the build host, ...`. The line is
    counted from 1; the build host is ["build"]."""
    text, found = page.read_text(), []
    for match in re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 2
        first = match[1].partition("\n")[0]
        if first.startswith("# On the build host"):
            found.append((line, ["build"], None, match[1]))
            continue
        named = re.fullmatch(r"# On (.+), as (\w+)", first)
        assert named, f"{page.name}:{line}: no host and user: {first}"
        hosts = list(known) if named[1] == "every host" else named[1].split(" and ")
        assert set(hosts) <= set(known), f"{page.name}:{line}: {first}"
        found.append((line, hosts, named[2], match[1]))
    return found


def socket_in_namespace(name, make):
    """Returns the socket that make() makes in a network namespace. Only a thread of its own enters the namespace."""
    made = []

    def enter():
        with open(f"/run/netns/{name}", "rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) == 0:
                made.append(make())
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert made, f"no socket in the network namespace {name}"
    return made[0]


def answer_dns(server):
    """Answers every question with "no such name", so that programs read /etc/hosts without waiting for a DNS server."""
    while True:
        question, client = server.recvfrom(512)
        server.sendto(question[:2] + b"\x81\x83" + question[4:6] + bytes(6) + question[12:], client)


def dns_socket():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((LAN, 53))
    return server


class Mirror(http.server.BaseHTTPRequestHandler):
    """An HTTP proxy that fetches each file of Debian's mirror once, as companies have one."""
    protocol_version = "HTTP/1.1"
    cache = source = None
    lock = threading.Lock()

    def do_GET(self):
        path = self.cache / hashlib.sha256(self.path.encode()).hexdigest()
        with self.lock:
            if not path.exists() and self.path.startswith(self.source):
                with contextlib.suppress(OSError), urllib.request.urlopen(self.path, timeout=60) as answer:
                    part = path.with_suffix(".part")
                    part.write_bytes(answer.read())
                    part.rename(path)
        found = path.exists()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(path.stat().st_size if found else 0))
        self.end_headers()
        if found:
            self.wfile.write(path.read_bytes())

    def log_message(self, *_):
        pass


class Host:
    """A Debian host: a root, a network namespace and the processes in them."""

    def __init__(self, name, addresses, folder, base, prefix):
        """`addresses`: those of all hosts, by name."""
        self.name, self.addresses, self.folder = name, addresses, folder / name
        self.namespace = f"{prefix}-{list(addresses).index(name)}"
        self.root = self.folder / "root"
        for part in ("root", "upper", "work"):
            (self.folder / part).mkdir(parents=True)
        self.overlay = f"lowerdir={base},upperdir={self.folder}/upper,workdir={self.folder}/work"
        self.nspawn = self.leader = None

    def connect(self, lan):
        """Makes the namespace, with a cable to the bridge of the namespace `lan`."""
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", lan, "link", "add", self.namespace, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        run("ip", "-n", lan, "link", "set", self.namespace, "master", "bridge", "up")
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        run("ip", "-n", self.namespace, "address", "add", f"{self.addresses[self.name]}/24", "dev", "eth0")
        run("ip", "-n", self.namespace, "link", "set", "eth0", "up")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def start(self, given, mirror):
        """Boots the host. `given`: files and folders of this machine that appear in the home folder of root, read-only."""
        run("mount", "-t", "overlay", "-o", self.overlay, "ampd-test", self.root)
        known = "".join(f"{address} {name}\n" for name, address in self.addresses.items())
        self.write("etc/hosts", "127.0.0.1 localhost\n" + known)
        self.write("etc/hostname", self.name + "\n")
        self.write("etc/resolv.conf", f"nameserver {LAN}\n")
        self.write("etc/apt/apt.conf.d/90mirror", f'Acquire::http::Proxy "http://{mirror}";\nAcquire::Languages "none";\n')
        self.write("etc/ssh/ssh_config.d/test.conf", "StrictHostKeyChecking accept-new\n")
        for path in given:
            place = self.root / HOME / path.name
            place.mkdir() if path.is_dir() else place.touch()
        binds = [word for path in given for word in ("--bind-ro", f"{path}:/{HOME}/{path.name}")]
        self.nspawn = Program(
            # The host shuts down when the thread that started it ends, and so with the test, however that ends. Nothing
            # here has to survive a loss of power.
            ["setpriv", "--pdeathsig", "TERM", "systemd-nspawn", "--suppress-sync=yes", "--quiet", "--directory", self.root,
             "--machine", self.namespace, "--hostname", self.name,
             "--network-namespace-path", f"/run/netns/{self.namespace}", "--register=no", "--keep-unit",
             "--resolv-conf=off", "--timezone=off", "--link-journal=no", *binds, "--boot"],
            self.folder / "boot.log", env={"PATH": os.environ["PATH"]}, start_new_session=True)

    def await_boot(self):
        children = pathlib.Path(f"/proc/{self.nspawn.process.pid}/task/{self.nspawn.process.pid}/children")

        def booted():
            assert self.nspawn.running(), self.nspawn.log()
            self.leader = int((children.read_text().split() or [0])[0])
            state = self.leader and self.try_inside("systemctl", "is-system-running").stdout.strip()
            # While /run/nologin exists, nobody but root can log in.
            return state in ("running", "degraded") and self.try_inside("test", "-e", "/run/nologin").returncode == 1
        wait_for(booted, f"{self.name} has booted", 120)

    def inside(self, *command):
        """Returns the command that runs this one on the host, with an empty environment."""
        return ["nsenter", "--target", str(self.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
                "--wd", "--", "/usr/bin/env", "-i", *command]

    def try_inside(self, *command):
        return subprocess.run(self.inside(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=BLOCK_SECONDS, check=False)

    def command(self, text, user="root"):
        """Returns the command that runs these lines in a login shell of the user."""
        script = f"/var/tmp/{hashlib.sha256(text.encode()).hexdigest()[:16]}.sh"
        self.write(script[1:], text)
        return ["/sbin/runuser", "--login", user, "--command", f"bash -eu -o pipefail {script}"]

    def attempt(self, text, user="root"):
        return self.try_inside(*self.command(text, user))

    def run(self, text, user="root"):
        done = self.attempt(text, user)
        assert done.returncode == 0, f"{self.name}, {user}: exit code {done.returncode}\n{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def begin(self, text, log, user):
        """Starts a command that goes on beside the test."""
        return Program(self.inside(*self.command(text, user)), log)

    def end(self):
        if self.nspawn is not None and self.nspawn.running():
            self.nspawn.signal(signal.SIGTERM)  # Shuts the host down.
            try:
                self.nspawn.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                if self.leader:
                    os.kill(self.leader, signal.SIGKILL)
                self.nspawn.kill()
        for command in (["umount", self.root], ["ip", "netns", "delete", self.namespace]):
            subprocess.run(command, capture_output=True, check=False, timeout=60)


def why_not():
    """Returns why this machine cannot make the hosts, or None."""
    if os.geteuid() != 0:
        return "only root can make the hosts"
    for program in ("mmdebstrap", "systemd-nspawn", "ip", "nsenter", "setpriv", "unshare"):
        if shutil.which(program) is None:
            return f"no {program}"
    if (mirror := debian_mirror()) is None:
        return "apt has no http mirror of Debian 12 (bookworm)"
    try:
        with urllib.request.urlopen(f"{mirror}dists/bookworm/Release", timeout=30):
            return None
    except OSError as error:
        return f"no Debian mirror at {mirror}: {error}"


class DebianHosts(ServiceCase):
    """A test on hosts of its own. A subclass sets HOSTS, and calls boot() in its setUpClass."""
    HOSTS = {}  # Addresses in 10.77.0.0/24, by name.

    @classmethod
    def prepare(cls):
        """Makes the base root. Skips the test where there can be none."""
        if reason := why_not():
            print(f"SKIPPED: {reason}", flush=True)
            raise unittest.SkipTest(reason)
        cls.began = time.monotonic()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-hosts-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.make_base()

    @classmethod
    def boot(cls, given):
        """Boots all hosts. `given`: as Host.start's."""
        cls.connect_hosts()
        for host in cls.hosts.values():
            host.start(given, cls.mirror)
        for host in cls.hosts.values():
            host.await_boot()
        cls.say("the hosts have booted")

    @classmethod
    def say(cls, what):
        print(f"  {time.monotonic() - cls.began:.0f} s: {what}", flush=True)

    @classmethod
    def on_all(cls, names, action):
        """Calls action(host) for these hosts at the same time, and returns the results."""
        with concurrent.futures.ThreadPoolExecutor() as threads:
            return list(threads.map(action, [cls.hosts[name] for name in names]))

    @classmethod
    def make_base(cls):
        kept = os.environ.get("AMPD_DEBIAN_ROOT")
        cls.base = pathlib.Path(kept) if kept else cls.folder / "base"
        with made_once(cls.base):
            if not (cls.base / "etc/debian_version").exists():
                run("mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io",
                    f"--include={BASE_PACKAGES}", "bookworm", cls.base, debian_mirror(), seconds=1200)
        cls.say("the base root is there")

    @classmethod
    def connect_hosts(cls):
        prefix = f"ampd{os.getpid()}"
        cls.lan = f"{prefix}-lan"
        run("ip", "netns", "add", cls.lan)
        cls.addClassCleanup(run, "ip", "netns", "delete", cls.lan)
        run("ip", "-n", cls.lan, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", cls.lan, "address", "add", f"{LAN}/24", "dev", "bridge")
        run("ip", "-n", cls.lan, "link", "set", "bridge", "up")
        Mirror.cache = cls.folder / "packages"
        Mirror.cache.mkdir()
        Mirror.source = debian_mirror()
        threading.Thread(target=answer_dns, args=[socket_in_namespace(cls.lan, dns_socket)], daemon=True).start()
        listener = socket_in_namespace(cls.lan, lambda: socket.create_server((LAN, 0)))
        cls.mirror = f"{LAN}:{listener.getsockname()[1]}"
        server = http.server.ThreadingHTTPServer(listener.getsockname(), Mirror, bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.hosts = {name: Host(name, cls.HOSTS, cls.folder, cls.base, prefix) for name in cls.HOSTS}
        for host in cls.hosts.values():
            cls.addClassCleanup(host.end)
            host.connect(cls.lan)

    # The steps of a page share the hosts, so they are one case. `follow` runs the page's blocks up to a heading.

    def open_page(self, page):
        self.page, self.left = page, blocks(page, self.HOSTS)

    def follow(self, until=None):
        """Runs the page's next blocks, those before the heading `## UNTIL`; None: all that are left."""
        text = self.page.read_text()
        end = len(text) if until is None else text.index(f"\n## {until}\n")
        end_line = text.count("\n", 0, end) + 2
        while self.left and self.left[0][0] < end_line:
            line, hosts, user, commands = self.left.pop(0)
            if hosts == ["build"]:
                continue
            began = time.monotonic()
            self.output = self.on_all(hosts, lambda host, commands=commands, user=user: host.run(commands, user))[0]
            self.say(f"line {line} on {', '.join(hosts)}, {time.monotonic() - began:.1f} s")

    def with_logs(self, steps):
        """Runs steps(). If they fail, prints the last log lines of all hosts."""
        try:
            steps()
        except BaseException:
            traceback.print_exc()
            for host in self.hosts.values():
                print(f"the last log lines of {host.name}:")
                log = host.try_inside("/usr/bin/journalctl", "--no-pager", "--lines", "40", "--output", "cat")
                print(log.stdout, flush=True)
            raise


def main_with_own_mounts():
    """Runs the tests. All mounts, those of network namespaces included, are the test's own, and end with it."""
    if os.geteuid() == 0 and "AMPD_OWN_MOUNTS" not in os.environ:
        os.environ["AMPD_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    main()
