#!/usr/bin/env python3
"""Runs every command of docs/operator/kubernetes.md, block by block, in an empty home folder.

`helm` is a program of this test that renders and lints with Helm's own library, and starts the pods of what it installs
as processes (pods.py). `kubectl` is one that knows only what the page uses, refuses names that the release does not
have, and runs `exec` in those processes. `ampctl` is the real one. `docker` and the scripts that build only have their arguments
checked. Pools with GPUs are not started.

Usage: page_test.py FOLDER_OF_BINARIES. Fails if scripts/setup has not installed haproxy and Helm's library.
"""
import argparse
import base64
import contextlib
import json
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
import unittest

import helm_python
import yaml

import chart
from pod_security import restricted_findings
from pods import Pod, listener, make_claim, owned, wait_for

BINARIES = pathlib.Path(sys.argv[1]).resolve()
PAGE = chart.ROOT / "docs/operator/kubernetes.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a program of the page does: it asks the test, and does as it says.
STUB = """#!{python}
import base64, json, socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.connect({address!r})
    link.sendall(json.dumps([{name!r}, sys.argv[1:], sys.stdin.read()]).encode() + b"\\n")
    answer = json.loads(link.makefile().readline())
sys.stdout.buffer.write(base64.b64decode(answer["out"]))
sys.stderr.write(answer["err"])
sys.exit(answer["code"])
"""


