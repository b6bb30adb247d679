#!/usr/bin/env python3
"""Checks the alert and recording rules of helm/ampd/rules with promtool, Prometheus's own checker.

The files rules/*.test.yaml hold, for each alert, a situation in which it must fire; healthy.yaml holds an hour in which
no alert may fire. Usage: rules_test.py [unittest's arguments].
"""
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "helm/ampd/rules"
TESTS = pathlib.Path(__file__).resolve().parent / "rules"
MANUAL = "docs/operator/monitor.md"
METRICS = ROOT / "docs/metrics.md"
METRIC = re.compile(r"\b(?:ampd|process)_[a-z0-9_]+")


def all_rules():
    return [rule for path in sorted(RULES.glob("*.yaml")) for group in yaml.safe_load(path.read_text())["groups"]
            for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in all_rules() if "alert" in rule}


def recorded():
    return {rule["record"]: rule["expr"] for rule in all_rules() if "record" in rule}


def families(expression):
    """Returns the metric families that the expression reads, also through recording rules."""
    found = set()
    for name, inner in recorded().items():
        if name in expression:
            found |= families(inner)
            expression = expression.replace(name, "")
    return found | set(METRIC.findall(expression))


def documented():
    """Returns the families of docs/metrics.md, with the names of a histogram's series."""
    rows = re.findall(r"^\| `((?:ampd|process)_\w+)` \| (\w+) ", METRICS.read_text(), re.M)
    return {name + suffix for name, kind in rows
            for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}


def without_records(expression):
    """Returns the expression without the names of recording rules, which contain those of families."""
    for name in sorted(recorded(), key=len, reverse=True):
        expression = expression.replace(name, "")
    return expression


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Rules(unittest.TestCase):
    def test_promtool_accepts_them(self):
        code, output = promtool("check", "rules", *RULES.glob("*.yaml"))
        self.assertEqual(code, 0, output)

    def test_names_are_unique(self):
        names = [rule.get("alert") or rule["record"] for rule in all_rules()]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_they_read_only_documented_families(self):
        for rule in all_rules():
            unknown = set(METRIC.findall(without_records(rule["expr"]))) - documented()
            self.assertFalse(unknown, rule)

    def test_every_alert_says_how_bad_it_is_and_what_to_do(self):
        headings = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
                    for heading in re.findall(r"^#+ (.*)", (ROOT / MANUAL).read_text(), re.M)}
        for name, rule in alerts().items():
            with self.subTest(alert=name):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertLessEqual({"summary", "description", "runbook"}, set(rule["annotations"]))
                page, _, anchor = rule["annotations"]["runbook"].partition("#")
                self.assertEqual((page, anchor), (MANUAL, name.lower()))
                self.assertIn(anchor, headings)


class Planted(unittest.TestCase):
    """Each alert in a situation that it is for."""

    def test_each_alert_fires_and_was_silent_before(self):
        code, output = promtool("test", "rules", *sorted(TESTS.glob("*.test.yaml")))
        self.assertEqual(code, 0, output)

    def test_no_alert_is_left_out(self):
        fires, silent = set(), set()
        for path in TESTS.glob("*.test.yaml"):
            for case in yaml.safe_load(path.read_text())["tests"]:
                for check in case.get("alert_rule_test", []):
                    (fires if check["exp_alerts"] else silent).add(check["alertname"])
        self.assertEqual(fires, set(alerts()))
        self.assertEqual(silent, set(alerts()))


class Healthy(unittest.TestCase):
    """An hour of healthy running."""

    def setUp(self):
        self.text = (TESTS / "healthy.yaml").read_text()
        self.hour = yaml.safe_load(self.text)

    def check(self, hour):
        """Runs promtool on the hour: no alert may fire at any minute."""
        hour["rule_files"] = [str(path) for path in sorted(RULES.glob("*.yaml"))]
        hour["tests"][0]["alert_rule_test"] = [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}
            for name in alerts() for minute in range(0, 61)]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(hour, file)
            file.flush()
            return promtool("test", "rules", file.name)

    def test_no_alert_fires(self):
        code, output = self.check(self.hour)
        self.assertEqual(code, 0, output[:4000])

    def test_every_alert_has_its_series(self):
        """An alert without data is silent for no good reason."""
        there = set(METRIC.findall(self.text))
        for name, rule in alerts().items():
            self.assertFalse(families(rule["expr"]) - there, name)

    def test_the_check_sees_an_alert(self):
        series = self.hour["tests"][0]["input_series"]
        worker = next(entry for entry in series if 'worker="gpu1"' in entry["series"])
        worker["values"] = "0+60x20 1200x39"
        code, output = self.check(self.hour)
        self.assertNotEqual(code, 0)
        self.assertIn("AmpdWorkerLost", output)


if __name__ == "__main__":
    unittest.main()
