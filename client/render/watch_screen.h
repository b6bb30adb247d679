#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "client/render/format.h"
#include "client/render/plot.h"

namespace ampd::client {

// What a watcher knows of a job, folded from the stream's messages. Bounded: of a long run it keeps at most 4096
// points, thinned by halves. Thread-compatible.
class WatchedJob {
 public:
  void Add(const v1::WatchJobResponse& message);

  const v1::Job& job() const { return job_; }
  const std::vector<PlotPoint>& losses() const { return losses_; }
  const std::vector<PlotPoint>& scales() const { return scales_; }
  const std::deque<v1::Event>& events() const { return events_; }
  int64_t dropped_points() const { return dropped_points_; }
  bool finished() const { return finished_; }
  int64_t step() const { return step_; }
  int64_t skipped() const { return skipped_; }
  double samples_per_second() const { return samples_per_second_; }
  double learning_rate() const { return learning_rate_; }
  double grad_norm() const { return grad_norm_; }
  double loss() const { return losses_.empty() ? job_.progress().loss() : losses_.back().value; }
  double loss_scale() const { return scales_.empty() ? job_.progress().loss_scale() : scales_.back().value; }
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t memory_peak_bytes() const { return memory_peak_bytes_; }
  const v1::EvalPoint& eval() const { return eval_; }

  // Time to the last step at the pace of the points seen; infinite while it cannot be told.
  absl::Duration TimeLeft() const;

 private:
  void AddSteps(const v1::StepColumns& steps);
  void AddJob(const v1::Job& job);
  void Thin();

  v1::Job job_;
  std::vector<PlotPoint> losses_;
  std::vector<PlotPoint> scales_;
  std::deque<v1::Event> events_;  // the newest
  int64_t dropped_points_ = 0;
  int64_t step_ = 0;
  int64_t skipped_ = 0;
  double samples_per_second_ = 0;
  double learning_rate_ = 0;
  double grad_norm_ = 0;
  int64_t memory_bytes_ = 0;
  int64_t memory_peak_bytes_ = 0;
  int64_t first_step_ = 0;
  int64_t first_time_micros_ = 0;
  int64_t last_time_micros_ = 0;
  v1::EvalPoint eval_;
  bool finished_ = false;
};

struct ScreenOptions {
  int width = 80;
  int height = 24;
  bool ascii = false;
  Palette palette{false};
};

// The live screen: state, progress, loss curve, loss scale on a log2 axis, memory, last events; at most `height` rows.
std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options);

// The same in one line, without a newline, for what is no terminal.
std::string RenderWatchLine(const WatchedJob& watched);

// "overflow  step 12  scale 65536 ..." in one line, without a newline.
std::string RenderEvent(const v1::Event& event);

// The state in its colour: green for good ends, red for bad ones.
std::string StateText(v1::Job::State state, const Palette& palette);

}  // namespace ampd::client
