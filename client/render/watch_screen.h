#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "client/render/format.h"
#include "client/render/plot.h"

namespace ampd::client {

// What a watcher knows of a job, folded from the stream's messages. Bounded: of a long run it keeps at most 4096
// points, thinned by halves. What a replay tells again is not counted again. Thread-compatible.
class WatchedJob {
 public:
  void Add(const v1::WatchJobResponse& message);
  // Why the job waits, in one line; shown while it is QUEUED.
  void set_waiting(std::string waiting) { waiting_ = std::move(waiting); }

  const v1::Job& job() const { return job_; }
  const std::vector<PlotPoint>& losses() const { return losses_; }
  const std::vector<PlotPoint>& scales() const { return scales_; }
  const std::deque<v1::Event>& events() const { return events_; }
  int64_t dropped_points() const { return dropped_points_; }
  bool finished() const { return finished_; }
  int64_t step() const { return step_; }
  int64_t total_steps() const;  // 0: not known
  int64_t skipped() const;
  const std::string& waiting() const { return waiting_; }
  double samples_per_second() const;  // over the last half minute; of the last step before that is known
  double learning_rate() const { return learning_rate_; }
  double grad_norm() const { return grad_norm_; }
  double loss() const { return losses_.empty() ? job_.progress().loss() : losses_.back().value; }
  // Of a GAN, whose loss() is its discriminator's.
  std::optional<double> generator_loss() const { return generator_loss_; }
  double loss_scale() const { return scales_.empty() ? job_.progress().loss_scale() : scales_.back().value; }
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t memory_peak_bytes() const { return memory_peak_bytes_; }
  const v1::EvalPoint& eval() const { return eval_; }

  // Time to the last step at the pace of the last half minute; infinite while it cannot be told.
  absl::Duration TimeLeft() const;
  // From the first attempt's first step to the job's end or the newest point; negative before.
  absl::Duration Elapsed() const;

 private:
  // When a step was done.
  struct Pace {
    int64_t step = 0;
    int64_t time_micros = 0;
  };

  void AddSteps(const v1::StepColumns& steps);
  void AddJob(const v1::Job& job);
  void AddPace(Pace now);
  // Takes back points that come again: after a roll-back, or from a new attempt.
  void TakeBackFrom(int64_t step);
  void Thin();
  absl::Duration StepTime() const;  // infinite while it cannot be told

  v1::Job job_;
  std::vector<PlotPoint> losses_;
  std::vector<PlotPoint> scales_;
  std::deque<v1::Event> events_;  // the newest
  int64_t dropped_points_ = 0;
  int64_t step_ = 0;
  int64_t skips_seen_ = 0;   // among the points up to the last record of the job, which counts them too
  int64_t skips_since_ = 0;  // among later points
  double samples_per_second_ = 0;
  double learning_rate_ = 0;
  double grad_norm_ = 0;
  std::optional<double> generator_loss_;
  int64_t memory_bytes_ = 0;
  int64_t memory_peak_bytes_ = 0;
  std::deque<Pace> pace_;
  int64_t last_time_micros_ = 0;
  v1::EvalPoint eval_;
  std::string waiting_;
  bool finished_ = false;
};

struct ScreenOptions {
  int width = 80;
  int height = 24;
  bool ascii = false;
  Palette palette{false};
  std::string notice;  // the last row: what to type, or that the connection is lost; empty: none
};

// The live screen: state, progress, loss curve, loss scale on a log2 axis, memory, last events; at most `height` rows
// of at most `width` columns.
std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options);

// The same in one line, without a newline, for what is no terminal.
std::string RenderWatchLine(const WatchedJob& watched);

// "overflow  step 12  scale 65536 ..." in one line, without a newline.
std::string RenderEvent(const v1::Event& event);

}  // namespace ampd::client
