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

// The state of a watched job: the latest record and progress that the stream has sent, and the curves of its metric
// points. A curve has at most 4096 points: when a longer run exceeds that, every second point is dropped.
// Thread-compatible.
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
  const v1::Progress& progress() const { return job_.progress(); }
  int64_t total_steps() const;  // steps that the job will do; 0: not known
  const std::string& waiting() const { return waiting_; }
  double samples_per_second() const;  // average of the last half minute; before that is known, the last step's rate
  double loss() const { return losses_.empty() ? job_.progress().loss() : losses_.back().value; }
  double loss_scale() const { return scales_.empty() ? job_.progress().loss_scale() : scales_.back().value; }
  const v1::EvalPoint& eval() const { return eval_; }

  // The estimated time until the last step, at the speed of the last half minute; infinite while the speed is unknown.
  absl::Duration TimeLeft() const;
  // The time from the first step of the first attempt to the job's end or its newest point; negative before the first
  // step.
  absl::Duration Elapsed() const;

 private:
  // A step and the time at which it was done. The speed is computed from these.
  struct Pace {
    int64_t step = 0;
    int64_t time_micros = 0;
  };

  void AddSteps(const v1::StepColumns& steps);
  void SetProgress(const v1::Progress& progress);
  void AddPace(Pace now);
  // Removes the curves' points from `step` on, because the job repeats these steps after a roll-back or in a new
  // attempt.
  void TakeBackFrom(int64_t step);
  void Thin();
  absl::Duration StepTime() const;  // time per step at the present pace; infinite while it is unknown

  v1::Job job_;
  std::vector<PlotPoint> losses_;
  std::vector<PlotPoint> scales_;
  std::deque<v1::Event> events_;  // the newest events
  int64_t dropped_points_ = 0;
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
  std::string notice;  // text of the last row, such as a key hint or that the connection is lost; empty: none
};

// Returns the live screen: state, progress, loss curve, loss scale on a log2 axis, memory, latest events. It has at
// most `height` rows of at most `width` columns.
std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options);

// Returns the job's state in one line, without a newline, for an output that is not a terminal.
std::string RenderWatchLine(const WatchedJob& watched);

// Returns the event in one line, without a newline: "overflow  step 12  scale 65536 ...".
std::string RenderEvent(const v1::Event& event);

}  // namespace ampd::client
