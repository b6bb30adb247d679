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
// points. A curve has at most 4096 points. When it exceeds this limit, every second point is removed.
// Thread-compatible.
class WatchedJob {
 public:
  void Add(const v1::WatchJobResponse& message);
  // Sets one line that says why the job waits. The line is shown while the job is QUEUED.
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
  // Returns the mean of the last half minute. Before it is known, returns the last step's rate or, for a job that has
  // ended, the mean of its last attempt; 0: not known.
  double samples_per_second() const;
  double loss() const { return losses_.empty() ? job_.progress().loss() : losses_.back().value; }
  double loss_scale() const { return scales_.empty() ? job_.progress().loss_scale() : scales_.back().value; }
  const v1::EvalPoint& eval() const { return eval_; }

  // Returns the estimated time until the last step, at the speed of the last half minute; infinite if the speed is
  // unknown.
  absl::Duration TimeLeft() const;
  // Returns the time from the first step of the first attempt to the job's end or, while it runs, to its newest point.
  // Negative before the first step.
  absl::Duration Elapsed() const;

 private:
  // A step and the time of its end. The speed is computed from several of these.
  struct Pace {
    int64_t step = 0;
    int64_t time_micros = 0;
  };

  void AddSteps(const v1::StepColumns& steps);
  void SetProgress(const v1::Progress& progress);
  void AddPace(Pace now);
  // Removes the curves' points from `step` on. The job repeats these steps, after a roll-back or in a new attempt.
  void TakeBackFrom(int64_t step);
  void Thin();
  absl::Duration StepTime() const;  // time per step at the present speed; infinite if the speed is unknown

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
  std::string notice;              // text of the last row, such as a key hint or "connection lost"; empty: none
  std::string program = "ampctl";  // the beginning of suggested commands (Session::Program)
};

// Returns the live screen with the state, progress, loss curve, loss scale on a log2 axis, memory and latest events.
// The screen has at most `height` rows of at most `width` columns.
std::string RenderWatchScreen(const WatchedJob& watched, const ScreenOptions& options);

// Returns the job's state in one line, without a newline, for an output that is not a terminal.
// `program`: see ScreenOptions.
std::string RenderWatchLine(const WatchedJob& watched, const std::string& program = "ampctl");

// Returns the event in one line, without a newline: "underflow at step 12: ...".
std::string RenderEvent(const v1::Event& event);

}  // namespace ampd::client
