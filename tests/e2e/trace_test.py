#!/usr/bin/env python3
"""Follows the trace that a client names (W3C Trace Context) through all logs: those of server, worker and trainer, and
the audit log; through retries, and through restarts of each of them.

Usage: trace_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import json
import re

from service import Service, wait_for
from service_case import BINARIES, JOB, ServiceCase, main

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
JSON_LOG = ["--log-format", "json"]
LONG_JOB = JOB.replace("steps: 5,", "steps: 1000000,") + "checkpoint: {every_steps: 20, keep: 2}\n"
TRACE_LINE = re.compile(rf"the attempt belongs to a trace: trace_id={TRACE} span_id=([0-9a-f]{{16}}) "
                        r"parent_span_id=([0-9a-f]{16})$", re.MULTILINE)
HOSTILE = ["", "no trace", TRACEPARENT + "-more", TRACEPARENT + "\n", TRACEPARENT.upper(), "ff" + TRACEPARENT[2:],
           f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{TRACE}-{'0' * 16}-01",
           f'00-{TRACE}-00f067aa0ba902b7-01","level":"forged', "x" * 10_000, "\x1b[2J" + TRACEPARENT]


def lines_of(program):
    """Returns the lines of a log in JSON, each of which must be an object with a time, a level and a message."""
    lines = [json.loads(line) for line in program.log().splitlines()]
    assert lines and all({"time", "level", "message"} <= set(line) for line in lines)
    return lines


class Trace(ServiceCase):
    def setUp(self):
        super().setUp()
        self.service = Service(BINARIES, [*JSON_LOG, "--log-level", "debug", "--lease", "2s", "--margin", "1s"])
        self.enterContext(self.service)

    def submit(self, job_file, traceparent=TRACEPARENT):
        self.service.environment = {"TRACEPARENT": traceparent}
        job = self.service.submit(job_file)
        self.service.environment = {}
        return job

    def about(self, program, job):
        return [line for line in lines_of(program) if line.get("job_id") == job]

    def with_message(self, message, lines):
        return [line for line in lines if line["message"] == message]

    def expect_trace(self, lines, **fields):
        """Checks that there are lines, and that all have the trace and these fields."""
        self.assertTrue(lines)
        for line in lines:
            self.assertEqual(line.get("trace_id"), TRACE, line)
            for name, value in fields.items():
                self.assertEqual(line.get(name), value, line)

    def logged(self, job):
        """Returns the spans of the job's trainers, each with its parent, as `ampctl job logs` shows them."""
        code, out, err = self.service.ampctl("job", "logs", job)
        self.assertEqual(code, 0, err)
        found = TRACE_LINE.findall(out)
        self.assertTrue(found, out)
        return found

    def test_a_trace_is_in_every_log(self):
        worker = self.service.start_worker(flags=JSON_LOG)
        job = self.submit(JOB)
        final = self.service.finished(job)
        self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
        version, trace, of_job, flags = final["traceparent"].split("-")
        self.assertEqual((version, trace, flags), ("00", TRACE, "01"))

        # The server: the job's span is that of the call, whose parent is the span of ampctl.
        self.expect_trace(self.about(self.service.server, job), span_id=of_job)
        created, = self.with_message("job created", self.about(self.service.server, job))
        calls = self.with_message("call ended", lines_of(self.service.server))
        call, = [line for line in calls if line["span_id"] == of_job]
        self.assertEqual(call["method"], "ampd.v1.JobService/CreateJob")
        self.expect_trace([created, call], parent_span_id=created["parent_span_id"])
        self.assertNotEqual(created["parent_span_id"], TRACEPARENT.split("-")[2], "ampctl has a span of its own")

        # The worker: the attempt's span, below that of the job.
        self.expect_trace(self.about(worker.agent, job), parent_span_id=of_job, attempt=1)
        of_worker = self.about(worker.agent, job)
        self.assertEqual([line["message"] for line in of_worker], ["attempt started", "attempt ended"])
        of_attempt, = {line["span_id"] for line in of_worker}

        # The trainer: its span, below that of the attempt.
        (of_trainer, parent), = self.logged(job)
        self.assertEqual(parent, of_attempt)
        self.assertEqual(len({of_job, of_attempt, of_trainer, created["parent_span_id"]}), 4, "each span has its own id")

        # The audit log.
        entry, = [entry for entry in self.service.read("audit") if entry["method"] == "ampd.v1.JobService/CreateJob"]
        self.assertEqual((entry["traceId"], entry["spanId"], entry["parentSpanId"]),
                         (TRACE, of_job, created["parent_span_id"]))

        # Its end.
        self.assertEqual(self.service.ampctl("job", "delete", job, "--yes")[0], 0)
        wait_for(lambda: self.with_message("job deleted", self.about(self.service.server, job)), "the deletion is logged")
        self.expect_trace(self.about(self.service.server, job), span_id=of_job)

    def test_a_trace_outlives_every_program(self):
        worker = self.service.start_worker(flags=JSON_LOG)
        job = self.submit(LONG_JOB)
        of_job = self.service.job(job)["traceparent"]
        worker.await_step(job, 3)
        self.service.server.kill()
        self.service.start_server()
        worker.kill()  # Its trainer goes on.
        worker.start()
        taken_over = "attempt taken over from an earlier agent"
        wait_for(lambda: self.with_message(taken_over, self.about(worker.agent, job)),
                 "the new agent has the trainer of the old one")
        worker.kill_trainer(job, worker.last_step(job).number + 2)
        wait_for(lambda: self.service.job(job)["numAttempts"] == 2 and self.service.job(job)["state"] == "RUNNING",
                 "the job is retried")
        for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
            self.assertEqual(self.service.ampctl("job", verb, job)[0], 0)
            wait_for(lambda state=state: self.service.job(job)["state"] == state, f"the job is {state}")
        self.service.ampctl("job", "cancel", job)
        self.assertEqual(self.service.finished(job)["state"], "CANCELLED")
        self.assertEqual(self.service.job(job)["traceparent"], of_job)
        self.expect_trace(self.about(self.service.server, job), span_id=of_job.split("-")[2])
        self.expect_trace(self.about(worker.agent, job))
        started = self.with_message("attempt started", self.about(worker.agent, job))
        self.assertEqual([line["attempt"] for line in started], [1, 2, 3])
        self.expect_trace(started, parent_span_id=of_job.split("-")[2])
        self.assertEqual(len({line["span_id"] for line in started}), 3, "each attempt is a span of its own")
        self.expect_trace(self.with_message(taken_over, self.about(worker.agent, job)), attempt=1, parent_span_id=started[0]["span_id"])
        self.assertLessEqual({parent for _, parent in self.logged(job)}, {line["span_id"] for line in started})
        others = [entry["traceId"] for entry in self.service.read("audit") if entry.get("object") == job]
        self.assertEqual(len({TRACE, *others}), 4, "pause, resume and cancel have traces of their own")

    def test_what_is_not_valid_begins_a_trace(self):
        ids = []
        for traceparent in HOSTILE:
            job = self.submit(JOB, traceparent)
            shown = self.service.job(job)["traceparent"]
            self.assertRegex(shown, r"^00-[0-9a-f]{32}-[0-9a-f]{16}-00$")
            ids.append(shown.split("-")[1])
            self.assertTrue(all(line["trace_id"] == ids[-1] for line in self.about(self.service.server, job)))
        self.assertEqual(len({TRACE, *ids}), len(HOSTILE) + 1)
        log = self.service.server.log()
        self.assertFalse([line for line in lines_of(self.service.server) if line["level"] == "forged"])
        self.assertNotIn("x" * 100, log)
        self.assertNotIn("\x1b", log)
        self.assertNotIn(TRACE, log)


if __name__ == "__main__":
    main()
