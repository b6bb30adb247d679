#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace ampd::graph {

// How much a long computation over graphs has done, and whether it shall go on. The computation counts the nodes that
// it visits; every kNodesBetweenQuestions of them Work asks whether somebody still waits for the result. A computation
// that was stopped returns early, with numbers that mean nothing: who called it asks status() before it uses them.
// Thread-compatible.
class Work {
 public:
  static constexpr int64_t kNodesBetweenQuestions = 4096;

  Work() = default;
  // `is_abandoned` says whether nobody waits any more; it is asked on the thread that computes.
  explicit Work(std::function<bool()> is_abandoned) : is_abandoned_(std::move(is_abandoned)) {}

  void Visit(int64_t num_nodes = 1) {
    num_visited_ += num_nodes;
    if (num_visited_ >= next_question_) {
      next_question_ = num_visited_ + kNodesBetweenQuestions;
      is_stopped_ = is_stopped_ || (is_abandoned_ && is_abandoned_());
    }
  }

  bool is_stopped() const { return is_stopped_; }
  int64_t num_visited() const { return num_visited_; }

  // OK, or CANCELLED once nobody waits any more.
  absl::Status status() const {
    return is_stopped_ ? absl::CancelledError("nobody waits for the result any more") : absl::OkStatus();
  }

 private:
  std::function<bool()> is_abandoned_;
  int64_t num_visited_ = 0;
  int64_t next_question_ = 0;
  bool is_stopped_ = false;
};

}  // namespace ampd::graph