class Refused(Exception):
    """What a program of the page refuses."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{self.prog}: {message}")


def helm_arguments(words):
    parser = Parser(prog="helm", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("install", "upgrade", "template", "lint", "test", "uninstall", "package"):
        command = commands.add_parser(name, allow_abbrev=False)
        if name not in ("lint", "package"):
            command.add_argument("release")
            command.add_argument("-n", "--namespace", required=True)
        if name in ("install", "upgrade", "template", "lint", "package"):
            command.add_argument("chart")
        if name in ("install", "upgrade", "template", "lint"):
            command.add_argument("-f", "--values", action="append", default=[])
        if name in ("install", "upgrade"):
            command.add_argument("--wait", action="store_true")
            command.add_argument("--timeout", type=lambda text: re.fullmatch(r"\d+[smh]", text)[0])
        if name == "lint":
            command.add_argument("--strict", action="store_true")
        if name == "package":
            for flag in ("--destination", "--version", "--app-version"):
                command.add_argument(flag, required=True)
    return parser.parse_args(words)


class Cluster:
    """What the page's commands change: one namespace with a release, as far as processes of this host can show it."""

    def __init__(self, folder, home):
        self.folder, self.home = folder, home
        self.namespaces, self.secrets, self.objects, self.claims = {}, {}, [], {}
        self.programs, self.starts = [], 0
        self.door = listener()
        self.address = f"localhost:{self.door.getsockname()[1]}"
        self.forwarded = {}

    # ---- helm
    def values(self, files):
        merged = {}
        for file in files:
            merged = merge(merged, helm_python.values_from_yaml((self.home / file).read_text()))
        return merged

    def helm(self, words, _):
        asked = helm_arguments(words)
        return getattr(self, f"helm_{asked.command}")(asked)

    def helm_package(self, asked):
        return helm_python.package(self.home / asked.chart, destination=self.home / asked.destination,
                                   version=asked.version, app_version=asked.app_version) + "\n"

    def helm_lint(self, asked):
        report = helm_python.lint(self.home / asked.chart, self.values(asked.values), strict=asked.strict)
        if report["errors"]:
            raise Refused("\n".join(report["errors"]))
        return "0 chart(s) failed\n"

    def helm_template(self, asked):
        return yaml.safe_dump_all(self.render(asked))

    def render(self, asked):
        with helm_python.Chart.load(self.home / asked.chart) as loaded:
            return chart.render(self.values(asked.values), chart=loaded, release=asked.release,
                                namespace=asked.namespace)

    def helm_install(self, asked):
        if self.objects:
            raise Refused("the release is there already")
        return self.apply(asked)

    def helm_upgrade(self, asked):
        if not self.objects:
            raise Refused("there is no such release")
        return self.apply(asked)

    def apply(self, asked):
        """Starts what the chart makes, and waits until it is ready. Of an earlier release it keeps the Secrets, as the
        chart does with lookup (upgrade_test.py)."""
        labels = self.namespaces[asked.namespace]
        self.stop()
        self.objects = self.render(asked)
        for one in self.objects:
            if labels.get("pod-security.kubernetes.io/enforce") == "restricted" and (pod := chart.pod_of(one)):
                if found := list(restricted_findings(pod)):
                    raise Refused(f"forbidden: {found}")
            if one["kind"] == "Secret":
                name = one["metadata"]["name"]
                self.secrets.setdefault(name, one["data"] if "data" in one else {})
        self.start()
        return "STATUS: deployed\n"

    def helm_test(self, asked):
        self.check_release(asked.release, asked.namespace)
        done = self.pod("Pod", f"{asked.release}-test").run("test", seconds=300)
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        self.tested = done.stdout
        return "Phase: Succeeded\n"

    def helm_uninstall(self, asked):
        self.check_release(asked.release, asked.namespace)
        self.stop()
        self.removed, self.objects = self.objects, []
        return "release uninstalled\n"

    def check_release(self, release, namespace):
        if (release, namespace) != (chart.RELEASE, chart.NAMESPACE) or not self.objects:
            raise Refused("there is no such release")

    # ---- the pods
    def pod(self, kind, name):
        self.starts += 1
        for secret, data in self.secrets.items():
            with contextlib.suppress(ValueError):
                chart.find(self.objects, "Secret", secret)["data"] = data
        given = [{"kind": "Secret", "metadata": {"name": name}, "data": data} for name, data in self.secrets.items()
                 if not any((one["kind"], one["metadata"]["name"]) == ("Secret", name) for one in self.objects)]
        changes = {"ampd.ml.svc:7443": self.address, "localhost:7443": self.address,
                   "*:7443": f"fd@{self.door.fileno()}", "0.0.0.0:7072": "127.0.0.1:0",
                   "127.0.0.1:7072": "127.0.0.1:0"}
        owner = chart.find(self.objects, kind, name)
        return Pod(self.folder / f"p{self.starts}", BINARIES, self.objects + given, owner, self.claims, changes)

    def claim(self, name, group):
        if name not in self.claims:
            self.claims[name] = make_claim(self.folder / name, group)

    def start(self):
        server = chart.find(self.objects, "StatefulSet", "ampd-server")
        for name in ("data", "ampd-checkpoints", "imagenet"):
            self.claim(name, chart.pod_of(server)["securityContext"]["fsGroup"])
        self.server = self.pod("StatefulSet", "ampd-server")
        done = self.server.run("folders")
        if done.returncode != 0:
            raise Refused(done.stderr)
        proxy = self.server.start("proxy", pass_fds=[self.door.fileno()])
        # The port of the metrics is not shared with others.
        program = self.server.start("server", "--metrics-listen=127.0.0.1:0")
        self.programs = [proxy, program]
        self.server.await_probe("server", "startupProbe", program)
        self.server.await_probe("server", "readinessProbe", program)
        self.server.await_probe("proxy", "readinessProbe", proxy)
        self.run_jobs()
        self.start_workers()

    def run_jobs(self):
        for one in self.objects:
            if one["kind"] == "Job":
                pod = self.pod("Job", one["metadata"]["name"])
                done = pod.run("token")
                if done.returncode != 0:
                    raise Refused(done.stderr)
                patch = json.loads((pod.root / "run/ampd-token/patch.json").read_text())
                name = pod.container("keep")["command"][3]
                self.secrets[name] = self.secrets[name] | patch.get("data", {})

    def start_workers(self):
        for one in self.objects:
            name = one["metadata"]["name"]
            if one["kind"] != "Deployment" or "nvidia.com/gpu" in json.dumps(one):
                continue
            for _ in range(one["spec"]["replicas"]):
                pod = self.pod("Deployment", name)
                ready = pod.root / "volumes/tmp/ready"
                # Each pod has a host name that no pod had before.
                program = pod.start("worker", f"--name={name}-{self.starts}", f"--ready-file={ready}")
                self.programs.insert(0, program)
                wait_for(lambda: ready.exists() or not program.running(), f"{name} is accepted")
                if not program.running():
                    raise Refused(program.log())
                address = ready.read_text().split("\n")[0]
                pod.await_probe("worker", "readinessProbe", program, f"--metrics-listen={address}")

    def stop(self):
        """Ends all pods by SIGTERM, the workers first."""
        for program in [*self.programs[:-2], *reversed(self.programs[-2:])]:
            program.signal(signal.SIGTERM)
            assert program.process.wait(timeout=60) == 0, program.log()
        self.programs = []

    def kill(self):
        for program in self.programs:
            if program.running():
                os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait(timeout=60)
        self.door.close()

    # ---- kubectl
    def kubectl(self, words, _):
        parser = Parser(prog="kubectl", allow_abbrev=False)
        parser.add_argument("words", nargs="+")
        parser.add_argument("-n", "--namespace")
        parser.add_argument("-c", "--container")
        parser.add_argument("-o", "--output")
        parser.add_argument("--from-file", action="append", default=[])
        end = words.index("--") if "--" in words else len(words)
        asked, behind = parser.parse_intermixed_args(words[:end]), words[end + 1:]
        if asked.namespace is not None and asked.namespace not in self.namespaces:
            raise Refused(f"there is no namespace {asked.namespace}")
        match asked.words:
            case ["create", "namespace", name]:
                self.namespaces[name] = {}
                return ""
            case ["label", "namespace", name, *labels]:
                self.namespaces[name] |= dict(label.split("=", 1) for label in labels)
                return ""
            case ["exec", "ampd-server-0"]:
                return self.exec(asked.container, behind)
            case ["get", "secret", name]:
                return self.get_secret(name, asked.output)
            case ["create", "secret", "generic", name]:
                files = dict(one.split("=", 1) if "=" in one else (one, one) for one in asked.from_file)
                self.secrets[name] = {key: base64.b64encode((self.home / file).read_bytes()).decode()
                                      for key, file in files.items()}
                return ""
            case ["port-forward", service, ports]:
                near, far = ports.split(":")
                kind, _, name = service.partition("/")
                found = chart.find(self.objects, kind.capitalize(), name)
                if int(far) not in [port["port"] for port in found["spec"]["ports"]]:
                    raise Refused(f"{service} has no port {far}")
                self.forwarded[f"localhost:{near}"] = self.address
                return ""
            case ["delete", "pvc", *names]:
                return self.delete_claims(names)
        raise Refused(f"this kubectl does not know: {words}")

    def exec(self, container, command):
        done = subprocess.run([self.server.place(word) for word in command], env=self.server.environment(container),
                              cwd=self.server.root, capture_output=True, check=False, timeout=120,
                              **owned(self.server.spec))
        if done.returncode != 0:
            raise Refused(done.stderr.decode())
        return done.stdout

    def get_secret(self, name, output):
        key = re.fullmatch(r'go-template=\{\{ index \.data "([\w.]+)" \| base64decode \}\}', output)[1]
        chart.find(self.objects, "Secret", name)
        return base64.b64decode(self.secrets[name][key]).decode()

    def delete_claims(self, names):
        server = chart.find(self.removed, "StatefulSet", "ampd-server")
        known = {f"{claim['metadata']['name']}-ampd-server-0" for claim in server["spec"]["volumeClaimTemplates"]}
        known |= {one["metadata"]["name"] for one in self.removed if one["kind"] == "PersistentVolumeClaim"}
        if set(names) != known:
            raise Refused(f"the release has left these claims: {sorted(known)}")
        self.deleted = set(names)
        return ""

    # ---- other programs
    def ampctl(self, words, text):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home),
                       "XDG_CONFIG_HOME": str(self.home / ".config")}
        done = subprocess.run([BINARIES / "ampctl", *(self.forwarded.get(word, word) for word in words)], input=text,
                              env=environment, cwd=self.home, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return done.stdout

    def docker(self, words, _):
        images = set(re.findall(r"^FROM \S+ AS (server|proxy|client|worker-cpu|worker-cuda)$",
                                (chart.ROOT / "docker/Dockerfile").read_text(), re.MULTILINE))
        names = {f"ampd-{image}:{VERSION}" for image in images}
        if words[0] not in ("tag", "push") or not all(word.rpartition("/")[2] in names for word in words[1:]):
            raise Refused(f"docker: {words}")
        return ""


VERSION = re.search(r"^project\(ampd VERSION (\S+) ", (chart.ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def merge(old, new):
    """Returns `new` over `old`, as several --values are merged."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return old | {key: merge(old.get(key), value) for key, value in new.items()}


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.cluster = Cluster(self.folder, self.home)
        self.addCleanup(self.cluster.kill)
        self.make_programs()
        self.make_clone()

    def make_programs(self):
        address = self.folder / "programs"
        link = socket.socket(socket.AF_UNIX)
        self.addCleanup(link.close)
        link.bind(str(address))
        link.listen()
        threading.Thread(target=self.answer, args=[link], daemon=True).start()
        (self.folder / "bin").mkdir()
        for name in ("helm", "kubectl", "ampctl", "docker"):
            path = self.folder / "bin" / name
            path.write_text(STUB.format(python=sys.executable, address=str(address), name=name))
            path.chmod(0o755)

    def answer(self, link):
        while True:
            try:
                accepted, _ = link.accept()
            except OSError:
                return
            with accepted:
                name, words, text = json.loads(accepted.makefile().readline())
                try:
                    out = getattr(self.cluster, name)(words, text)
                    out = out if isinstance(out, bytes) else out.encode()
                    reply = {"code": 0, "out": base64.b64encode(out).decode(), "err": ""}
                except Exception as error:  # The block fails with it.
                    reply = {"code": 1, "out": "", "err": f"{name} {words}: {type(error).__name__}: {error}\n"}
                accepted.sendall(json.dumps(reply).encode() + b"\n")

    def make_clone(self):
        """Makes what the first block needs of a clone. Instead of building, two scripts check their arguments."""
        clone = self.home / "clone"
        (clone / "scripts").mkdir(parents=True)
        shutil.copytree(chart.SOURCE, clone / "helm/ampd")
        shutil.copy(chart.ROOT / "CMakeLists.txt", clone)
        shutil.copy(chart.ROOT / "scripts/chart", clone / "scripts")
        targets = re.search(r'TARGETS="(.*)"', (chart.ROOT / "scripts/images").read_text())[1]
        (clone / "scripts/images").write_text(
            f'#!/bin/sh\nfor one; do case "{targets}" in *" $one "*) ;; *) exit 1 ;; esac; done\n')
        (clone / "scripts/packages").write_text("#!/bin/sh\n[ $# -eq 0 ]\n")
        for name in ("images", "packages"):
            (clone / "scripts" / name).chmod(0o755)
        # So that paths of the clone are those of the home folder, where helm looks.
        for name in ("helm", "build"):
            (self.home / name).symlink_to(f"clone/{name}")

    def run_block(self, block):
        here = self.home / ("clone" if "In a clone of the repository" in block else "")
        environment = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "HOME": str(self.home)}
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", block], cwd=here, env=environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_every_block_in_its_order(self):
        blocks = BLOCK.findall(PAGE.read_text())
        self.assertGreater(len(blocks), 8)
        for key in ("tls.crt", "tls.key", "ca.crt"):  # Of an authority of the reader's own.
            (self.home / key).write_text(key)
        said = [self.run_block(block) for block in blocks]
        self.assertEqual(set(self.cluster.secrets["ml-server"]), {"tls.crt", "tls.key", "ca.crt"})
        self.assertIn("SUCCEEDED", self.cluster.tested)
        [first] = [out for block, out in zip(blocks, said) if "ampctl job submit" in block]
        self.assertRegex(first, r"ampd-worker-cpu-\d+ +\w+")
        self.assertRegex(first, "(?i)succeeded")
        self.assertTrue((self.home / "alice.token").exists())
        self.assertFalse((self.home / "ops.token").exists())
        listed = subprocess.run(["tar", "-tf", self.home / "backup.tar"], capture_output=True, text=True, check=True)
        self.assertIn("backup/journal.db", listed.stdout)
        self.assertEqual(self.cluster.deleted, {"data-ampd-server-0", "ampd-checkpoints"})

    def test_the_command_in_the_text(self):
        texts = re.findall(r"`(helm [^`]*-f[^`]*)`", PAGE.read_text())
        self.assertEqual(len(texts), 1)
        first, install = BLOCK.findall(PAGE.read_text())[:2]
        self.run_block(first)
        self.run_block(install[:install.index("kubectl")])
        self.assertIn("kind: StatefulSet", self.run_block(texts[0].replace("\n", " ")))

    def test_values_of_the_page_are_those_of_the_chart(self):
        """Values that the text names, such as `server.service.type: LoadBalancer`."""
        schema = chart.package().schema
        tops = "server|certificates|checkpoints|podSecurity|ingress|gateway|networkPolicy|metrics"
        named = set(re.findall(rf"`((?:{tops})\.[\w.-]+)(?::[^`]*)?`", PAGE.read_text()))
        self.assertGreater(len(named), 8)
        for name in named:
            with self.subTest(value=name):
                place = schema
                for key in name.split("."):
                    place = place["properties"][key]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
