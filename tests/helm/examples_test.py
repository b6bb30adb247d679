#!/usr/bin/env python3
"""Checks examples/kubernetes without a cluster: the manifests for Kueue, and the pipeline of Kubeflow.

The manifests are those that the commands of the README make. The worker and the step of the pipeline also run as
processes, with a server, TLS and tokens (pods.py). pipeline_test.py compiles the pipeline.

Usage: examples_test.py FOLDER_OF_BINARIES. Runs with the Python of .deps/venv, where scripts/setup installs
helm-python-sdk and kubernetes-validate.
"""
import base64
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import kubernetes_validate.utils as kubernetes
import yaml

import chart
from custom_resources import KUEUE, PIPELINE, PLATFORM
from examples import Reader
from pod_security import house_findings, restricted_findings
from pods import Pod, kill_below, listener, make_claim, wait_for

BINARIES = pathlib.Path(sys.argv[1]).resolve()
REGISTRY = "registry.example.com/ml"
VERSIONS = sorted({kubernetes.major_minor(one) for one in kubernetes.all_versions()},
                  key=lambda text: [int(part) for part in text.split(".")])[-4:]
# It reads megabytes of definitions for each object.
kubernetes.schema_contents = functools.cache(kubernetes.schema_contents)
MEMORY = {"Mi": 2 ** 20, "Gi": 2 ** 30}
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
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
SHORT_JOB = LONG_JOB.replace("long", "short").replace("100000000", "20")


@functools.cache
def manifests():
    """Runs the README's commands that make manifests. Returns {file: objects}."""
    with tempfile.TemporaryDirectory(prefix="ampd-") as folder:
        reader = Reader(pathlib.Path(folder) / "reader", BINARIES)
        reader.run("kubectl apply", "kubectl create -f -", "> ampd-train.yaml")
        files = {path.name: path for path in [*reader.kept.iterdir(), reader.folder / "ampd-train.yaml"]}
        return {name: list(yaml.safe_load_all(path.read_text())) for name, path in files.items()}


def worker(kind):
    """Returns the Job of a worker for CPUs or GPUs."""
    [job] = manifests()[{"cpu": "job-0.yaml", "gpu": "job-1.yaml"}[kind]]
    return job


def queues():
    return {one["kind"]: one for one in manifests()["applied.yaml"]}


def step():
    """Returns the container of the pipeline's step."""
    [found] = manifests()["ampd-train.yaml"][0]["deploymentSpec"]["executors"].values()
    return found["container"]


