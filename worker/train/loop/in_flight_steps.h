#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "worker/amp/phase.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"

namespace ampd::train {

// The steps of an attempt that have begun but whose results were not read yet, oldest first. Keeps the batches of each
// step, and measures the time of each step. If a step begins before the results of the previous step are read, its time
// counts from that reading, because until then both steps share the device. The caller passes the current time.
// Single-threaded; owner: the step loop.
class InFlightSteps {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Step {
    Instant begin;
    data::Sampler::Cursor place;  // Position of the step's batch in the data.
    double data_wait_seconds = 0;
    bool reports_gradients = false;
    std::string why_uneven = {};  // Why the micro-batches may count different numbers of labels; empty: they do not.
    std::vector<amp::Batch> micro_batches = {};
    data::Dataset::Samples samples = {};  // The batch, of which the micro-batches are views.
  };
  struct ReadStep : Step {
    double seconds = 0;
  };

  void Begin(Step step) { steps_.push_back(std::move(step)); }
  // Removes and returns the oldest step, whose results were read at `now`. REQUIRES: a step is in flight.
  ReadStep Read(Instant now);
  // Drops all steps without reading their results.
  void Abandon() { steps_.clear(); }

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // The position in the data after the batch of the last step whose results were read. `next`: the position after the
  // batches of all steps that have begun.
  data::Sampler::Cursor UnreadFrom(const data::Sampler::Cursor& next) const {
    return steps_.empty() ? next : steps_.front().place;
  }
  // The mean rate over the steps whose results were read. Leaves out the first step, because it includes LibTorch's
  // setup. 0 if fewer than two steps were read.
  double steps_per_second() const {
    return steady_seconds_ > 0 ? static_cast<double>(num_steady_) / steady_seconds_ : 0;
  }

 private:
  std::deque<Step> steps_;
  Instant last_read_;
  bool has_read_ = false;
  int64_t num_steady_ = 0;
  double steady_seconds_ = 0;
};

}  // namespace ampd::train
