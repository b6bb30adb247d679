#include "worker/agent/training_times.h"

namespace ampd::agent {
namespace {

using prometheus::Histogram;

// Upper bounds of the buckets, in seconds.
const Histogram::BucketBoundaries kStepBuckets = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30};
const Histogram::BucketBoundaries kSaveBuckets = {0.1, 0.3, 1, 3, 10, 30, 100, 300};

}  // namespace

TrainingTimes::TrainingTimes()
    : step_seconds_(
          prometheus::BuildHistogram().Name("ampd_worker_step_seconds").Help("Time of steps.").Register(registry_)),
      save_seconds_(prometheus::BuildHistogram()
                        .Name("ampd_worker_checkpoint_save_seconds")
                        .Help("Time to save checkpoints.")
                        .Register(registry_)
                        .Add({}, kSaveBuckets)) {}

void TrainingTimes::AddStep(const std::string& precision, double seconds) {
  step_seconds_.Add({{"precision", precision}}, kStepBuckets).Observe(seconds);
}

void TrainingTimes::AddSave(double seconds) { save_seconds_.Observe(seconds); }

}  // namespace ampd::agent
