#!/usr/bin/env python3
"""Runs the server, its proxy, the Job of the workers' token, workers and `helm test` with the files, commands and probes
that the chart makes (pods.py). There is no cluster.

Usage: pods_test.py FOLDER_OF_BINARIES. Fails if scripts/setup has not installed haproxy and Helm's library.
"""
import base64
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import helm_python
import yaml

import chart
from pods import Pod, kill_below, listener, make_claim, wait_for

BINARIES = pathlib.Path(sys.argv[1]).resolve()
VALUES = helm_python.values_from_yaml("""
server:
  grants: ["cert:alice=submitter"]
  tenantLimits: ["*:jobs=100"]
  config: {lease: 2s, margin: 1s}
  proxy: {watchSeconds: 1}
metrics: {enabled: true}
workerDefaults:
  exitGraceSeconds: 20
  dataRoots: [{name: texts, claim: texts}]
  resources: {limits: {cpu: "1"}}
""")
LONG_JOB = """
name: long
model: {mlp: {hidden: [64], num_classes: 10}}
data:
  train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 4096, seed: 1}}
  batch_size: 64
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 0.01}}
train: {steps: 100000000}
"""


class Pods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-"))
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(kill_below, cls.folder)  # a worker that was killed leaves a trainer behind
        cls.objects = chart.render(VALUES)
        group = chart.pod_of(chart.find(cls.objects, "StatefulSet", "ampd-server"))["securityContext"]["fsGroup"]
        cls.claims = {name: make_claim(cls.folder / name, group) for name in ("data", "ampd-checkpoints", "texts")}
        cls.door = listener()
        cls.addClassCleanup(cls.door.close)
        cls.changes = {"ampd.ml.svc:7443": f"localhost:{cls.door.getsockname()[1]}",
                       "localhost:7443": f"localhost:{cls.door.getsockname()[1]}", "*:7443": f"fd@{cls.door.fileno()}",
                       "0.0.0.0:7071": "127.0.0.1:0", "0.0.0.0:7072": "127.0.0.1:0"}
        cls.start_server()
        cls.admin = cls.pod("admin", "Pod", "ampd-test")
        cls.make_token()

    @classmethod
    def pod(cls, folder, kind, name):
        owner = chart.find(cls.objects, kind, name)
        return Pod(cls.folder / folder, BINARIES, cls.objects, owner, cls.claims, cls.changes)

    @classmethod
    def start_server(cls):
        cls.server_pod = cls.pod("s", "StatefulSet", "ampd-server")
        done = cls.server_pod.run("folders")
        assert done.returncode == 0, done.stderr
        cls.proxy = cls.server_pod.start("proxy", pass_fds=[cls.door.fileno()])
        cls.addClassCleanup(cls.end, cls.proxy)
        ports = cls.server_pod.root / "volumes/tmp/ports"
        cls.server = cls.server_pod.start("server", f"--port-file={ports}")
        cls.addClassCleanup(cls.end, cls.server)
        cls.server_pod.await_probe("server", "startupProbe", cls.server)
        cls.server_pod.await_probe("server", "readinessProbe", cls.server)
        cls.server_pod.await_probe("proxy", "readinessProbe", cls.proxy)
        cls.server_metrics = int(ports.read_text().split()[1])

    @classmethod
    def make_token(cls):
        """Runs the Job: the script in its first container, and in place of kubectl what the patch would do."""
        [job] = [one["metadata"]["name"] for one in cls.objects if one["kind"] == "Job"]
        cls.job = cls.pod("j", "Job", job)
        cls.first_patch = cls.run_job()
        chart.find(cls.objects, "Secret", "ampd-worker-token").update(cls.first_patch)
        cls.job.fill("token")

    @classmethod
    def run_job(cls):
        done = cls.job.run("token")
        assert done.returncode == 0, done.stderr
        return json.loads((cls.job.root / "run/ampd-token/patch.json").read_text())

    @classmethod
    def start_worker(cls, name, test):
        pod = cls.pod(name, "Deployment", "ampd-worker-cpu")
        ready = pod.root / "volumes/tmp/ready"
        # A pod's host name is its own.
        program = pod.start("worker", f"--name={name}", f"--ready-file={ready}")
        test.addCleanup(cls.end, program)
        wait_for(lambda: ready.exists() or not program.running(), f"{name} is accepted")
        test.assertTrue(program.running(), program.log())
        pod.metrics = ready.read_text().split("\n")[0]
        # In the file of the configuration is port 0.
        pod.await_probe("worker", "readinessProbe", program, f"--metrics-listen={pod.metrics}")
        return pod, program

    @staticmethod
    def end(program):
        """Ends a container: its processes are one group."""
        if program.running():
            os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait(timeout=60)

    def ampctl(self, *words):
        """Runs ampctl as the admin. Returns what it prints as JSON."""
        done = self.admin.run("test", command=["ampctl", *words, "-o", "json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def stop(self, pod, program):
        """Sends SIGTERM, as a kubelet does. Returns the seconds until the end, and the exit code."""
        begin = time.monotonic()
        program.signal(signal.SIGTERM)
        code = program.process.wait(timeout=pod.spec["terminationGracePeriodSeconds"])
        return time.monotonic() - begin, code

    def page(self, port, name):
        """Reads /metrics as the chart tells Prometheus to."""
        folder = self.folder / f"prometheus-{name}"
        folder.mkdir(exist_ok=True)
        for key, text in chart.find(self.objects, "Secret", "ampd-prometheus-tls")["data"].items():
            (folder / key).write_bytes(base64.b64decode(text))
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        with socket.create_connection(("127.0.0.1", port)) as plain:
            with context.wrap_socket(plain, server_hostname=name) as tls:
                tls.sendall(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
                answer = b"".join(iter(lambda: tls.recv(65536), b""))
        return answer.decode()

    def monitor(self, kind, name):
        monitors = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}
        spec = chart.find(chart.render(VALUES | {"metrics": {"enabled": True} | monitors}), kind, name)["spec"]
        return spec.get("endpoints", spec.get("podMetricsEndpoints"))[0]

    def test_1_all_programs_take_their_files(self):
        """The files of the twelve sets of values: the programs accept each, apart from those that name certificates."""
        checked = 0
        for name in chart.names_of_values():
            for one in chart.render(chart.values_of(name)):
                for key, text in one.get("data", {}).items() if one["kind"] == "ConfigMap" else ():
                    if key not in ("server.yaml", "worker.yaml"):
                        continue
                    with self.subTest(values=name, file=one["metadata"]["name"]):
                        self.check_file(key.removesuffix(".yaml"), yaml.safe_load(text))
                        checked += 1
        self.assertGreater(checked, 20)

    def check_file(self, program, config):
        """Asks a program whether it takes a configuration, with files and folders of this test."""
        given = self.server_pod.root / "etc/ampd/tls"
        for key in config:
            if key.endswith(("-cert", "-ca", "tls-key")) or key in ("ca", "token-file", "oidc-ca"):
                file = {"cert": "tls.crt", "key": "tls.crt.key"}.get(key.rpartition("-")[2], "ca.crt")
                config[key] = str(given / file) if key != "token-file" else str(self.job.root / "etc/ampd/token/token")
        config["data-root"] = [root.replace("/data/", f"{self.folder}/root-") for root in config.get("data-root", [])]
        for root in config["data-root"]:
            pathlib.Path(root.partition("=")[2]).mkdir(exist_ok=True)
        config = {key: value for key, value in config.items() if value != []}
        file = self.folder / f"{program}.yaml"
        file.write_text(yaml.safe_dump(config))
        done = subprocess.run([BINARIES / f"ampd-{program}", "--config", file, "--print-config"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = yaml.safe_load(done.stdout)
        self.assertLessEqual(set(config), set(shown))

    def test_2_the_job_of_the_token_is_safe_to_repeat(self):
        self.assertEqual(list(self.first_patch), ["data"])
        self.assertEqual(self.run_job(), {})
        # A token that the server does not know is replaced.
        secret = chart.find(self.objects, "Secret", "ampd-worker-token")
        good = secret["data"]
        secret["data"] = {"token": base64.b64encode(b"x" * 40).decode()}
        self.job.fill("token")
        replaced = self.run_job()
        self.assertNotEqual(replaced["data"], good)
        secret.update(replaced)
        self.job.fill("token")
        self.assertEqual(self.run_job(), {})
        tokens = [one for one in self.ampctl("auth", "token", "list") if one["name"] == "ampd-workers"]
        self.assertEqual([one["role"] for one in tokens], ["AGENT"])
        # The second container does with the patch what kubectl documents, to this Secret only.
        self.assertEqual(self.job.container("keep")["command"][:4], ["kubectl", "patch", "secret", "ampd-worker-token"])

    def test_3_helm_test_trains_a_job(self):
        pod, worker = self.start_worker("w0", self)
        done = self.admin.run("test", seconds=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("cert:ampd-admin", done.stdout)
        self.assertIn("SUCCEEDED", done.stdout)
        self.assertEqual(self.stop(pod, worker)[1], 0)

    def test_4_a_worker_that_is_ended_leaves_checkpoints_from_which_jobs_go_on(self):
        pod, worker = self.start_worker("w1", self)
        done = subprocess.run([BINARIES / "ampctl", "job", "submit", "-q", "-f", "-"], input=LONG_JOB, text=True,
                              capture_output=True, env=self.admin.environment("test"), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        wait_for(lambda: int(self.ampctl("job", "show", job).get("progress", {}).get("step", 0)) > 0, "a step")
        seconds, code = self.stop(pod, worker)
        self.assertEqual(code, 0, worker.log())
        self.assertLess(seconds, 20 + 23)
        left = self.ampctl("job", "show", job)
        [saved] = [one for one in left["checkpoints"] if int(one["step"]) > 0][-1:]
        self.assertTrue((self.claims["ampd-checkpoints"] / "ampd").is_dir())
        _, second = self.start_worker("w2", self)
        wait_for(lambda: int(self.ampctl("job", "show", job).get("progress", {}).get("step", 0)) > int(saved["step"]),
                 "a step of the second worker", seconds=120)
        self.assertTrue(second.running())
        self.assertEqual([one["worker"] for one in self.ampctl("job", "show", job)["attempts"]], ["w1", "w2"])
        self.ampctl("job", "cancel", job)

    def test_5_prometheus_reads_both_metrics_by_their_names(self):
        server = self.monitor("ServiceMonitor", "ampd-server")["tlsConfig"]["serverName"]
        self.assertRegex(self.page(self.server_metrics, server), r"(?m)^ampd_build_info\{")
        pod, _ = self.start_worker("w3", self)
        worker = self.monitor("PodMonitor", "ampd-worker")["tlsConfig"]["serverName"]
        self.assertRegex(self.page(int(pod.metrics.rpartition(":")[2]), worker), r"(?m)^ampd_worker_build_info\{")

    def test_6_the_proxy_takes_a_new_certificate_without_an_end(self):
        def shown():
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            with socket.create_connection(self.door.getsockname()) as plain, context.wrap_socket(plain) as tls:
                return tls.getpeercert(binary_form=True)
        old = shown()
        fresh = chart.find(chart.render(VALUES), "Secret", "ampd-server-tls")
        secret = chart.find(self.objects, "Secret", "ampd-server-tls")
        # The authority stays in force beside the new one, so that admin and workers are known.
        both = base64.b64decode(secret["data"]["ca.crt"]) + base64.b64decode(fresh["data"]["ca.crt"])
        kept = secret["data"]
        secret["data"] = fresh["data"] | {"ca.crt": base64.b64encode(both).decode()}
        self.server_pod.fill("tls")
        wait_for(lambda: shown() != old, "the new certificate")
        self.assertTrue(self.proxy.running())
        secret["data"] = kept
        self.server_pod.fill("tls")
        wait_for(lambda: shown() == old, "the old certificate")
        self.server_pod.await_probe("proxy", "readinessProbe", self.proxy)

    def test_7_probes_tell_a_server_that_answers_from_one_that_does_not(self):
        probes = (("server", "livenessProbe"), ("server", "readinessProbe"), ("proxy", "readinessProbe"))
        self.server.signal(signal.SIGSTOP)
        try:
            with concurrent.futures.ThreadPoolExecutor() as threads:
                results = list(threads.map(lambda probe: self.passes(*probe), probes))
        finally:
            self.server.signal(signal.SIGCONT)
        self.assertEqual(results, [False] * 3)
        self.server_pod.await_probe("server", "livenessProbe", self.server)

    def passes(self, container, kind):
        """Whether a probe passes in its time."""
        probe = self.server_pod.container(container)[kind]
        try:
            return self.server_pod.run(container, probe["timeoutSeconds"], probe["exec"]["command"]).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def test_8_the_server_drains_and_the_proxy_ends_after_it(self):
        drain = VALUES["server"].get("drainGraceSeconds", 10)
        seconds, code = self.stop(self.server_pod, self.server)
        self.assertEqual(code, 0, self.server.log())
        self.assertLess(seconds, drain + 5)
        self.assertTrue(self.proxy.running())
        self.assertNotEqual(self.server_pod.probe("proxy", "readinessProbe").returncode, 0)
        seconds, code = self.stop(self.server_pod, self.proxy)
        self.assertEqual(code, 0, self.proxy.log())
        self.assertLess(seconds, 10)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
