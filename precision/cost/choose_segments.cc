// Chooses the blocks that run again in the backward pass: ChooseSegments of memory.h.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "graph/blocks.h"
#include "precision/cost/memory.h"

namespace ampd::precision {
namespace {

// BlockSearch divides the range of possible numbers of blocks into this many equal intervals, and first tries only the
// ends of these intervals. For a model with at most this many blocks it tries every number.
constexpr size_t kIntervals = 16;
// If none of these numbers of blocks fits into the memory, BlockSearch takes the one that needs least memory, and
// tries numbers in the two intervals beside it, in steps of an interval divided by this.
constexpr size_t kParts = 4;

// Searches the number of blocks for ChooseSegments: how many of the model's first blocks run again. Estimates the
// memory at most once for each number.
class BlockSearch {
 public:
  BlockSearch(const MemoryModel& memory, std::vector<std::string> blocks, int64_t batch_size, int64_t bytes)
      : memory_(memory), blocks_(std::move(blocks)), batch_size_(batch_size), bytes_(bytes) {}

  absl::StatusOr<SegmentChoice> Run() {
    const size_t interval = std::max<size_t>(1, (blocks_.size() + kIntervals - 1) / kIntervals);
    AMPD_ASSIGN_OR_RETURN(bool found, Look(0, blocks_.size(), interval));
    if (!found && interval > 1) {
      const size_t from = least_ > interval ? least_ - interval : 0;
      const size_t to = std::min(least_ + interval, blocks_.size());
      AMPD_ASSIGN_OR_RETURN(found, Look(from, to, std::max<size_t>(1, interval / kParts)));
    }
    return SegmentChoice{FirstBlocks(least_), asked_.at(least_), found};
  }

 private:
  std::vector<std::string> FirstBlocks(size_t count) const {
    return {blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  absl::StatusOr<bool> Fits(size_t count) {
    if (!asked_.contains(count)) {
      AMPD_ASSIGN_OR_RETURN(const MemoryModel memory, memory_.WithSegments(FirstBlocks(count)));
      asked_[count] = memory.At(batch_size_);
    }
    return asked_[count].total() <= bytes_;
  }

  // Tries numbers of blocks from `from` to `to`, `interval` apart. If one of them fits, returns true; least_ is then a
  // number n that fits, while n - 1 does not fit. Otherwise returns false; least_ is then the tried number that needs
  // the least memory.
  absl::StatusOr<bool> Look(size_t from, size_t to, size_t interval) {
    for (size_t count = from, last = from;; last = count, count = std::min(count + interval, to)) {
      AMPD_ASSIGN_OR_RETURN(const bool fits, Fits(count));
      if (fits) {
        AMPD_RETURN_IF_ERROR(Narrow(last, count));
        return true;
      }
      const int64_t most = asked_[least_].total();
      const int64_t needed = asked_[count].total();
      least_ = needed < most || (needed == most && count < least_) ? count : least_;
      if (count == to) {
        return false;
      }
    }
  }

  // Finds by bisection a number in (too_few, fits] that fits while the number below it does not fit, and sets least_ to
  // it. REQUIRES: `fits` fits, `too_few` does not.
  absl::Status Narrow(size_t too_few, size_t fits) {
    while (fits > too_few + 1) {
      const size_t middle = too_few + (fits - too_few) / 2;
      AMPD_ASSIGN_OR_RETURN(const bool middle_fits, Fits(middle));
      (middle_fits ? fits : too_few) = middle;
    }
    least_ = fits;
    return absl::OkStatus();
  }

  const MemoryModel& memory_;
  const std::vector<std::string> blocks_;
  const int64_t batch_size_;
  const int64_t bytes_;
  std::map<size_t, MemoryEstimate> asked_;  // Estimates, keyed by number of blocks.
  size_t least_ = 0;
};

}  // namespace

absl::StatusOr<SegmentChoice> ChooseSegments(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                             TrainingSetup setup, int64_t batch_size, int64_t bytes,
                                             graph::Work* work) {
  setup.checkpoint_segments.clear();
  AMPD_ASSIGN_OR_RETURN(const MemoryModel memory, MemoryModel::Create(programs, policy, setup, work));
  AMPD_ASSIGN_OR_RETURN(SegmentChoice choice,
                        BlockSearch(memory, graph::BlocksOf(programs.train), batch_size, bytes).Run());
  if (work != nullptr) {
    AMPD_RETURN_IF_ERROR(work->status());
  }
  return choice;
}

}  // namespace ampd::precision
