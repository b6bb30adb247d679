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

// Returns the number of optimizer steps that the job will have, or 0 if it is not known yet. The spec gives either the
// steps or the epochs. If it gives epochs, a trainer computes the number of steps when it has opened the data.
int64_t TotalSteps(const v1::Job& job);

// Tracks how far each job is: its latest metric point, sums over the newest attempt, and the skipped steps of the loss
// curve. The curve has the points that no rollback or later attempt superseded. The store updates the board in the
// order in which it stores items. The board is in memory and is restored from the store after a restart. Thread-safe.
class ProgressBoard {
 public:
  void Update(const StoredHistory& stored);
  // Reads the job's metric points from the store. Blocks. REQUIRES: Update was not called for the job yet.
  absl::Status Restore(MetricStore* store, const std::string& job);
  void Forget(const std::string& job);
  void ForgetAllBut(const std::set<std::string>& jobs);

  // A job's progress, with further values that the message Progress lacks.
  struct Entry {
    int32_t attempt = 0;
    v1::Progress progress;
    int64_t num_scale_ups = 0;
    int64_t num_scale_downs = 0;
    int64_t last_overflow_unix_micros = 0;
    double step_seconds = 0;  // From the end of the attempt's first step to the end of its last one.
    // The time of a step divided by its number of samples. This member is the sum over all steps of the attempt; the
    // next one is the value of the first step.
    double seconds_per_sample = 0;
    double first_seconds_per_sample = 0;
    // Energy of the attempt in joules: the sum of each step's power, times the time since the previous step. Unset if
    // power is not measured.
    std::optional<double> energy_joules;
  };
  std::optional<Entry> Find(const std::string& job) const;
  // Fills in `job->progress`, including the values that come from the spec.
  void AddTo(v1::Job* job) const;

 private:
  // A step that skipped its update. If the model has several losses, it skipped the update of at least one of their
  // phases.
  struct SkippedStep {
    int64_t step = 0;
    uint32_t phases = 0;  // One bit for each of Progress.phases; see SkippedPhases.
  };
  struct State {
    Entry entry;
    double last_loss_scale = 0;
    int64_t first_time_unix_micros = 0;
    int64_t last_time_unix_micros = 0;
    int64_t num_steps = 0;
    std::vector<SkippedStep> skipped_steps;  // The skipped steps of the curve, ascending.
  };
  static void CountSkips(State* state);
  static void AddEnergy(const v1::StepColumns& steps, int row, State* state);
  static void AddPhases(const v1::StepColumns& steps, State* state);
  void AddSteps(const v1::StepColumns& steps, State* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddItem(const HistoryItem& item, State* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, State> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
