#!/usr/bin/env python3
"""Builds the images with a real Docker engine, starts docker/compose.yaml with them as docs/operator/compose.md says, with
every command of the page, and trains through it: with the server killed and replaced, and with workers stopped.

Usage: deploy_test.py FOLDER_OF_BINARIES [REPORT.xml]. scripts/packages has built the packages beside that folder.
Skipped without root, a Docker engine or a mirror of Debian. There is no Grafana, because Debian has no package of it.
AMPD_WHEELS, AMPD_BASE_IMAGE and AMPD_DOCKER_ROOT name places where downloads and images are kept for the next run.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import traceback
import unittest
import urllib.parse

import containers
from debian_hosts import main_with_own_mounts, run
from packages_test import download_wheels, packages
from service import Client, wait_for
from service_case import BINARIES, ServiceCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operator/compose.md"
MEGABYTE = 1_000_000
# Most that an image may have on top of debian:12.
SIZES = {"ampd-server": 150 * MEGABYTE, "ampd-proxy": 150 * MEGABYTE, "ampd-client": 150 * MEGABYTE,
         "ampd-worker-cpu": 1300 * MEGABYTE}
USER = 10001
# Services that run on, with their memory.
OURS = {"server": 2 << 30, "proxy": 1 << 30, "worker": 8 << 30}
OTHERS = ("prometheus", "alertmanager")
LONG_JOB = """
name: {name}
model: {{lenet: {{num_classes: 10}}}}
data: {{train: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 2048, seed: 2}}}}, batch_size: 64}}
precision: {{preset: bf16}}
optimizer: {{adamw: {{learning_rate: 1e-4}}}}
train: {{steps: {steps}, seed: 7, num_threads: 1}}
checkpoint: {{every_steps: 1000000, keep: 2}}
"""


class ContainerClient(Client):
    """ampctl in the client's container, over TLS."""

    def __init__(self, deployment):
        super().__init__(BINARIES, deployment.folder)
        self.deployment = deployment

    def ampctl(self, *arguments, text=None, seconds=120):
        done = subprocess.run(
            self.deployment.engine.inside("docker", "compose", "run", "--rm", "-T", "client", *arguments), input=text or "",
            cwd=self.deployment.compose, capture_output=True, text=True, timeout=seconds, check=False,
            env=self.deployment.environment)
        return done.returncode, done.stdout, done.stderr


