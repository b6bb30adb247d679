#!/usr/bin/env python3
"""Builds the images with a real Docker engine, starts docker/compose.yaml with them as docs/operator/compose.md says,
with every command of the page, and trains through it: with the server killed and replaced, and with workers stopped.

Usage: deploy_test.py FOLDER_OF_BINARIES [REPORT.xml]. scripts/packages has built the packages beside that folder.
Skipped without root, a Docker engine or a mirror of Debian. There is no Grafana, because Debian has no package of it.
AMPD_DEPLOY=short leaves out everything after the first jobs. AMPD_WHEELS, AMPD_BASE_IMAGE and AMPD_DOCKER_ROOT name
places where downloads and images are kept for the next run.
"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import traceback
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import containers
from debian_hosts import main_with_own_mounts, run
from packages_test import download_wheels, packages
from service import Client, wait_for
from service_case import BINARIES, ServiceCase
from terminal_test import CTRL_C, Terminal

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/operator/compose.md"
SHORT = os.environ.get("AMPD_DEPLOY") == "short"
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
SHORT_JOB = LONG_JOB.format(name="short", steps=20)
BRAILLE = re.compile("[\u2801-\u28ff]")
STEP = re.compile(r"step ([\d,]+)/1,000,000\b")


class ContainerClient(Client):
    """ampctl in the client's container, over TLS."""

    def __init__(self, deployment):
        super().__init__(BINARIES, deployment.folder)
        self.deployment = deployment

    def ampctl(self, *arguments, text=None, seconds=120):
        done = self.deployment.attempt("run", "--rm", "-T", "client", *arguments, stdin=text or "", seconds=seconds)
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
        cls.make_host()
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
            "COMPOSE_FILE": f"{cls.compose}/compose.yaml:{cls.leave_grafana_out()}", "GIT_DIR": str(ROOT / ".git"),
            "PATH": f"{BINARIES}:{os.environ['PATH']}"}
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
    def make_host(cls):
        """Makes the folders of the host that the page's commands use those of the test, and gives the host its name."""
        for place in ("/srv", "/var/backups"):
            folder = cls.folder / place.strip("/")
            folder.mkdir(parents=True)
            run("mount", "--bind", folder, place)
            cls.addClassCleanup(run, "umount", place)
        (cls.folder / "hosts").write_text("127.0.0.1 localhost ampd.example.com\n")
        run("mount", "--bind", cls.folder / "hosts", "/etc/hosts")
        cls.addClassCleanup(run, "umount", "/etc/hosts")

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
        """Runs the page's next blocks, those before the heading `## UNTIL`; None: all that are left. Returns what the
        last one printed."""
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
        printed = self.engine.run("bash", "-eu", "-o", "pipefail", "-c", script, cwd=self.cwd,
                                  environment=self.environment, seconds=1800)
        self.cwd = pathlib.Path(place.read_text().strip())
        return printed

    def test_deployment(self):
        self.open_page()
        try:
            self.steps()
        except BaseException:
            traceback.print_exc()
            for words in (("ps", "--all"), ("logs", "--tail", "40", "--no-color")):
                print(self.attempt(*words).stdout, flush=True)
            raise

    def steps(self):
        self.follow("Start")
        self.check_images()
        self.follow("The first job")
        self.check_containers()
        self.follow("More workers")
        self.assertEqual([self.client.job(name)["state"] for name in ("first", "second")], ["SUCCEEDED", "SUCCEEDED"])
        self.check_prometheus(num_workers=1)
        if SHORT:
            self.left = self.left[-1:]
            self.say("the rest of the page and of the checks is left out")
        else:
            self.check_the_rest()
        self.follow()
        self.check_that_nothing_is_left()

    def check_the_rest(self):
        self.check_that_up_again_changes_nothing()
        self.check_the_live_curve()
        self.check_that_a_new_server_container_has_everything()
        self.follow("GPUs")
        self.check_that_a_stopped_worker_hands_its_job_over()
        self.follow("Configuration of the server")
        self.check_that_everybody_ends_by_sigterm()
        self.check_configuration(self.follow("Certificates"))
        self.check_new_certificates()
        self.follow("Back up")
        before = self.kept()
        self.follow("Upgrade")
        self.check_that_a_restored_server_has_everything(before)
        self.follow("Remove it")
        self.check_older_compose()

    # Compose.

    @classmethod
    def attempt(cls, *arguments, program=("docker", "compose"), **options):
        return cls.engine.attempt(*program, *arguments, cwd=cls.compose, environment=cls.environment, **options)

    @classmethod
    def run_compose(cls, *arguments, program=("docker", "compose")):
        return cls.engine.run(*program, *arguments, cwd=cls.compose, environment=cls.environment)

    def ids(self, service, **options):
        return self.run_compose("ps", "--quiet", service, **options).split()

    def inside(self, container, *command):
        return self.engine.attempt("docker", "exec", container, *command)

    def healthy(self, service, **options):
        def all_are():
            states = [self.engine.inspect(container)["State"] for container in self.ids(service, **options)]
            return states and all(state.get("Health", {}).get("Status") == "healthy" for state in states)
        wait_for(all_are, f"{service} is healthy", 120)

    # The checks.

    def check_images(self):
        base = self.engine.inspect("debian:12")["Size"]
        package = next(packages().glob("ampd-server_*.deb"))
        version = run("dpkg-deb", "--field", package, "Version").strip().rpartition("-")[0]
        revision = run("git", "-C", ROOT, "rev-parse", "HEAD").strip()
        for name, most in SIZES.items():
            image = self.engine.inspect(f"{name}:{version}")
            self.assertEqual(image["Id"], self.engine.inspect(f"{name}:latest")["Id"])
            more = image["Size"] - base
            print(f"  {name}: {more / MEGABYTE:.0f} MB above debian:12, {image['Size'] / MEGABYTE:.0f} MB in all")
            self.assertLessEqual(more, most, name)
            labels = {label.removeprefix("org.opencontainers.image."): text
                      for label, text in image["Config"]["Labels"].items()}
            self.assertEqual((labels["version"], labels["revision"]), (version, revision), name)
            self.assertTrue(labels["title"] and labels["description"] and "Apache-2.0" in labels["licenses"], labels)
            self.assertEqual(image["Config"]["User"], f"{USER}:{USER}", name)
            found = self.engine.docker(
                "run", "--rm", "--network", "none", "--entrypoint", "sh", name, "-c",
                "for each in gcc g++ cc clang ld as make cmake pip pip3; do command -v $each || :; done")
            self.assertEqual(found, "", f"{name} has tools that build programs")

    def check_containers(self):
        """No container is root or can become it, and none can write to its root file system."""
        for service in (*OURS, *OTHERS):
            self.healthy(service)
            for container in self.ids(service):
                self.check_container(service, container)
        for service in ("setup", "worker-token"):
            (container,) = self.run_compose("ps", "--all", "--quiet", service).split()
            state = self.engine.inspect(container)["State"]
            self.assertEqual((state["Status"], state["ExitCode"]), ("exited", 0), service)
        self.check_order()
        self.say("every container is closed and healthy")

    def check_container(self, service, container):
        known = self.engine.inspect(container)
        text = self.inside(container, "cat", "/proc/1/status").stdout
        status = dict(re.findall(r"^(\w+):\s*(.*)$", text, re.MULTILINE))
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
        """Each service began after those that it needs were there."""
        def times(service):
            (container, *_) = self.run_compose("ps", "--all", "--quiet", service).split()
            state = self.engine.inspect(container)["State"]
            return state["StartedAt"], state["FinishedAt"]
        self.assertLess(times("setup")[1], times("server")[0])
        self.assertLess(times("server")[0], times("proxy")[0])
        self.assertLess(times("proxy")[0], times("worker")[0])
        self.assertLess(times("worker-token")[1], times("worker")[0])

    def ask(self, url):
        return json.loads(self.engine.run("curl", "--silent", "--fail", url))

    def prometheus(self, path, **query):
        answer = self.ask(f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(query)}")
        self.assertEqual(answer["status"], "success")
        return answer["data"]

    def check_prometheus(self, num_workers):
        def targets():
            found = [(target["labels"]["job"], target["health"])
                     for target in self.prometheus("targets")["activeTargets"]]
            jobs = ["alertmanager", "ampd-server", *["ampd-worker"] * num_workers, "prometheus"]
            return found if sorted(found) == [(job, "up") for job in jobs] else None
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
        self.check_prometheus(num_workers=1)
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
        script = "umask 077; cat > /tmp/token; unset AMPD_CERT AMPD_KEY; ampctl --token-file /tmp/token auth whoami"
        done = self.attempt("run", "--rm", "-T", "--entrypoint", "sh", "client", "-c", script, stdin=token)
        return done.stdout + done.stderr

    def check_the_live_curve(self):
        job = self.client.submit(LONG_JOB.format(name="live", steps=1_000_000))
        terminal = Terminal(self.engine.inside("docker", "compose", "run", "--rm", "client", "job", "watch", "live"),
                            **self.environment)
        self.addCleanup(terminal.close)
        terminal.until(lambda text: len(set(STEP.findall(text))) > 3 and BRAILLE.search(text), "a curve that grows")
        terminal.type(CTRL_C)
        terminal.until(lambda text: "detached; the job continues" in text, "the end of the watch")
        self.client.ampctl("job", "cancel", job)
        for metric in ("ampd_job_loss", "ampd_job_steps_total"):
            wait_for(lambda metric=metric: self.prometheus("query", query=f'{metric}{{job_id="{job}"}}')["result"],
                     f"Prometheus has {metric}")
        self.say("the curve is live")

    def check_that_a_stopped_worker_hands_its_job_over(self):
        """With two workers, `docker stop` of the one that trains: nothing is computed twice, and the numbers are those
        of a job that was left alone."""
        self.healthy("worker")
        self.check_prometheus(num_workers=2)
        steps = 800
        job = self.client.submit(LONG_JOB.format(name="moved", steps=steps))
        self.await_step(job, 100)
        first = self.client.job(job)["attempts"][0]["worker"]
        began = time.monotonic()
        self.engine.docker("stop", first)
        seconds = time.monotonic() - began
        self.assertEqual(self.engine.inspect(first)["State"]["ExitCode"], 0)
        self.assertLess(seconds, 40, "the worker was killed")
        final = self.client.finished(job)
        self.assertEqual(final["state"], "SUCCEEDED", final)
        left, went_on = final["attempts"]
        step = int(left["outcome"]["lastStep"])
        self.assertEqual((left["outcome"]["kind"], left["outcome"]["reason"]), ("LEFT", "WORKER_DRAINED"))
        self.assertGreaterEqual(step, 100)
        self.assertLess(step, steps)
        self.assertEqual(int(went_on["fromStep"]), step)
        self.assertNotEqual(went_on["worker"], first)
        self.assertEqual(self.client.curve(job),
                         [(number, 1 if number <= step else 2) for number in range(1, steps + 1)])
        events = self.client.events(job)
        self.assertIn(f"checkpoint saved at step {step}", self.client.ampctl("job", "events", job)[1], events)
        alone = self.client.submit(LONG_JOB.format(name="alone", steps=steps))
        self.assertEqual(self.client.finished(alone)["state"], "SUCCEEDED")
        self.assertEqual(self.client.numbers(job), self.client.numbers(alone))
        self.say(f"a stopped worker ended in {seconds:.1f} s; its job went on elsewhere from step {step}, bit for bit")

    def check_that_everybody_ends_by_sigterm(self):
        """The first process of each container gets SIGTERM, and ends in time."""
        for service, most in (("proxy", 10), ("server", 30)):
            (container,) = self.ids(service)
            began = time.monotonic()
            self.engine.docker("stop", container)
            seconds = time.monotonic() - began
            self.assertIn(self.engine.inspect(container)["State"]["ExitCode"], (0, 143), service)
            self.assertLess(seconds, most, service)
        self.run_compose("up", "-d")
        self.healthy("proxy")
        self.say("server and proxy end by SIGTERM")

    def check_configuration(self, log):
        self.assertRegex(log, "configuration changed.*grant.*effect=applied")
        self.assertRegex(log, "configuration changed.*tenant-limit.*effect=applied")
        path = self.compose / "config/server.yaml"
        good = path.read_text()
        path.write_text(good + "lisen: 1\n")
        refused = self.attempt("run", "--rm", "setup")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, r"config/server\.yaml:\d+:\d+: there is no key 'lisen'")
        path.write_text(good)
        self.say("the server has read its configuration again")

    def served(self, name, port=7443):
        """Returns the serial number of the certificate that the proxy shows to one who asks for this name."""
        text = self.engine.attempt("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", name).stdout
        return run("openssl", "x509", "-noout", "-serial", "-subject", input=text)

    def check_new_certificates(self):
        """New certificates, one of another authority among them, while a job trains and is watched."""
        job = self.client.submit(LONG_JOB.format(name="through-certificates", steps=1_000_000))
        self.await_step(job, 1)
        old = self.served("ampd.example.com")
        self.follow("Alerts and Grafana")
        wait_for(lambda: self.served("ampd.example.com") != old, "the proxy shows a new certificate")
        new = self.served("ampd.example.com")
        self.run_compose("up", "-d")
        self.assertEqual(self.served("ampd.example.com"), new, "up made certificates again")
        own = self.folder / "srv/ampd/proxy.pem"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=of the company",
            "-addext", "subjectAltName=DNS:training.example.com", "-keyout", f"{own}.key", "-out", f"{own}.crt")
        own.write_text(pathlib.Path(f"{own}.crt").read_text() + pathlib.Path(f"{own}.key").read_text())
        own.chmod(0o400)
        os.chown(own, USER, USER)
        with open(self.compose / ".env", "a", encoding="utf-8") as settings:
            settings.write("AMPD_PROXY_PEM=/srv/ampd/proxy.pem\n")
        self.run_compose("up", "-d")
        self.run_compose("kill", "-s", "USR2", "proxy")
        wait_for(lambda: "of the company" in self.served("training.example.com"), "the company's certificate is shown")
        self.assertEqual(self.served("proxy"), new)
        step = self.step(job)
        self.await_step(job, step + 20)
        self.assertEqual(len(self.client.job(job)["attempts"]), 1)
        self.client.ampctl("job", "cancel", job)
        self.check_prometheus(num_workers=2)
        self.say("new certificates while a job trained")

    def check_that_a_restored_server_has_everything(self, before):
        self.healthy("worker")
        after = self.kept()
        # Workers in new containers have new names.
        workers = set(after.pop("workers")) - set(before.pop("workers"))
        self.assertEqual(after, before)
        self.assertEqual(len(workers), 2)
        self.assertEqual(self.client.finished(self.client.submit(SHORT_JOB))["state"], "SUCCEEDED")
        (backup,) = (self.folder / "var/backups/ampd").iterdir()
        refused = self.attempt("run", "--rm", "backup", "restore", backup.name)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("compose-init: error: there are data", refused.stderr)
        self.say("a restored server has everything, and trains")

    def check_older_compose(self):
        """Compose 1 of Debian 12 starts the same services with the same volumes."""
        before = self.client.read("job", "list")
        self.run_compose("down", "--timeout", "60")
        old = ("docker-compose",)
        self.run_compose("up", "-d", program=old)
        jobs = self.run_compose("run", "--rm", "-T", "client", "job", "list", "-o", "json", program=old)
        self.assertEqual([job["id"] for job in json.loads(jobs)], [job["id"] for job in before])
        for service in OURS:
            self.healthy(service, program=old)
            for container in self.ids(service, program=old):
                self.check_container(service, container)
        self.run_compose("down", "--timeout", "60", program=old)
        version = self.engine.run("docker-compose", "version", "--short").strip()
        self.say(f"compose {version} started the same")

    def check_that_nothing_is_left(self):
        self.assertEqual(self.engine.docker("ps", "--all", "--quiet"), "")
        # Volumes without a name are those of workers that are gone, as the page says.
        volumes = self.engine.docker("volume", "ls", "--quiet").split()
        self.assertEqual([name for name in volumes if not re.fullmatch("[0-9a-f]{64}", name)], [])
        self.assertEqual(self.engine.docker("image", "ls", "--quiet", "ampd-*"), "")
        networks = self.engine.docker("network", "ls", "--format", "{{.Name}}").split()
        self.assertEqual(sorted(networks), ["bridge", "host", "none"])
        self.say("`down` left nothing")


if __name__ == "__main__":
    main_with_own_mounts()
