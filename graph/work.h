#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace ampd::graph {

// Counts the work of a long computation over graphs, and stops it when nobody needs the result. The computation reports
// the nodes that it visits. After every kNodesBetweenQuestions of these nodes, Work checks whether the computation is
// abandoned. A stopped computation returns early with meaningless numbers: its caller must check status() before using
// them. Thread-compatible.
class Work {
 public:
  static constexpr int64_t kNodesBetweenQuestions = 4096;

  Work() = default;
  // `is_abandoned` returns true if nobody waits for the result any more. It is called on the computing thread.
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

  // OK, or CANCELLED once the computation was abandoned.
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