class Deployment(ServiceCase):
    @classmethod
    def setUpClass(cls):
        if reason := containers.why_not():
            print(f"SKIPPED: {reason}", flush=True)
            raise unittest.SkipTest(reason)
        cls.began = time.monotonic()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-deploy-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.copy_tree()
        cls.engine = containers.Engine(cls.folder, download_wheels(cls.folder))
        cls.say("the wheels are there")
        cls.addClassCleanup(cls.engine.end)
        cls.engine.start()
        cls.say("the Docker engine runs")
        cls.engine.make_base()
        cls.say("the base image is there")
        cls.environment = cls.engine.environment | cls.engine.build_settings() | {
            "AMPD_PROMETHEUS_IMAGE": cls.engine.make_other("prometheus", "prometheus", "/prometheus"),
            "AMPD_ALERTMANAGER_IMAGE": cls.engine.make_other("prometheus-alertmanager", "prometheus-alertmanager",
                                                             "/alertmanager"),
            "COMPOSE_FILE": f"compose.yaml:{cls.leave_grafana_out()}", "GIT_DIR": str(ROOT / ".git")}
        cls.say("the images of Prometheus and Alertmanager are made, from Debian's packages")
        cls.client = ContainerClient(cls)

    @classmethod
    def say(cls, what):
        print(f"  {time.monotonic() - cls.began:.0f} s: {what}", flush=True)

    @classmethod
    def copy_tree(cls):
        """Copies what the images and compose need to a folder, in which the page's commands may write."""
        cls.tree = cls.folder / "ampd"
        for name in ("docker", "helm", "scripts"):
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, cls.tree / name)
        shutil.copy(ROOT / ".dockerignore", cls.tree)
        shutil.copytree(packages(), cls.tree / "build/release/deb")
        cls.compose = cls.tree / "docker"

    @classmethod
    def leave_grafana_out(cls):
        """Returns a file for compose, with which it does not start Grafana."""
        print("  Grafana is left out: Debian has no package of it", flush=True)
        path = cls.folder / "without-grafana.yaml"
        path.write_text("services: {grafana: {profiles: [left-out]}}\n")
        return path

    # The page.

    def open_page(self):
        text = PAGE.read_text()
        self.cwd = self.tree
        self.left = [(text.count("\n", 0, match.start()) + 2, match[1])
                     for match in re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]

    def follow(self, until=None):
        """Runs the page's next blocks, those before the heading `## UNTIL`; None: all that are left. Returns what the last
        one printed."""
        text, printed = PAGE.read_text(), ""
        end = len(text) if until is None else text.index(f"\n## {until}\n")
        end_line = text.count("\n", 0, end) + 2
        while self.left and self.left[0][0] < end_line:
            line, commands = self.left.pop(0)
            if not commands.startswith("# On the build host"):
                began = time.monotonic()
                printed = self.shell(commands)
                self.say(f"line {line}, {time.monotonic() - began:.1f} s")
        return printed

    def shell(self, commands):
        """Runs commands as one who types them: the next ones begin in the folder where these end."""
        place = self.folder / "cwd"
        script = f"trap 'pwd > {place}' EXIT\n{commands}"
        printed = self.engine.run("bash", "-eu", "-o", "pipefail", "-c", script, cwd=self.cwd, environment=self.environment,
                                  seconds=1800)
        self.cwd = pathlib.Path(place.read_text().strip())
        return printed

    def test_deployment(self):
        self.open_page()
        try:
            self.steps()
        except BaseException:
            traceback.print_exc()
            print(self.attempt("ps", "--all").stdout, self.attempt("logs", "--tail", "40", "--no-color").stdout, flush=True)
            raise

    def steps(self):
        self.follow("Start")
        self.check_images()
        self.follow("The first job")
        self.check_containers()
        self.follow()
        self.assertEqual(self.client.job("first")["state"], "SUCCEEDED")
        self.check_prometheus()
        self.check_that_up_again_changes_nothing()
        self.check_that_a_new_server_container_has_everything()
        self.check_that_a_stopped_worker_hands_its_job_over()
        self.check_that_nothing_is_left()

    # Compose.

    def attempt(self, *arguments, **options):
        return self.engine.attempt("docker", "compose", *arguments, cwd=self.compose, environment=self.environment, **options)

    def run_compose(self, *arguments, **options):
        return self.engine.run("docker", "compose", *arguments, cwd=self.compose, environment=self.environment, **options)

    def ids(self, service):
        return self.run_compose("ps", "--quiet", service).split()

    def inside(self, container, *command):
        return self.engine.attempt("docker", "exec", container, *command)

    def healthy(self, service):
        def all_are():
            states = [self.engine.inspect(container)["State"] for container in self.ids(service)]
            return states and all(state.get("Health", {}).get("Status") == "healthy" for state in states)
        wait_for(all_are, f"{service} is healthy", 120)

    # The checks.

    def check_images(self):
        base = self.engine.inspect("debian:12")["Size"]
        version = run("dpkg-deb", "--field", next(packages().glob("ampd-server_*.deb")), "Version").strip().rpartition("-")[0]
        revision = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
        for name, most in SIZES.items():
            image = self.engine.inspect(f"{name}:{version}")
            self.assertEqual(image["Id"], self.engine.inspect(f"{name}:latest")["Id"])
            more = image["Size"] - base
            print(f"  {name}: {more / MEGABYTE:.0f} MB above debian:12, {image['Size'] / MEGABYTE:.0f} MB in all", flush=True)
            self.assertLessEqual(more, most, name)
            labels = {name.removeprefix("org.opencontainers.image."): text for name, text in image["Config"]["Labels"].items()}
            self.assertEqual((labels["version"], labels["revision"]), (version, revision), name)
            self.assertTrue(labels["title"] and labels["description"] and "Apache-2.0" in labels["licenses"], labels)
            self.assertEqual(image["Config"]["User"], f"{USER}:{USER}", name)
            found = self.engine.docker(
                "run", "--rm", "--network", "none", "--entrypoint", "sh", name, "-c",
                "for each in gcc g++ cc clang ld as make cmake pip pip3 dpkg-buildpackage; do command -v $each || :; done")
            self.assertEqual(found, "", f"{name} has tools that build programs")

    def check_containers(self):
        """No container is root or can become it, and none can write to its root file system."""
        for service in (*OURS, *OTHERS):
            self.healthy(service)
            for container in self.ids(service):
                self.check_container(service, container)
        for service in ("certificates", "worker-token"):
            (container,) = self.run_compose("ps", "--all", "--quiet", service).split()
            state = self.engine.inspect(container)["State"]
            self.assertEqual((state["Status"], state["ExitCode"]), ("exited", 0), service)
        self.check_order()
        self.say("every container is closed and healthy")

    def check_container(self, service, container):
        known = self.engine.inspect(container)
        status = dict(re.findall(r"^(\w+):\s*(.*)$", self.inside(container, "cat", "/proc/1/status").stdout, re.MULTILINE))
        self.assertNotIn("0", status["Uid"].split(), service)
        if service in OURS:
            self.assertEqual(set(status["Uid"].split()), {str(USER)}, service)
            self.assertEqual(known["HostConfig"]["Memory"], OURS[service], service)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, f"{service}: {name}")
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), service)
        written = self.inside(container, "sh", "-c", "echo > /written")
        self.assertIn("Read-only file system", written.stderr, service)
        for path in ("/usr/bin", "/etc"):
            self.assertNotEqual(self.inside(container, "sh", "-c", f"echo > {path}/written").returncode, 0, service)
        limit = self.inside(container, "sh", "-c",
                            "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes").stdout
        self.assertEqual(int(limit), known["HostConfig"]["Memory"], service)
        self.assertGreater(int(limit), 0, service)
        self.assertGreater(known["HostConfig"]["PidsLimit"], 0, service)
        self.assertFalse(known["HostConfig"]["Privileged"], service)

    def check_order(self):
        """The start order is that of the dependencies: each began after those that it needs were healthy or had ended."""
        def times(service):
            (container, *_) = self.run_compose("ps", "--all", "--quiet", service).split()
            state = self.engine.inspect(container)["State"]
            return state["StartedAt"], state["FinishedAt"]
        self.assertLess(times("certificates")[1], times("server")[0])
        self.assertLess(times("server")[0], times("proxy")[0])
        self.assertLess(times("proxy")[0], times("worker")[0])
        self.assertLess(times("worker-token")[1], times("worker")[0])

    def ask(self, url):
        return json.loads(self.engine.run("curl", "--silent", "--fail", url))

    def prometheus(self, path, **query):
        answer = self.ask(f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(query)}")
        self.assertEqual(answer["status"], "success")
        return answer["data"]

    def check_prometheus(self):
        def targets():
            found = [(target["labels"]["job"], target["health"]) for target in self.prometheus("targets")["activeTargets"]]
            return found if {job for job, _ in found} >= {"ampd-server", "ampd-worker", "prometheus", "alertmanager"} and \
                {health for _, health in found} == {"up"} else None
        found = wait_for(targets, "all targets of Prometheus are up", 90)
        rules = [rule["name"] for group in self.prometheus("rules")["groups"] for rule in group["rules"]]
        self.assertIn("AmpdServerDown", rules)
        self.assertTrue(all(rule["health"] == "ok" for group in self.prometheus("rules")["groups"]
                            for rule in group["rules"]))
        managers = [manager["url"] for manager in self.prometheus("alertmanagers")["activeAlertmanagers"]]
        self.assertEqual(managers, ["http://alertmanager:9093/api/v2/alerts"])
        self.assertTrue(self.prometheus("query", query='ampd_jobs_submitted_total')["result"])
        self.say(f"Prometheus: {len(found)} targets up, {len(rules)} rules, Alertmanager known")

    def check_that_up_again_changes_nothing(self):
        before = {service: self.ids(service) for service in (*OURS, *OTHERS)}
        job = self.client.submit(LONG_JOB.format(name="through-up", steps=1_000_000))
        self.await_step(job, 1)
        self.run_compose("up", "-d")
        self.assertEqual({service: self.ids(service) for service in before}, before, "up replaced a container")
        self.assertEqual(self.client.read("job", "list")[0]["id"], job)
        self.await_step(job, self.step(job) + 1)
        self.assertEqual(len(self.client.job(job)["attempts"]), 1)
        self.client.ampctl("job", "cancel", job)
        self.check_prometheus()
        self.say("`up` a second time left everything alone")

    def step(self, job):
        return int(self.client.job(job).get("progress", {}).get("step", 0))

    def await_step(self, job, number):
        wait_for(lambda: self.step(job) >= number, f"step {number} of {job}")

    def check_that_a_new_server_container_has_everything(self):
        token = self.client.ampctl("auth", "token", "create", "kept", "--role", "viewer")[1].strip()
        job = self.client.submit(LONG_JOB.format(name="outlives-the-server", steps=1_000_000))
        self.await_step(job, 50)
        before = self.kept()
        losses = self.client.numbers(job)[0]
        self.assertGreater(len(losses), 20)
        (server,) = self.ids("server")
        self.engine.docker("kill", "--signal", "KILL", server)
        self.engine.docker("rm", "--force", server)
        self.run_compose("up", "-d")
        self.healthy("proxy")
        (replaced,) = self.ids("server")
        self.assertNotEqual(replaced, server)
        last = max(losses)
        self.await_step(job, last + 50)
        self.assertEqual(self.kept(), before)
        self.assertEqual(len(self.client.job(job)["attempts"]), 1, "the running job began again")
        after = self.client.numbers(job)[0]
        self.assertEqual({step: after.get(step) for step in losses}, losses)
        self.assertEqual(sorted(after), list(range(1, len(after) + 1)))
        self.assertIn("kept", self.whoami(token))
        self.client.ampctl("job", "cancel", job)
        self.say(f"a new container of the server had everything; the job went on from step {last} to {max(after)}")

    def kept(self):
        """What a server may not lose, but for what a running job adds."""
        first = self.client.job("first")
        first.pop("etag", None)
        return {"jobs": [job["id"] for job in self.client.read("job", "list")], "first": first["attempts"],
                "losses": self.client.numbers("first"), "events": self.client.events("first"),
                "tokens": self.client.read("auth", "token", "list"), "workers": self.workers()}

    def workers(self):
        return sorted(worker["name"] for worker in self.client.read("worker", "list"))

    def whoami(self, token):
        done = subprocess.run(
            self.engine.inside("docker", "compose", "run", "--rm", "-T", "--entrypoint", "sh", "client", "-c",
                               "umask 077; cat > /tmp/token; AMPD_CERT= AMPD_KEY= ampctl --token-file /tmp/token auth whoami"),
            input=token, cwd=self.compose, capture_output=True, text=True, timeout=120, check=False, env=self.environment)
        return done.stdout + done.stderr

    def check_that_a_stopped_worker_hands_its_job_over(self):
        pass

    def check_that_nothing_is_left(self):
        self.run_compose("down", "--volumes", "--timeout", "60")
        for what in (("ps", "--all", "--quiet"), ("volume", "ls", "--quiet")):
            self.assertEqual(self.engine.docker(*what), "")
        networks = self.engine.docker("network", "ls", "--format", "{{.Name}}").split()
        self.assertEqual(sorted(networks), ["bridge", "host", "none"])
        self.say("`down` left nothing")


if __name__ == "__main__":
    main_with_own_mounts()
