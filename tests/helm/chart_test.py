#!/usr/bin/env python3
"""Checks the chart helm/ampd without a cluster: lint, templates, manifests and refusals, by Helm's own library.

Usage: chart_test.py [FOLDER_OF_BINARIES], which it does not need. Runs with the Python of .deps/venv, where scripts/setup
installs helm-python-sdk and kubernetes-validate. AMPD_UPDATE_GOLDEN=1 writes the golden files.
"""
import base64
import collections
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import helm_python
import jsonschema
import kubernetes_validate.utils as kubernetes
import yaml

import chart
from custom_resources import SCHEMAS
from pod_security import house_findings, restricted_findings
from wrong_values import WRONG

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
UPDATES = os.environ.get("AMPD_UPDATE_GOLDEN") == "1"
SETS = chart.names_of_values()
# The last four versions of Kubernetes that the package knows.
VERSIONS = sorted({kubernetes.major_minor(one) for one in kubernetes.all_versions()},
                  key=lambda text: [int(part) for part in text.split(".")])[-4:]
# It reads megabytes of definitions for each object.
kubernetes.schema_contents = functools.cache(kubernetes.schema_contents)


@functools.cache
def objects_of(name):
    return chart.render(chart.values_of(name))


def each_set(test):
    """Runs a test with the objects of each set of values."""
    @functools.wraps(test)
    def run(self):
        for name in SETS:
            with self.subTest(values=name):
                test(self, name, objects_of(name))
    return run


class Lines(yaml.CSafeDumper):
    """Writes texts of several lines as they are."""


