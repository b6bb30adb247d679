"""Shared by the scripts of end-to-end tests: a small job, the checks of a failed job, and the report."""
import pathlib
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

from service import Service

BINARIES = pathlib.Path(sys.argv[1]).resolve()

JOB = """
name: small
model: {lenet: {widths: [4, 8], hidden: 16}}
data:
  train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 256, seed: 3}}
  batch_size: 32
precision: {preset: fp32}
optimizer: {sgd: {learning_rate: 1e-3}}
train: {steps: 5, seed: 5, num_threads: 1}
"""


class ServiceCase(unittest.TestCase):
    """A case that runs jobs on a service and checks how they end."""

    def setUp(self):
        print(self.id(), flush=True)

    def expect_failure(self, service, job, reason, *words):
        """Checks that the job failed for this reason, with a one-line message that contains the words, and that the
        worker then finishes the next job."""
        final = service.finished(job)
        self.assertEqual((final["state"], final["reason"]), ("FAILED", reason), final["message"])
        for word in words:
            self.assertIn(word, final["message"])
        self.expect_clean_line(final["message"])
        self.expect_success(service)
        return final

    def expect_clean_line(self, line):
        print(f"  {line}", flush=True)
        self.assertNotIn("\n", line)
        self.assertLess(len(line), 400)
        for inside in (str(BINARIES), ".cc", "0x7f", "frame #", "terminate called"):
            self.assertNotIn(inside, line)

    def expect_success(self, service):
        final = service.finished(service.submit(JOB))
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))


class DataRootCase(ServiceCase):
    """A case with one service and one worker. The worker's data root `root` is a folder that the cases write."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service(BINARIES)
        cls.enterClassContext(cls.service)
        cls.root = cls.service.folder / "root"
        cls.root.mkdir()
        cls.worker = cls.service.start_worker(flags=["--data-root", f"root={cls.root}"])

    def run_job(self, text=JOB):
        return self.service.finished(self.service.submit(text))

    def told(self, job, kind):
        events = self.service.read("job", "events", job["id"])["events"]
        return [event for event in events if event["kind"] == kind]

    def losses(self, job):
        """Returns the losses of all steps, including superseded ones."""
        return [float(loss) for segment in self.service.read("job", "points", job["id"])["segments"]
                for loss in segment["steps"]["loss"]]


class Result(unittest.TextTestResult):
    """Records each case and its seconds in the format of GoogleTest's reports, which tools/build/count_tests.py counts."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.report = ElementTree.Element("testsuites")

    def begin(self, test):
        kind, _, name = test.id().removeprefix("__main__.").partition(".")
        self.case = ElementTree.SubElement(self.report, "testcase", classname=kind, name=name, status="run")
        self.began = time.monotonic()

    def note(self, test, what):
        if not isinstance(test, unittest.TestCase):  # a setUpClass, for which startTest is not called
            self.begin(test)
        ElementTree.SubElement(self.case, what)

    def startTest(self, test):
        super().startTest(test)
        self.begin(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.case.set("time", f"{time.monotonic() - self.began:.3f}")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failure")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failure")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failure")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")


def main():
    """Runs the script's cases: SCRIPT FOLDER_OF_BINARIES [REPORT.xml] [unittest's arguments]."""
    rest = sys.argv[2:]
    report = pathlib.Path(rest.pop(0)) if rest and rest[0].endswith(".xml") else None
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False,
                            testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(program.result.report).write(report)
    sys.exit(not program.result.wasSuccessful())
