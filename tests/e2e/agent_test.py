#!/usr/bin/env python3
"""Tests what trainers must not notice, and must not do, when their agent is killed or stopped, or when the server is
away or drained.

Usage: agent_test.py FOLDER_OF_BINARIES [REPORT.xml]. AMPD_SEED chooses the moments; a failure prints it.
"""
import os
import random
import signal
import unittest

from service import Service, boottime, pass_time, start_ticks, wait_for
from service_case import BINARIES, main

SEED = int(os.environ.get("AMPD_SEED", "1"))
NUM_KILLS = 50
NUM_STOPS = 20
NUM_OUTAGES = 5
NUM_DRAINS = 3
FOR_EVER = 100_000_000
# A lease of so few seconds that the server soon moves a job away from a stopped agent.
MOVING_LEASE = 1.0
MOVING = ["--lease", f"{MOVING_LEASE}s", "--margin", "0.5s", "--local-checkpoint-wait", "0s"]

JOB = """
name: agent-test
model: {{lenet: {{widths: [4, 8], hidden: 16}}}}
data:
  train: {{synthetic: {{shape: [1, 28, 28], num_classes: 10, num_samples: 1024, seed: 3}}}}
  batch_size: 32
precision: {{preset: fp32}}
optimizer: {{sgd: {{learning_rate: 1e-3, momentum: 0.9}}}}
train: {{steps: {steps}, seed: 5, num_threads: 1}}
checkpoint: {{every_steps: {checkpoint}, keep: 1}}
"""


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        print(f"AMPD_SEED={SEED} {self.id()}", flush=True)

    def expect_attempts(self, service, job, state, num_attempts):
        final = service.finished(job)
        self.assertEqual((final["state"], final["numAttempts"]), (state, num_attempts), final.get("message"))

    def expect_whole_curve(self, service, job, began):
        """Checks that every step that began was stored exactly once, and that nothing else was stored."""
        numbers = [step.number for step in began]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)), "the trainer repeated or left out a step")
        self.assertEqual([step for step, _ in service.curve(job)], numbers)

    def test_agents_killed_while_a_job_trains_cost_nothing(self):
        steps, kills = 4000, 0
        with Service(BINARIES) as service:
            worker = service.start_worker()
            while kills < NUM_KILLS:
                job = service.submit(JOB.format(steps=steps, checkpoint=500))
                step = worker.await_step(job)
                trainer, born = self.trainer_of(worker, step)
                while kills < NUM_KILLS and step.number + 150 < steps:
                    step = worker.await_step(job, step.number + self.random.randrange(1, 150))
                    worker.kill()
                    self.assertEqual(start_ticks(trainer), born, "the trainer did not outlive its agent")
                    worker.start()
                    kills += 1
                self.expect_untouched(service, worker, job, step.spawn, steps)

    def test_agents_killed_while_a_job_starts_start_it_once(self):
        steps = 40
        with Service(BINARIES) as service:
            worker = service.start_worker()
            for _ in range(15):
                job = service.submit(JOB.format(steps=steps, checkpoint=0))
                pass_time(self.random.uniform(0, 0.3))
                worker.kill()
                worker.start()
                self.expect_attempts(service, job, "SUCCEEDED", 1)
                self.expect_whole_curve(service, job, worker.steps(job))

    def test_agents_killed_at_the_end_of_a_job_deliver_its_outcome_once(self):
        steps = 40
        with Service(BINARIES) as service:
            worker = service.start_worker()
            for _ in range(10):
                job = service.submit(JOB.format(steps=steps, checkpoint=0))
                worker.await_step(job, steps - self.random.randrange(10))
                worker.kill()
                worker.start()
                self.expect_attempts(service, job, "SUCCEEDED", 1)
                self.expect_whole_curve(service, job, worker.steps(job))

    def trainer_of(self, worker, step):
        """Returns the trainer process of the step's attempt and its start time, which distinguishes it from a later
        process."""
        trainer = worker.shim(step).trainer_pid
        born = start_ticks(trainer)
        self.assertIsNotNone(born)
        return trainer, born

    def expect_untouched(self, service, worker, job, spawn, steps):
        """Checks that one attempt of one trainer ran every step once, that it was never suspended, and that all of its
        points were stored."""
        self.expect_attempts(service, job, "SUCCEEDED", 1)
        began = worker.steps(job)
        self.assertEqual({step.spawn for step in began}, {spawn})
        self.assertEqual(len(began), steps)
        self.expect_whole_curve(service, job, began)
        self.assertNotIn("SUSPENDED", service.events(job))

    def stop_beyond_lease(self, worker, job, lease):
        """Stops the agent until its trainer is suspended. Returns the last step and the lease's deadline."""
        stopped = boottime()
        worker.signal(signal.SIGSTOP)
        step = worker.last_step(job)
        wait_for(lambda: worker.shim(step).suspended, "the trainer is suspended")
        deadline = worker.shim(step).lease_deadline
        # The agent requested the newest renewal that it can have before it was stopped.
        self.assertLessEqual(deadline, stopped + lease)
        return worker.last_step(job), deadline

    def expect_silence(self, began, pauses):
        """Checks that no step began between a lease's deadline and the moment when the agent was continued or the
        server came back."""
        nearest = []
        for deadline, resumed in pauses:
            self.assertFalse([step.time - deadline for step in began if deadline <= step.time < resumed],
                             "a step began after its lease had run out")
            nearest.append(max(step.time for step in began if step.time < deadline) - deadline)
        print(f"{len(pauses)} leases ran out; the last step began {-max(nearest) * 1e3:.1f} ms before its deadline or "
              "earlier", flush=True)

    def test_an_agent_stopped_beyond_its_lease_suspends_its_trainer_which_goes_on_in_place(self):
        lease, pauses = 1.0, []
        with Service(BINARIES, ["--lease", f"{lease}s", "--margin", "60s"]) as service:
            worker = service.start_worker()
            job = service.submit(JOB.format(steps=FOR_EVER, checkpoint=0))
            worker.await_step(job)
            # Wait until the agent knows that the trainer runs: a pause before that would count as part of the start.
            wait_for(lambda: service.job(job)["state"] == "RUNNING", "the server knows that it runs")
            for _ in range(NUM_STOPS):
                step, deadline = self.stop_beyond_lease(worker, job, lease)
                pass_time(self.random.uniform(0, 0.5))
                self.assertEqual(worker.last_step(job).number, step.number, "a suspended trainer went on")
                pauses.append((deadline, boottime()))
                worker.signal(signal.SIGCONT)
                worker.await_step(job, step.number + self.random.randrange(2, 100))
                # Wait until the server has learned of the pause, with the next report. A second pause before that would
                # count as the same one.
                wait_for(lambda: service.events(job).count("RESUMED_IN_PLACE") >= len(pauses), "the pause is an event")
            service.ampctl("job", "cancel", job)
            self.expect_attempts(service, job, "CANCELLED", 1)
            began = worker.steps(job)
            self.expect_silence(began, pauses)
            self.expect_whole_curve(service, job, began)

    def test_a_job_whose_agent_is_stopped_moves_and_never_computes_twice(self):
        with Service(BINARIES, MOVING) as service:
            job = self.move_between_workers(service, NUM_STOPS, service.start_worker("w1"), service.start_worker("w2"))
            attempts = {attempt for _, attempt in service.curve(job)}
            self.assertEqual(attempts, {NUM_STOPS + 1}, "checkpoints of another worker's disk were used")

    def test_a_job_that_moves_with_its_checkpoints_ends_as_one_that_stayed(self):
        with Service(BINARIES, MOVING) as service:
            flags = ["--checkpoint-root-shared", "--checkpoint-root", service.folder / "checkpoints"]
            job = self.move_between_workers(service, 5, service.start_worker("w1", flags), service.start_worker("w2", flags))
            attempts = {attempt for _, attempt in service.curve(job)}
            self.assertGreater(len(attempts), 1, "every attempt started over")
            self.expect_as_if_it_had_stayed(service, job)

    def expect_as_if_it_had_stayed(self, service, job):
        """Checks that up to the job's last checkpoint its numbers and its training state equal, bit for bit, those of
        a job that runs equally far in one attempt."""
        last = service.job(job)["checkpoints"][-1]
        steps = int(last["step"])
        stayed = service.submit(JOB.format(steps=steps, checkpoint=steps))
        self.expect_attempts(service, stayed, "SUCCEEDED", 1)
        numbers, expected = service.numbers(job)[0], service.numbers(stayed)[0]
        self.assertEqual(sorted(expected), list(range(1, steps + 1)))
        for step in range(1, steps + 1):
            self.assertEqual(numbers[step], expected[step], f"step {step} is the first that differs")
        self.assertEqual(last["stateHash"], service.job(stayed)["checkpoints"][-1]["stateHash"])
        print(f"{steps} steps and the training state after them as of a job that stayed", flush=True)

    def move_between_workers(self, service, num_moves, here, there):
        """Runs a job until it is cancelled, and repeatedly stops the agent that has it."""
        lease, deadlines = MOVING_LEASE, []
        job = service.submit(JOB.format(steps=FOR_EVER, checkpoint=20))
        first = wait_for(lambda: here.last_step(job) or there.last_step(job), "the first step")
        if there.last_step(job) is not None:
            here, there = there, here
        for _ in range(num_moves):
            # Let each attempt save a checkpoint; without one it would count as a failure of the job.
            wait_for(lambda: service.job(job).get("checkpoints", [{}])[-1].get("attempt") == first.attempt,
                     f"a checkpoint of attempt {first.attempt}")
            _, deadline = self.stop_beyond_lease(here, job, lease)
            old = here.shim(first).trainer_pid
            moved = wait_for(lambda: (step := there.last_step(job)) and step.attempt > first.attempt and step,
                             f"an attempt after {first.attempt} on {there.name}")
            there.await_step(job, moved.number + self.random.randrange(60))
            deadlines.append(deadline)
            here.signal(signal.SIGCONT)
            wait_for(lambda: start_ticks(old) is None, "the end of the attempt that is not the current one")
            here, there, first = there, here, moved
        service.ampctl("job", "cancel", job)
        self.expect_attempts(service, job, "CANCELLED", num_moves + 1)
        self.expect_one_at_a_time(here.steps(job) + there.steps(job), deadlines)
        curve = service.curve(job)
        self.assertEqual([step for step, _ in curve], list(range(1, len(curve) + 1)))
        return job

    def expect_one_at_a_time(self, began, deadlines):
        """Checks that all steps of an attempt began before those of the next attempt, and none after its own lease
        ended."""
        began.sort(key=lambda step: step.time)
        attempts = [step.attempt for step in began]
        self.assertEqual(attempts, sorted(attempts), "two attempts computed at once")
        self.assertEqual(set(attempts), set(range(1, len(deadlines) + 2)))
        gaps = []
        for number, deadline in enumerate(deadlines, start=1):
            self.assertLess(max(step.time for step in began if step.attempt == number), deadline,
                            f"attempt {number} began a step after its lease had run out")
            gaps.append(min(step.time for step in began if step.attempt == number + 1) - deadline)
        self.assertGreater(min(gaps), 0, "an attempt began a step within the lease of the one before")
        print(f"{len(deadlines)} moves; the next attempt's first step came {min(gaps):.2f} s after the deadline or "
              "later", flush=True)

    def test_a_server_that_is_away_for_three_leases_costs_no_step(self):
        lease, pauses = 1.0, []
        with Service(BINARIES, ["--lease", f"{lease}s", "--margin", "1s"]) as service:
            worker = service.start_worker()
            job = service.submit(JOB.format(steps=FOR_EVER, checkpoint=0))
            step = worker.await_step(job)
            trainer, born = self.trainer_of(worker, step)
            for _ in range(NUM_OUTAGES):
                service.server.kill()
                away_until = boottime() + 3 * lease
                wait_for(lambda: worker.shim(step).suspended, "the trainer is suspended")
                deadline = worker.shim(step).lease_deadline
                pass_time(away_until - boottime())
                pauses.append((deadline, boottime()))
                stood = worker.last_step(job).number
                service.start_server()
                worker.await_step(job, stood + self.random.randrange(2, 100))
            self.assertEqual(start_ticks(trainer), born)
            service.ampctl("job", "cancel", job)
            self.expect_attempts(service, job, "CANCELLED", 1)
            began = worker.steps(job)
            self.expect_silence(began, pauses)
            self.expect_whole_curve(service, job, began)

    def test_a_server_that_is_drained_leaves_its_trainers_be(self):
        steps = 3000
        with Service(BINARIES) as service:
            worker = service.start_worker()
            job = service.submit(JOB.format(steps=steps, checkpoint=0))
            step = worker.await_step(job)
            trainer, born = self.trainer_of(worker, step)
            for _ in range(NUM_DRAINS):
                step = worker.await_step(job, step.number + self.random.randrange(1, 200))
                self.assertEqual(service.drain_server(), 0, service.server.log())
                # While the server is away, the trainer continues as long as its lease is valid.
                step = worker.await_step(job, worker.last_step(job).number + 5)
                service.start_server()
                self.assertEqual(start_ticks(trainer), born, "the trainer did not outlive the server")
            self.assertLess(step.number, steps, "the job ended before the last drain: nothing was shown")
            self.expect_untouched(service, worker, job, step.spawn, steps)


if __name__ == "__main__":
    main()
