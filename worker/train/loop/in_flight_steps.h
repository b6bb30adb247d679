#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "worker/amp/phase.h"
#include "worker/data/sampler.h"

namespace ampd::train {

// The steps of an attempt that were begun and whose numbers are not read yet, in order, with their batches and the time
// that each took. A step that was begun before its predecessor was read counts its time from that read, because only
// then did it have the device to itself. Time is an argument. Single-threaded; owner: the step loop.
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
  };
  struct ReadStep : Step {
    double seconds = 0;
  };

  void Begin(Step step) { steps_.push_back(std::move(step)); }
  // Removes and returns the oldest step, whose numbers were read at `now`. REQUIRES: there is one.
  ReadStep Read(Instant now);
  // Drops all steps: they will not be read.
  void Abandon() { steps_.clear(); }

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // The position at which data continues after the last step that was read. `next`: the position after all steps that
  // were begun.
  data::Sampler::Cursor UnreadFrom(const data::Sampler::Cursor& next) const {
    return steps_.empty() ? next : steps_.front().place;
  }
  // Rate of the steps that were read, without the first one, which includes LibTorch's setup. 0 if no other step was
  // read.
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
