#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "base/ipc/compute_lease.h"
#include "worker/amp/engine.h"
#include "worker/train/loop/device_watch.h"
#include "worker/train/loop/in_flight_steps.h"
#include "worker/train/loop/training_run.h"
#include "worker/train/report/step_log.h"

namespace ampd::train {

// Begins the steps of a run and reads their results. Begin gets the batch, waits for the lease and enqueues the step on
// the engine. Await and the functions after it wait for the step's results and report them. TrainingLoop reacts to the
// results. Single-threaded; owner: TrainingLoop.
class StepRunner {
 public:
  // A finished step whose results were read from the device.
  struct EndedStep {
    amp::StepResult result;
    InFlightSteps::ReadStep begun;
  };

  // `run`, `lease`, `device_watch` and `step_log` outlive the runner.
  StepRunner(TrainingRun& run, const ComputeLease& lease, const DeviceWatch& device_watch, StepLog& step_log)
      : run_(run),
        lease_(lease),
        device_watch_(device_watch),
        step_log_(step_log),
        pins_batches_(run.plan().engine.device.device.is_cuda()) {}

  // Begins the next step. `reports_gradients`: the step samples its gradients and reports them.
  void Begin(bool reports_gradients);
  // The number of steps that may stay in flight now: at most the plan's steps_ahead and the engine's max_pending().
  // It is 0 before an evaluation, a sample, a checkpoint or the end. It is also 0 while the result of a step may
  // change what the next step does: if the job replays skipped batches, or while the precision may be raised or
  // lowered.
  size_t MaxInFlight() const;
  // Waits for the oldest step in flight and counts it as done. REQUIRES: a step is in flight.
  EndedStep Await();

  // Reports the step's numbers, its gradients if the step sampled them, and uneven micro-batches.
  absl::Status Report(const EndedStep& step);
  // Reports the fault if numbers in the step's forward pass went wrong.
  absl::Status ReportActivations(EndedStep& step);
  // Makes the next step train on this step's batch again, and reports that.
  absl::Status Replay(const EndedStep& step);
  // Gives the memory of the step's batch to later batches. If the run is on a GPU, memory that is not pinned is
  // replaced by pinned memory, because the host does not wait for copies from pinned memory. Memory is pinned on this
  // thread, which also records steps, because no thread may pin memory while a step is recorded.
  void Recycle(EndedStep step);

  InFlightSteps& in_flight() { return in_flight_; }
  const InFlightSteps& in_flight() const { return in_flight_; }

 private:
  TrainingRun& run_;
  const ComputeLease& lease_;
  const DeviceWatch& device_watch_;
  StepLog& step_log_;
  InFlightSteps in_flight_;
  bool pins_batches_;  // Whether the memory of later batches is pinned.
};

}  // namespace ampd::train
