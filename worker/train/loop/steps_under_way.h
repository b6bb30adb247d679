#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "worker/data/sampler.h"

namespace ampd::train {

// The steps of an attempt that were begun and whose numbers are not read yet, in the order in which they were begun,
// and the time that each took. A step that was begun before the one ahead of it was read had the device to itself only
// from then on, and its time counts from there. Time is an argument. Single-threaded: owner the step loop.
class StepsUnderWay {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Step {
    Instant begin;
    data::Sampler::Cursor place;  // of its batch
    double data_wait_seconds = 0;
    bool tells_gradients = false;
    std::string why_uneven = {};  // its micro-batches may count different numbers of labels
  };
  struct ReadStep : Step {
    double seconds = 0;
  };

  void Begin(const Step& step) { steps_.push_back(step); }
  // Takes out the oldest, which was read at `now`. REQUIRES: there is one.
  ReadStep Read(Instant now);
  // Forgets them all: they will not be read.
  void Abandon() { steps_.clear(); }

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  // Where the data go on behind the steps that were read, when they go on at `next` behind all that were begun.
  data::Sampler::Cursor UnreadFrom(const data::Sampler::Cursor& next) const {
    return steps_.empty() ? next : steps_.front().place;
  }
  // Of the steps that were read but the first, which pays for what LibTorch sets up; 0 without such.
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
