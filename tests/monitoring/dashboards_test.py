#!/usr/bin/env python3
"""Checks Grafana's dashboards in helm/ampd/dashboards without Grafana: by Grafana's typed model, by promtool, and by
the rules of Grafana's dashboard linter.

Usage: dashboards_test.py [unittest's arguments], with the Python of scripts/setup, which has the model.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dashboards"))

import build  # noqa: E402
import queries  # noqa: E402
from grafana_foundation_sdk.cog.encoder import JSONEncoder  # noqa: E402
from grafana_foundation_sdk.cog.plugins import register_default_plugins  # noqa: E402
from grafana_foundation_sdk.models.dashboard import Dashboard  # noqa: E402

SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
TARGET_LABELS = {"job", "instance"}


def documented():
    """Returns {family: (type, labels)} of docs/metrics.md. A histogram has the names of its series."""
    found = {}
    row = re.compile(r"^\| `((?:ampd|process)_\w+)` \| (\w+) \| ([^|]*) \|", re.M)
    for name, kind, labels in row.findall((ROOT / "docs/metrics.md").read_text()):
        labels = set(re.findall(r"\w+", labels))
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + suffix] = ("counter" if suffix else kind, labels | ({"le"} if suffix == "_bucket" else set()))
    return found


def recorded():
    return {rule["record"]: rule["expr"] for path in (ROOT / "helm/ampd/rules").glob("*.yaml")
            for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"] if "record" in rule}


def labels_of(name):
    """Returns the labels that a series of this name may have, or None if there is no such series."""
    if name == "ALERTS":
        return {"alertname", "alertstate", "severity", "worker", "job_id", "tenant"}
    if name in recorded():
        families = re.findall(r"\b(?:ampd|process)_\w+", recorded()[name].replace(name, ""))
        return set().union(*(labels_of(family) or set() for family in families))
    return documented()[name][1] if name in documented() else None


def lost(before, after, path=""):
    """Returns where `after` differs from `before`. It may have more keys, which are defaults of the model."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [place for key in before for place in lost(before[key], after.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [place for index, pair in enumerate(zip(before, after)) for place in lost(*pair, f"{path}[{index}]")]
    return [] if before == after else [path]


def all_queries():
    return queries.queries() + queries.annotations()


class Dashboards(unittest.TestCase):
    def test_the_files_are_what_the_script_writes(self):
        done = subprocess.run([sys.executable, build.__file__, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_typed_model_reads_them_without_loss(self):
        register_default_plugins()
        for name, board in queries.boards().items():
            again = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(board)))
            self.assertEqual(lost(board, again), [], name)

    def test_there_are_four_with_their_own_addresses(self):
        self.assertEqual({name: board["uid"] for name, board in queries.boards().items()},
                         {name: f"ampd-{name}" for name in ("fleet", "job", "service", "worker")})

    def test_panels_have_numbers_of_their_own_and_do_not_overlap(self):
        for name, board in queries.boards().items():
            numbers = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(numbers), len(set(numbers)), name)
            taken = set()
            for panel in board["panels"]:
                box = panel["gridPos"]
                cells = {(x, y) for x in range(box["x"], box["x"] + box["w"])
                         for y in range(box["y"], box["y"] + box["h"])}
                self.assertFalse(cells & taken, (name, panel["title"]))
                self.assertLessEqual(box["x"] + box["w"], 24)
                taken |= cells

    def test_panels_say_what_they_show(self):
        for name, board in queries.boards().items():
            for panel in queries.panels(board):
                with self.subTest(board=name, panel=panel["title"]):
                    self.assertTrue(panel["title"] and panel["description"])
                    self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                    self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                    self.assertTrue(panel["targets"])

    def test_variables_choose_the_data_source_and_the_targets(self):
        for name, board in queries.boards().items():
            variables = {variable["name"]: variable for variable in board["templating"]["list"]}
            self.assertEqual(variables["datasource"]["type"], "datasource", name)
            for target in ("job", "instance"):
                self.assertTrue(variables[target]["multi"], name)
                self.assertEqual(variables[target]["allValue"], ".+", name)
            self.assertFalse(board["editable"], name)
            self.assertEqual(board["graphTooltip"], 1, name)

    def test_the_loss_scale_has_an_axis_of_powers_of_two_and_skipped_steps_are_bars(self):
        panel = next(panel for panel in queries.panels(queries.boards()["job"]) if "Loss scale" in panel["title"])
        scale = panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]
        self.assertEqual((scale["type"], scale["log"]), ("log", 2))
        override = panel["fieldConfig"]["overrides"][0]
        skipped = queries.name_of(panel["targets"][1]["legendFormat"], {"job_id": "j-1"})
        self.assertTrue(re.fullmatch(override["matcher"]["options"], skipped))
        self.assertIn({"id": "custom.drawStyle", "value": "bars"}, override["properties"])

    def test_overflows_and_checkpoints_are_marked(self):
        names = {note["name"] for note in queries.boards()["job"]["annotations"]["list"]}
        self.assertLessEqual({"Skipped steps", "Checkpoints"}, names)


class Queries(unittest.TestCase):
    def test_promtool_parses_them(self):
        rules = [{"record": f"query:{number}", "expr": queries.fill_in(query.expr)}
                 for number, query in enumerate(all_queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn(f"{len(rules)} rules found", done.stdout)

    def test_families_and_labels_exist(self):
        for query in all_queries():
            with self.subTest(board=query.board, panel=query.title):
                selectors = SELECTOR.findall(query.expr)
                self.assertTrue(selectors)
                may_have = set()
                for name, matchers in selectors:
                    labels = labels_of(name)
                    self.assertIsNotNone(labels, name)
                    labels = labels | TARGET_LABELS
                    used = set(re.findall(r"(\w+) ?(?:=~|!~|!=|=)", matchers))
                    self.assertLessEqual(used, labels, name)
                    may_have |= labels
                named = set(re.findall(r"\{\{ ?(\w+) ?\}\}", query.legend))
                for clause in re.findall(r"(?:by|on|ignoring|group_left) \(([^)]*)\)", query.expr):
                    named |= set(re.findall(r"\w+", clause))
                self.assertLessEqual(named, may_have)
                # No name of a family outside of a selector.
                rest = SELECTOR.sub("", query.expr)
                self.assertFalse(re.findall(r"\bampd\w+|\bprocess_\w+", rest), rest)

    def test_counters_are_read_as_rates(self):
        """Except for a few, whose total is what the panel shows."""
        totals = {"Progress", "Time left", "Skipped steps", "Faults", "Energy"}
        for query in queries.queries():
            for match in SELECTOR.finditer(query.expr):
                if query.title not in totals and documented().get(match.group(1), ("",))[0] == "counter":
                    before = query.expr[:match.start()]
                    self.assertRegex(before, r"(rate|increase)\($", (query.title, query.expr))

    def test_every_query_is_of_the_chosen_targets(self):
        for query in all_queries():
            for name, matchers in SELECTOR.findall(query.expr):
                if name != "ALERTS":
                    self.assertIn('job=~"$job", instance=~"$instance"', matchers, query.title)

    def test_no_query_makes_up_data(self):
        for query in all_queries():
            self.assertNotRegex(query.expr, r"\bvector\(|\babsent", query.title)


if __name__ == "__main__":
    unittest.main()
