#!/usr/bin/env python3
"""Checks what an upgrade does with the certificates that Helm has made at the install. Helm asks an API server of this test
for them, which has the Secrets that the chart made before.

Usage: upgrade_test.py [FOLDER_OF_BINARIES], which it does not need.
"""
import base64
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import helm_python

import chart

SECRETS = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
    {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ["get"]}]}
DISCOVERY = {"/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
             "/api": {"kind": "APIVersions", "versions": ["v1"]},
             "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
             "/api/v1": SECRETS}


class ApiServer(http.server.ThreadingHTTPServer):
    """Answers what Helm's `lookup` asks. `secrets` maps names to objects."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.secrets = {}


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        secret = re.fullmatch(rf"/api/v1/namespaces/{chart.NAMESPACE}/secrets/([\w-]+)", path)
        found = self.server.secrets.get(secret[1]) if secret else DISCOVERY.get(path)
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(found or missing).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Upgrades(unittest.TestCase):
    def setUp(self):
        self.server = ApiServer()
        self.addCleanup(self.server.server_close)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.shutdown)
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "test",
                  "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                  "users": [{"name": "test", "user": {}}],
                  "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}
        self.config = helm_python.Config(kubeconfig_content=json.dumps(config), namespace=chart.NAMESPACE)
        self.addCleanup(self.config.close)

    def apply(self, values):
        """Renders with a view of the cluster, and keeps the Secrets there. Returns {name: data} of those with data."""
        rendered = self.config.render(chart.package(), values, name=chart.RELEASE, namespace=chart.NAMESPACE)
        made = {one["metadata"]["name"]: one for one in chart.read(rendered) if one["kind"] == "Secret"}
        self.server.secrets |= made
        return {name: one["data"] for name, one in made.items() if "data" in one}

    def changed(self, old, new):
        return {name for name in new if old.get(name) != new[name]}

    def assert_signed(self, data):
        """The certificate is of the authority beside it."""
        with tempfile.TemporaryDirectory() as folder:
            for key in ("ca.crt", "tls.crt"):
                (pathlib.Path(folder) / key).write_bytes(base64.b64decode(data[key]))
            done = subprocess.run(["openssl", "verify", "-CAfile", "ca.crt", "tls.crt"], cwd=folder, capture_output=True,
                                  text=True, check=False)
        self.assertIn("tls.crt: OK", done.stdout, done.stderr)

    def test_an_upgrade_keeps_what_it_finds(self):
        first = self.apply({})
        self.assertEqual(set(first), {"ampd-ca", "ampd-server-tls", "ampd-admin-tls"})
        self.assertEqual(self.apply({}), first)

    def test_without_a_cluster_all_are_new(self):
        self.assertEqual(self.changed(self.apply({}), {
            one["metadata"]["name"]: one["data"] for one in chart.render({}) if one["kind"] == "Secret" and "data" in one}),
            {"ampd-ca", "ampd-server-tls", "ampd-admin-tls"})

    def test_other_names_of_the_server_need_another_certificate_of_the_same_authority(self):
        first = self.apply({})
        second = self.apply({"certificates": {"hosts": ["ampd.example.com"]}})
        self.assertEqual(self.changed(first, second), {"ampd-server-tls"})
        self.assert_signed(second["ampd-server-tls"])
        self.assertEqual(second["ampd-server-tls"]["ca.crt"], first["ampd-ca"]["tls.crt"])

    def test_metrics_that_are_switched_on_get_certificates_of_the_same_authority(self):
        first = self.apply({})
        second = self.apply({"metrics": {"enabled": True}})
        self.assertEqual(self.changed(first, second), {"ampd-prometheus-tls", "ampd-worker-metrics-tls"})
        for name in self.changed(first, second):
            self.assert_signed(second[name])
            self.assertEqual(second[name]["ca.crt"], first["ampd-ca"]["tls.crt"])

    def test_a_secret_that_is_deleted_is_made_again(self):
        first = self.apply({})
        del self.server.secrets["ampd-admin-tls"]
        second = self.apply({})
        self.assertEqual(self.changed(first, second), {"ampd-admin-tls"})
        self.assert_signed(second["ampd-admin-tls"])

    def test_without_its_authority_no_certificate_is_kept(self):
        first = self.apply({})
        del self.server.secrets["ampd-ca"]
        second = self.apply({})
        self.assertEqual(self.changed(first, second), set(first))
        self.assert_signed(second["ampd-server-tls"])

    def test_the_token_of_the_workers_is_none_of_helms_business(self):
        self.apply({})
        self.assertNotIn("data", self.server.secrets["ampd-worker-token"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
