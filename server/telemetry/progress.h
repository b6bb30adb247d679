#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/job.pb.h"
#include "server/telemetry/history.h"
#include "server/telemetry/metric_store.h"

namespace ampd::server {

// The optimizer steps that the job is to do: what its spec says or, of a job given in epochs, what a trainer counted
// once it had opened the data; 0 before that.
int64_t TotalSteps(const v1::Job& job);

// How far each job is: the latest of its points, sums over the newest attempt, and the skipped steps of the curve. Fed
// by the store, in its order; kept in memory, and read back from the store after a restart. Thread-safe.
class ProgressBoard {
 public:
  void Update(const StoredHistory& stored);
  // Reads the job's points from the store. Blocks. REQUIRES: nothing was fed for the job yet.
  absl::Status Restore(MetricStore* store, const std::string& job);
  void Forget(const std::string& job);
  void ForgetAllBut(const std::set<std::string>& jobs);

  // What more is known than `Progress` tells.
  struct Entry {
    int32_t attempt = 0;
    v1::Progress progress;
    int64_t num_scale_ups = 0;
    int64_t num_scale_downs = 0;
    int64_t last_overflow_unix_micros = 0;
    double step_seconds = 0;  // sum over the attempt
  };
  std::optional<Entry> Find(const std::string& job) const;
  // Fills `job->progress`, with what only the spec tells.
  void AddTo(v1::Job* job) const;

 private:
  // A step of which an update was skipped: one of a GAN's two, or the one.
  struct SkippedStep {
    int64_t step = 0;
    bool generator = false;
    bool discriminator = false;
  };
  struct State {
    Entry entry;
    double last_loss_scale = 0;
    int64_t first_time_unix_micros = 0;
    int64_t num_steps = 0;
    std::vector<SkippedStep> skipped_steps;  // of the curve, ascending
  };
  static void CountSkips(State* state);
  static void AddGenerator(const v1::StepColumns& steps, State* state);
  void AddSteps(const v1::StepColumns& steps, State* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddItem(const HistoryItem& item, State* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, State> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