def executor_in_kubernetes():
    """Returns what the pipeline says of the step's pod."""
    [found] = manifests()["ampd-train.yaml"][1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"].values()
    return found


@functools.cache
def released():
    """Returns the objects of the chart with the images that the README's commands name."""
    version = subprocess.run([BINARIES / "ampctl", "--version"], capture_output=True, text=True, check=True).stdout
    return chart.render({"image": {"registry": REGISTRY, "tag": re.search(r"\d[\d.]*", version)[0]}})


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def amount(text):
    number, unit = re.fullmatch(r"(\d+)(\D*)", str(text)).groups()
    return int(number) * (MEMORY[unit] if unit else 1)


@functools.cache
def known_flags(*command):
    """Returns the flags that the help of a program names."""
    return set(FLAG.findall(subprocess.run([BINARIES / command[0], *command[1:], "--help"], capture_output=True,
                                           text=True, check=True).stdout))


class Kueue(unittest.TestCase):
    @staticmethod
    def each():
        """Returns for each variant: its kind, the Job, the pod and the container."""
        jobs = {kind: worker(kind) for kind in ("cpu", "gpu")}
        return [(kind, job, chart.pod_of(job), chart.pod_of(job)["containers"][0]) for kind, job in jobs.items()]

    def test_the_job_fits_the_strict_schemas_and_the_restricted_standard(self):
        for _, job, pod, _ in self.each():
            for version in VERSIONS:
                self.assertEqual(kubernetes.validate(job, version, strict=True), version)
            self.assertEqual([*restricted_findings(pod), *house_findings(pod)], [])

    def test_the_queues_fit_kueue_and_each_other(self):
        found = queues()
        self.assertEqual(set(found), set(KUEUE))
        for kind, one in found.items():
            jsonschema.validate(one, KUEUE[kind])
        local, cluster = found["LocalQueue"], found["ClusterQueue"]["spec"]
        [group] = cluster["resourceGroups"]
        self.assertEqual(local["spec"]["clusterQueue"], found["ClusterQueue"]["metadata"]["name"])
        self.assertEqual([one["name"] for one in group["flavors"]], [found["ResourceFlavor"]["metadata"]["name"]])
        self.assertEqual(local["metadata"]["namespace"], chart.NAMESPACE)
        self.assertEqual(cluster["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": chart.NAMESPACE})
        quota = {one["name"]: amount(one["nominalQuota"]) for one in group["flavors"][0]["resources"]}
        self.assertEqual(list(quota), group["coveredResources"])
        for kind, _, _, container in self.each():
            requests = container["resources"]["requests"]
            self.assertEqual("nvidia.com/gpu" in requests, kind == "gpu")
            self.assertEqual(requests, container["resources"]["limits"])
            for name, asked in requests.items():
                self.assertLessEqual(amount(asked), quota[name])

    def test_kueue_starts_the_job_and_may_take_its_resources_back(self):
        found = queues()
        self.assertEqual(found["ClusterQueue"]["spec"]["preemption"], {"withinClusterQueue": "LowerPriority"})
        self.assertLess(found["WorkloadPriorityClass"]["value"], 0)  # The priority of other Jobs.
        for _, job, pod, _ in self.each():
            self.assertIs(job["spec"]["suspend"], True)
            self.assertEqual(job["metadata"]["namespace"], chart.NAMESPACE)
            self.assertEqual(job["metadata"]["labels"], {
                "kueue.x-k8s.io/queue-name": found["LocalQueue"]["metadata"]["name"],
                "kueue.x-k8s.io/priority-class": found["WorkloadPriorityClass"]["metadata"]["name"]})
            # A worker that ends by SIGTERM has exit code 0. A pod that Kubernetes deletes must not count by it.
            self.assertEqual(job["spec"]["podReplacementPolicy"], "TerminatingOrFailed")
            self.assertNotIn("podFailurePolicy", job["spec"])
            self.assertGreater(job["spec"]["backoffLimit"], 0)
            self.assertEqual(pod["restartPolicy"], "Never")

    def test_what_the_job_refers_to_is_what_the_chart_makes(self):
        theirs = chart.pod_of(chart.find(released(), "Deployment", "ampd-worker-cpu"))
        [config] = [one["data"]["worker.yaml"] for one in released() if "worker.yaml" in one.get("data", {})]
        for _, _, pod, container in self.each():
            self.assertEqual(pod["securityContext"], theirs["securityContext"])
            self.assertEqual(container["securityContext"], theirs["containers"][0]["securityContext"])
            self.assertEqual([volume for volume in theirs["volumes"] if volume["name"] != "config"], pod["volumes"])
            self.assertEqual(container["volumeMounts"], [mount for mount in theirs["containers"][0]["volumeMounts"]
                                                         if mount["name"] != "config"])
            flags = dict(re.fullmatch(r"--([a-z-]+)=?(.*)", one).groups() for one in container["args"])
            for name, value in yaml.safe_load(config).items():
                if name != "exit-grace":
                    self.assertEqual(flags[name], "" if value is True else value, name)

    def test_the_images_are_those_of_the_chart(self):
        for kind, pools in (("cpu", {}), ("gpu", {"pools": {"cpu": {"gpus": 1}}})):
            theirs = chart.find(chart.render({"image": {"registry": REGISTRY, "tag": "1.2.3"}} | pools), "Deployment",
                                "ampd-worker-cpu")
            [ours] = chart.pod_of(worker(kind))["containers"]
            self.assertEqual(ours["image"].rpartition(":")[0],
                             chart.pod_of(theirs)["containers"][0]["image"].rpartition(":")[0])
        self.assertEqual(chart.pod_of(worker("cpu"))["containers"][0]["image"], chart.pod_of(
            chart.find(released(), "Deployment", "ampd-worker-cpu"))["containers"][0]["image"])

    def test_the_network_policies_know_the_pod_as_a_worker(self):
        everything = chart.render({"networkPolicy": {"enabled": True}})
        policy = chart.find(everything, "NetworkPolicy", "ampd-worker")["spec"]["podSelector"]["matchLabels"]
        for _, job, _, _ in self.each():
            labels = chart.labels_of_pods(job)
            self.assertLessEqual(policy.items(), labels.items())
            for one in everything:  # But no object of the chart takes the pod for one of its own.
                if one["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
                    self.assertFalse(one["spec"]["selector"]["matchLabels"].items() <= labels.items(), one["metadata"])

    def test_the_worker_saves_before_the_limits_pass(self):
        for _, job, pod, container in self.each():
            [grace] = [seconds(one.partition("=")[2]) for one in container["args"] if one.startswith("--exit-grace=")]
            self.assertGreater(pod["terminationGracePeriodSeconds"], grace + 23)
            self.assertGreater(job["spec"]["activeDeadlineSeconds"], seconds(container["command"][3]) + grace + 23)

    def test_every_flag_is_known(self):
        for _, _, _, container in self.each():
            probe = container["readinessProbe"]["exec"]["command"]
            self.assertEqual(container["command"][4:], ["ampd-worker"])
            self.assertLessEqual(set(FLAG.findall(" ".join(container["args"]))), known_flags("ampd-worker"))
            self.assertEqual(probe[:2], ["ampd-worker", "health"])
            self.assertLessEqual(set(FLAG.findall(" ".join(probe))), known_flags("ampd-worker", "health"))


class Kubeflow(unittest.TestCase):
    def test_the_pipeline_fits_the_strict_schemas_and_itself(self):
        pipeline, platform = manifests()["ampd-train.yaml"]
        jsonschema.validate(pipeline, PIPELINE)
        jsonschema.validate(platform, PLATFORM)
        [task] = pipeline["root"]["dag"]["tasks"].values()
        [(name, component)] = pipeline["components"].items()
        self.assertEqual(task["componentRef"], {"name": name})
        inputs = component["inputDefinitions"]["parameters"]
        self.assertEqual(set(task["inputs"]["parameters"]), set(inputs))
        self.assertEqual(task["inputs"]["parameters"]["job"], {"componentInputParameter": "job"})
        self.assertEqual(set(pipeline["root"]["inputDefinitions"]["parameters"]), {"job"})
        self.assertEqual(list(pipeline["deploymentSpec"]["executors"]), [component["executorLabel"]])
        self.assertEqual(list(platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]),
                         [component["executorLabel"]])
        known = {f"{{{{$.inputs.parameters['{one}']}}}}" for one in inputs}
        outputs = component["outputDefinitions"]
        known |= {f"{{{{$.outputs.parameters['{one}'].output_file}}}}" for one in outputs["parameters"]}
        known |= {f"{{{{$.outputs.artifacts['{one}'].path}}}}" for one in outputs["artifacts"]}
        self.assertEqual(set(step()["args"]), known)

    def test_the_step_runs_the_client_with_a_secret_at_its_place(self):
        theirs = chart.find(released(), "Pod", "ampd-test")["spec"]["containers"][0]
        self.assertEqual(step()["image"], theirs["image"])
        executor = executor_in_kubernetes()
        [secret] = executor["secretAsVolume"]
        environment = {one["name"]: one["value"] for one in step()["env"]}
        self.assertEqual(environment["AMPD_FOLDER"], secret["mountPath"])
        self.assertEqual(environment["AMPD_CA"], f"{secret['mountPath']}/ca.crt")
        self.assertIn({"name": "AMPD_ADDRESS", "value": environment["AMPD_ADDRESS"]}, theirs["env"])
        self.assertIs(secret["optional"], False)
        self.assertEqual(executor["securityContext"],
                         {"runAsUser": "10001", "runAsGroup": "10001", "runAsNonRoot": True})


class Processes(unittest.TestCase):
    """A server with the chart's certificate, and what the examples run."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-"))
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(kill_below, cls.folder)  # a worker that was killed leaves a trainer behind
        cls.objects = json.loads(json.dumps(released()))
        owner = chart.find(cls.objects, "StatefulSet", "ampd-server")
        group = chart.pod_of(owner)["securityContext"]["fsGroup"]
        cls.claims = {name: make_claim(cls.folder / name, group) for name in ("data", "ampd-checkpoints")}
        cls.start_server(owner)
        cls.make_secrets()

    @classmethod
    def start_server(cls, owner):
        door = listener()
        cls.addClassCleanup(door.close)
        cls.address = f"localhost:{door.getsockname()[1]}"
        pod = Pod(cls.folder / "s", BINARIES, cls.objects, owner, cls.claims,
                  {"localhost:7443": cls.address, "*:7443": f"fd@{door.fileno()}"})
        done = pod.run("folders")
        assert done.returncode == 0, done.stderr
        proxy = pod.start("proxy", pass_fds=[door.fileno()])
        cls.addClassCleanup(cls.end, proxy)
        server = pod.start("server", "--metrics-listen=127.0.0.1:0")
        cls.addClassCleanup(cls.end, server)
        cls.socket = f"unix:{pod.root}/var/lib/ampd/data/ampd.sock"
        pod.await_probe("server", "readinessProbe", server)
        pod.await_probe("proxy", "readinessProbe", proxy)

    @classmethod
    def make_secrets(cls):
        """Makes the Secret of the workers' token, as the chart's Job does, and that of the pipelines, as the README
        says."""
        agent = cls.folder / "agent.token"
        cls.ampctl("auth", "token", "create", "workers", "--role", "agent", "--worker", "*", "--out", str(agent))
        chart.find(cls.objects, "Secret", "ampd-worker-token")["data"] = {
            "token": base64.b64encode(agent.read_bytes()).decode()}
        cls.reader = Reader(cls.folder / "reader", BINARIES, AMPD_ADDRESS=cls.socket)
        tls = chart.find(cls.objects, "Secret", "ampd-server-tls")["data"]
        (cls.reader.folder / "ca.pem").write_bytes(base64.b64decode(tls["ca.crt"]))
        cls.reader.run("kubectl create secret")

    @staticmethod
    def end(program):
        """Ends a container: its processes are one group."""
        if program.running():
            os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait(timeout=60)

    @classmethod
    def ampctl(cls, *words):
        """Runs ampctl as the server's user, who is an admin."""
        environment = os.environ | {"AMPD_ADDRESS": cls.socket, "HOME": str(cls.folder)}
        done = subprocess.run([BINARIES / "ampctl", *words], env=environment, cwd=cls.folder, capture_output=True,
                              text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def job(self, job_id):
        return json.loads(self.ampctl("job", "show", job_id, "--tenant", "*", "-o", "json"))

    def await_step(self, job_id, above):
        wait_for(lambda: int(self.job(job_id).get("progress", {}).get("step", 0)) > above, f"a step after {above}")

    def start_worker(self, name):
        """Starts the container of worker.yaml as that of a new pod. Waits until its probe says that it is ready."""
        changes = {"ampd.ml.svc:7443": self.address, "127.0.0.1:7072": "127.0.0.1:0"}
        pod = Pod(self.folder / name, BINARIES, self.objects, worker("cpu"), self.claims, changes)
        ready = pod.root / "volumes/tmp/ready"
        program = pod.start("worker", f"--name={name}", f"--ready-file={ready}")
        self.addCleanup(self.end, program)
        wait_for(lambda: ready.exists() or not program.running(), f"{name} is accepted")
        self.assertTrue(program.running(), program.log())
        pod.changes["127.0.0.1:7072"] = ready.read_text().splitlines()[0]  # Where the probe finds it.
        pod.await_probe("worker", "readinessProbe", program)
        return program

    def start_step(self, run, job, address=None):
        """Starts the step as Kubeflow does, with values in place of the placeholders. Returns it and its outputs."""
        values = {"job": job, "run": run, "job_id": str(self.folder / run / "out/job_id"),
                  "result": str(self.folder / run / "artifacts/result")}
        words = [re.sub(r"^\{\{\$\.(?:in|out)puts\.\w+\['(\w+)'\](?:\.\w+)?\}\}$",
                        lambda found: values[found[1]], word) for word in [*step()["command"], *step()["args"]]]
        environment = {one["name"]: one["value"].replace("/etc/ampd/pipelines", str(self.reader.kept))
                       for one in step()["env"]}
        environment |= {"PATH": f"{BINARIES}:{os.environ['PATH']}", "HOME": str(self.folder),
                        "AMPD_ADDRESS": address or self.address}
        program = subprocess.Popen(words, env=environment, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(program.wait, timeout=60)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdout.close)
        return program, pathlib.Path(values["job_id"]), pathlib.Path(values["result"])

    def run_step(self, run, job):
        """Runs the step to its end. Returns its exit code, what it printed, the job's id, and the result."""
        program, *files = self.start_step(run, job)
        said, _ = program.communicate(timeout=180)
        return program.returncode, said, *(path.read_text() if path.exists() else None for path in files)

    def test_the_secret_is_the_one_that_the_step_mounts(self):
        [mounted] = executor_in_kubernetes()["secretAsVolume"]
        self.assertEqual(self.reader.read("secret").split(), [mounted["secretName"], "team"])
        self.assertFalse((self.reader.folder / "pipelines.token").exists())

    def test_the_step_waits_for_its_job_and_a_repeat_finds_it(self):
        self.start_worker("kueue-1")
        code, said, first, result = self.run_step("one", SHORT_JOB)
        self.assertEqual(code, 0, said)
        self.assertEqual(json.loads(result)["id"], first)
        self.assertIn("SUCCEEDED", json.loads(result)["state"])
        code, said, again, _ = self.run_step("one", SHORT_JOB)
        self.assertEqual((code, again), (0, first), said)

    def test_the_step_has_the_exit_codes_of_ampctl(self):
        unreachable, _, _ = self.start_step("nobody", LONG_JOB, address="localhost:1")
        self.assertEqual(self.run_step("wrong", "name: wrong\nmodle: {}\n")[::2], (2, None))
        cancelled, job_id, result = self.start_step("cancelled", LONG_JOB)
        wait_for(lambda: job_id.exists() and job_id.read_text(), "the job is submitted")
        self.ampctl("job", "cancel", job_id.read_text(), "--tenant", "*")
        said, _ = cancelled.communicate(timeout=120)
        self.assertEqual((cancelled.returncode, result.exists()), (6, False), said)
        said, _ = unreachable.communicate(timeout=120)
        self.assertEqual(unreachable.returncode, 5, said)

    def stop_worker(self, program, number, job_id):
        """Sends a signal to the container. It ends with exit code 0 and leaves a checkpoint, whose step is returned."""
        program.process.send_signal(number)
        self.assertEqual(program.process.wait(timeout=chart.pod_of(worker("cpu"))["terminationGracePeriodSeconds"]), 0,
                         program.log())
        return max(int(one["step"]) for one in self.job(job_id)["checkpoints"])

    def test_jobs_go_on_after_a_preemption_and_after_the_time_limit(self):
        waiting, path, _ = self.start_step("preempted", LONG_JOB)
        wait_for(lambda: path.exists() and path.read_text(), "the job is submitted")
        job_id = path.read_text()
        first = self.start_worker("kueue-2")
        self.await_step(job_id, 0)
        preempted_at = self.stop_worker(first, signal.SIGTERM, job_id)  # Kueue suspends the Job.
        self.assertGreater(preempted_at, 0)
        second = self.start_worker("kueue-3")  # Kueue starts the Job again.
        self.await_step(job_id, preempted_at)
        self.assertEqual([one["worker"] for one in self.job(job_id)["attempts"]], ["kueue-2", "kueue-3"])
        # When the time is over, the timer of `timeout` sends it this signal.
        self.assertGreater(self.stop_worker(second, signal.SIGALRM, job_id), preempted_at)
        self.assertIsNone(waiting.poll())  # The step waits for the job, and the job for a worker.
        self.ampctl("job", "cancel", job_id, "--tenant", "*")
        self.assertEqual(waiting.wait(timeout=60), 6)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