Lines.add_representer(str, lambda dumper, text: dumper.represent_scalar(
    "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))


def golden_text(objects):
    """Returns the objects as YAML, without the certificates that Helm has made, other ones each time, and without
    dashboards and rules, whose files have tests of their own."""
    copied = json.loads(json.dumps(objects))
    for one in copied:
        if one["kind"] == "Secret":
            one["data"] = {key: "(made by Helm)" for key in one.get("data", {})}
    kept = [one for one in copied if one["metadata"]["labels"]["app.kubernetes.io/component"] != "monitoring"]
    return yaml.dump_all(kept, Dumper=Lines, sort_keys=False, width=120)


class Manifests(unittest.TestCase):
    def test_there_are_twelve_sets_of_values(self):
        self.assertEqual(len(SETS), 12)

    def test_lint_finds_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = helm_python.package(chart.SOURCE, destination=folder, version=chart.VERSION,
                                       app_version=chart.VERSION)
            for name in SETS:
                with self.subTest(values=name):
                    report = helm_python.lint(path, chart.values_of(name), strict=True, namespace=chart.NAMESPACE)
                    self.assertEqual(report["total_charts_linted"], 1)
                    self.assertEqual(report["errors"], [])
                    self.assertEqual([one["error"] for one in report["messages"]], ["icon is recommended"])

    @each_set
    def test_every_object_fits_the_strict_schemas_of_four_versions(self, _, objects):
        self.assertEqual(len(VERSIONS), 4)
        for one in objects:
            if one["kind"] in SCHEMAS:
                jsonschema.validate(one, SCHEMAS[one["kind"]])
                continue
            for version in VERSIONS:
                self.assertEqual(kubernetes.validate(one, version, strict=True), version)

    @each_set
    def test_pods_meet_the_restricted_standard(self, name, objects):
        findings = {f"{one['kind']}: {finding}" for one in objects if (pod := chart.pod_of(one)) is not None
                    for finding in [*restricted_findings(pod), *house_findings(pod)]}
        expected = set()
        if chart.values_of(name).get("podSecurity", {}).get("allowHostPath"):
            expected = {"DaemonSet: volume state: hostPath", "DaemonSet: volume data-imagenet: hostPath"}
        self.assertEqual(findings, expected)

    @each_set
    def test_golden(self, name, objects):
        golden = GOLDEN / f"{name}.yaml"
        text = golden_text(objects)
        if UPDATES:
            golden.write_text(text)
        self.assertEqual(text, golden.read_text(), "see AMPD_UPDATE_GOLDEN=1")

    @each_set
    def test_names_are_unique_and_in_one_namespace(self, name, objects):
        names = collections.Counter((one["kind"], one["metadata"]["name"]) for one in objects)
        self.assertEqual([one for one, count in names.items() if count > 1], [])
        foreign = {one["kind"] for one in objects if one["metadata"]["namespace"] != chart.NAMESPACE}
        self.assertLessEqual(foreign, {"ConfigMap"} if name == "monitoring" else set())

    @each_set
    def test_what_pods_refer_to_exists(self, name, objects):
        made = {(one["kind"], one["metadata"]["name"]) for one in objects}
        made |= {("Secret", one["spec"]["secretName"]) for one in objects if one["kind"] == "Certificate"}
        made |= {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
        given = set(re.findall(r"[\w-]+", json.dumps(chart.values_of(name))))
        for one in objects:
            pod = chart.pod_of(one)
            for reference in references(pod) if pod else ():
                self.assertTrue(reference in made or reference[1] in given, f"{one['kind']}: {reference}")

    @each_set
    def test_selectors_choose_the_pods_that_they_are_for(self, _, objects):
        pods = [(one["metadata"]["name"], chart.labels_of_pods(one)) for one in objects if chart.pod_of(one)]
        self.assertEqual(len({json.dumps(own_selector(one)) for one in objects if own_selector(one)}),
                         len([one for one in objects if own_selector(one)]))
        for one in objects:
            for selector in selectors(one):
                chosen = [name for name, labels in pods if selector.items() <= labels.items()]
                self.assertTrue(chosen, f"{one['kind']} {one['metadata']['name']} chooses no pod")
                if own_selector(one) is selector:
                    self.assertEqual(chosen, [one["metadata"]["name"]])

    @each_set
    def test_mounted_volumes_exist_and_every_volume_is_mounted(self, _, objects):
        for one in objects:
            pod = chart.pod_of(one)
            if pod:
                volumes = {volume["name"] for volume in pod["volumes"]}
                volumes |= {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
                mounted = {mount["name"] for container in chart.containers_of(pod)
                           for mount in container["volumeMounts"]}
                self.assertEqual(volumes, mounted, one["kind"])

    @each_set
    def test_pods_live_longer_than_their_programs_need_to_end(self, _, objects):
        for one in objects:
            pod = chart.pod_of(one)
            if one["kind"] == "StatefulSet":
                config = config_of(objects, pod, "server.yaml")
                self.assertGreater(pod["terminationGracePeriodSeconds"], int(config["drain-grace"][:-1]) + 5)
                self.assertEqual(pod["initContainers"][1]["restartPolicy"], "Always", "the proxy ends after the server")
            elif one["kind"] in {"Deployment", "DaemonSet"}:
                config = config_of(objects, pod, "worker.yaml")
                self.assertTrue(config["stop-trainers-on-exit"])
                self.assertGreater(pod["terminationGracePeriodSeconds"], int(config["exit-grace"][:-1]) + 23)

    @each_set
    def test_only_one_container_gets_a_token_of_kubernetes(self, name, objects):
        with_token = [container["name"] for one in objects if chart.pod_of(one)
                      for container in chart.containers_of(chart.pod_of(one))
                      if any("serviceaccount" in mount["mountPath"] for mount in container["volumeMounts"])]
        self.assertEqual(with_token, [] if name in {"minimal", "own-secrets"} else ["keep"])

    @each_set
    def test_another_configuration_starts_pods_again(self, name, objects):
        changed = json.loads(json.dumps(chart.values_of(name)))
        changed.setdefault("server", {}).setdefault("config", {})["lease"] = "11s"
        changed.setdefault("workerDefaults", {}).setdefault("config", {})["artifact-cache-bytes"] = "1GiB"
        for old, new in zip(objects, chart.render(changed), strict=True):
            if old["kind"] in {"StatefulSet", "Deployment", "DaemonSet"}:
                self.assertNotEqual(old["spec"]["template"], new["spec"]["template"])


def references(pod):
    """Yields (kind, name) of all that the volumes of a pod need, and its ServiceAccount."""
    yield "ServiceAccount", pod["serviceAccountName"]
    for volume in pod["volumes"]:
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
        for source in volume.get("projected", {}).get("sources", []):
            if "configMap" in source:
                yield "ConfigMap", source["configMap"]["name"]


def own_selector(one):
    """Returns the labels by which an object knows its own pods."""
    return one["spec"]["selector"]["matchLabels"] if one["kind"] in {"StatefulSet", "Deployment", "DaemonSet"} else None


def selectors(one):
    """Yields the labels by which an object chooses pods of this release."""
    if own_selector(one):
        yield own_selector(one)
    elif one["kind"] == "Service":
        yield one["spec"]["selector"]
    elif one["kind"] in {"PodDisruptionBudget", "PodMonitor"}:
        yield one["spec"]["selector"]["matchLabels"]
    elif one["kind"] == "NetworkPolicy":
        yield one["spec"]["podSelector"]["matchLabels"]
        for rule in [*one["spec"].get("ingress", []), *one["spec"].get("egress", [])]:
            for peer in [*rule.get("from", []), *rule.get("to", [])]:
                if "podSelector" in peer:
                    yield peer["podSelector"]["matchLabels"]


def config_of(objects, pod, key):
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
    return yaml.safe_load(chart.find(objects, "ConfigMap", volume["configMap"]["name"])["data"][key])


class Values(unittest.TestCase):
    def test_wrong_values_are_refused_with_the_key_and_the_fault(self):
        self.assertGreaterEqual(len(WRONG), 20)
        for values, *texts in WRONG:
            with self.subTest(values=values):
                with self.assertRaises(helm_python.HelmError) as caught:
                    chart.render(helm_python.values_from_yaml(values))
                for text in texts:
                    self.assertIn(text, str(caught.exception))

    def test_the_source_refuses_to_guess_a_version(self):
        source = helm_python.Chart.load(chart.SOURCE)
        with self.assertRaisesRegex(helm_python.HelmRenderError, "image.tag: this is the chart's source"):
            source.render({})
        self.assertTrue(source.render({"image": {"tag": "1"}}))

    def test_every_value_has_a_place_in_the_schema_and_the_other_way_round(self):
        schema = chart.package().schema
        values = yaml.safe_load((chart.SOURCE / "values.yaml").read_text())
        self.assertEqual(missing(values, schema, schema), [])

    def test_every_flag_is_a_key_of_config_or_is_set_by_the_chart(self):
        definitions = chart.package().schema
        for program, source, config, by_chart in (
                ("ampd-server", ["server/server_flags.cc"], definitions["properties"]["server"]["properties"]["config"],
                 SET_BY_CHART_SERVER),
                ("ampd-worker", ["worker/agent/worker_config.cc"], definitions["$defs"]["pool"]["properties"]["config"],
                 SET_BY_CHART_WORKER)):
            flags = {flag for name in source for flag in FLAG.findall((chart.ROOT / name).read_text())}
            keys = set(config["properties"])
            self.assertEqual(keys & by_chart, set(), program)
            self.assertEqual(keys | by_chart, flags, program)

    def test_the_chart_sets_only_flags_that_exist(self):
        seen = collections.defaultdict(set)
        for name in SETS:
            for one in objects_of(name):
                for key in ("server.yaml", "worker.yaml"):
                    if one["kind"] == "ConfigMap" and key in one["data"]:
                        seen[key] |= set(yaml.safe_load(one["data"][key]))
        server = FLAG.findall((chart.ROOT / "server/server_flags.cc").read_text())
        worker = FLAG.findall((chart.ROOT / "worker/agent/worker_config.cc").read_text())
        self.assertLessEqual(seen["server.yaml"], set(server))
        self.assertLessEqual(seen["worker.yaml"], set(worker))

    def test_the_table_of_the_readme_is_that_of_the_values(self):
        done = subprocess.run([sys.executable, chart.ROOT / "tools/build/values_table.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


FLAG = re.compile(r'"--([a-z-]+)"(?=,)')
# Flags that the chart sets or that have no use in a pod.
SET_BY_CHART_SERVER = {
    "data-dir", "socket", "listen", "tls-cert", "tls-key", "tls-client-ca", "allow-unauthenticated-loopback",
    "proxy-socket", "port-file", "drain-grace", "grant", "tenant-limit", "caller-limit", "metrics-listen", "metrics-tls-cert",
    "metrics-tls-key", "metrics-tls-client-ca", "oidc-issuer", "oidc-audience", "oidc-keys", "oidc-ca", "oidc-role",
    "oidc-tenant-claim", "oidc-name-claim"}
SET_BY_CHART_WORKER = {
    "server", "token-file", "ca", "cert", "key", "name", "tenant", "state-dir", "checkpoint-root",
    "checkpoint-root-shared", "data-root", "data-group", "shim", "trainer", "stop-trainers-on-exit", "exit-grace",
    "metrics-listen", "metrics-tls-cert", "metrics-tls-key", "metrics-tls-client-ca", "ready-file"}
# Maps whose keys the user chooses.
FREE = {"pools", "requests", "limits"}


def missing(values, schema, root, path=""):
    """Returns the paths of values that the schema does not name, and of properties that the values do not have."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if not isinstance(values, dict) or "properties" not in schema or path.rpartition(".")[2] in FREE:
        return []
    if not values:  # An object that the user fills, such as a reference.
        return []
    # These have no default of their own.
    optional = {"global", "claims"} | (set(schema["properties"]) if path.endswith(".config") else set())
    found = [f"{path}.{key}" for key in set(values) ^ set(schema["properties"]) - optional if key not in optional
             or key not in schema["properties"]]
    for key in set(values) & set(schema["properties"]):
        found += missing(values[key], schema["properties"][key], root, f"{path}.{key}")
    return found


class Packaging(unittest.TestCase):
    def test_the_script_takes_the_version_from_cmakelists(self):
        version = re.search(r"^project\(ampd VERSION (\S+) ", (chart.ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        with tempfile.TemporaryDirectory() as folder:
            clone = pathlib.Path(folder)
            (clone / "scripts").mkdir()
            shutil.copy(chart.ROOT / "scripts/chart", clone / "scripts")
            shutil.copy(chart.ROOT / "CMakeLists.txt", clone)
            shutil.copytree(chart.SOURCE, clone / "helm/ampd")
            (clone / ".deps").mkdir()
            (clone / ".deps/venv").symlink_to(sys.prefix)
            # Without a program helm.
            done = subprocess.run([clone / "scripts/chart"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.stdout, f"build/release/chart/ampd-{version}.tgz\n", done.stderr)
            packaged = helm_python.Chart.load(clone / done.stdout.strip())
        self.assertEqual((packaged.version, packaged.metadata["appVersion"]), (version, version))
        images = {container["image"] for one in chart.render({}, chart=packaged) if (pod := chart.pod_of(one))
                  for container in chart.containers_of(pod) if "kubectl" not in container["image"]}
        self.assertEqual(images, {f"ampd-{name}:{version}" for name in ("server", "proxy", "client", "worker-cpu")})
        self.assertEqual({one["name"] for one in packaged.files if one["name"].startswith("rules/")},
                         {f"rules/{path.name}" for path in (chart.SOURCE / "rules").glob("*")
                          if not path.name.endswith("_test.yaml")})

    def test_the_images_are_those_of_the_dockerfile(self):
        targets = re.findall(r"^FROM \S+ AS (\S+)$", (chart.ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
        for name, image in chart.package().values["images"].items():
            if name != "kubectl":
                self.assertIn(image["repository"].removeprefix("ampd-"), targets)


class Monitoring(unittest.TestCase):
    def test_all_dashboards_and_rules_are_in_the_chart(self):
        objects = objects_of("monitoring")
        dashboards = sorted(path.name for path in (chart.SOURCE / "dashboards").glob("*.json"))
        shown = [one for one in objects if one["kind"] == "ConfigMap" and one["metadata"]["namespace"] == "grafana"]
        self.assertEqual(sorted(key for one in shown for key in one["data"]), dashboards)
        for one in shown:
            self.assertEqual(one["metadata"]["labels"]["grafana_dashboard"], "1")
            for key, text in one["data"].items():
                self.assertEqual(text, (chart.SOURCE / "dashboards" / key).read_text())
        files = [path for path in sorted((chart.SOURCE / "rules").glob("*.yaml")) if not path.stem.endswith("_test")]
        groups = [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]
        rules = [one["spec"]["groups"] for one in objects if one["kind"] == "PrometheusRule"]
        self.assertEqual(rules, [groups] if groups else [])

    def test_files_of_any_number_become_objects(self):
        for count in (0, 1, 3):
            with self.subTest(files=count), tempfile.TemporaryDirectory() as folder:
                changed = copy_of_chart(pathlib.Path(folder), count)
                objects = chart.render(chart.values_of("monitoring"), chart=changed)
                for one in objects:
                    if one["kind"] in SCHEMAS:
                        jsonschema.validate(one, SCHEMAS[one["kind"]])
                rules = [one for one in objects if one["kind"] == "PrometheusRule"]
                names = [group["name"] for one in rules for group in one["spec"]["groups"]]
                self.assertEqual(names, [f"group{number}" for number in range(count)])
                shown = {key: text for one in objects if one["kind"] == "ConfigMap"
                         for key, text in one["data"].items()}
                for number in range(count):
                    self.assertEqual(shown[f"Board_{number}.json"], DASHBOARD % number)


DASHBOARD = '{"title": "Board %d", "text": "{{ worker }} \\u00b5"}\n'


def copy_of_chart(folder, count):
    """Returns the chart with `count` files of rules and of dashboards instead of its own."""
    copied = pathlib.Path(chart.package().save_dir(folder))
    for kind in ("rules", "dashboards"):
        for path in (copied / kind).glob("*"):
            path.unlink()
        (copied / kind).mkdir(exist_ok=True)
    for number in range(count):
        (copied / f"dashboards/Board_{number}.json").write_text(DASHBOARD % number)
        (copied / f"rules/{number}.yaml").write_text(
            f"groups: [{{name: group{number}, rules: [{{alert: Down, expr: 'up == 0', for: 1m}}]}}]\n")
    return helm_python.Chart.load(copied)


class Certificates(unittest.TestCase):
    def test_generated_ones_are_for_the_names_of_the_server(self):
        objects = objects_of("everything")
        with tempfile.TemporaryDirectory() as folder:
            files = {}
            for suffix in ("server", "admin", "prometheus", "worker-metrics"):
                data = chart.find(objects, "Secret", f"training-{suffix}-tls")["data"]
                for key in ("tls.crt", "tls.key", "ca.crt"):
                    files[suffix, key] = pathlib.Path(folder) / f"{suffix}-{key}"
                    files[suffix, key].write_bytes(base64.b64decode(data[key]))
                self.assertIn(": OK", openssl("verify", "-CAfile", files["server", "ca.crt"], files[suffix, "tls.crt"]))
            text = openssl("x509", "-noout", "-subject", "-ext", "subjectAltName", "-in", files["server", "tls.crt"])
            for name in ("training", "training.ml", "training.ml.svc", "training.ml.svc.ml.example.com", "localhost",
                         "ampd.example.com"):
                self.assertRegex(text, rf"DNS:{re.escape(name)}(,|\s)")
            self.assertIn("CN = root", openssl("x509", "-noout", "-subject", "-in", files["admin", "tls.crt"]))

    def test_the_names_are_in_the_request_to_cert_manager(self):
        certificate = chart.find(objects_of("cert-manager"), "Certificate", "ampd-server-tls")["spec"]
        self.assertEqual(certificate["dnsNames"], ["ampd", "ampd.ml", "ampd.ml.svc", "ampd.ml.svc.cluster.local",
                                                   "localhost", "ampd.example.com"])
        self.assertEqual(certificate["ipAddresses"], ["192.0.2.7", "2001:db8::7"])


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
