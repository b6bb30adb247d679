#pragma once

#include <cstdint>
#include <vector>

#include "graph/cost/memory.h"

namespace ampd::graph {

// Reference-counted blocks of memory. Tracks the bytes held now, by kind, and their peak. Thread-compatible.
class HeldBlocks {
 public:
  enum Kind { kActivation, kGradient, kWorkspace };
  // The id of a block whose memory is counted elsewhere. Holding and releasing this block has no effect.
  static constexpr int kOutside = -1;

  int Allocate(Kind kind, int64_t bytes) {
    blocks_.push_back({kind, bytes, 1});
    Count(kind) += bytes;
    if (held_.total() > peak_.total()) {
      peak_ = held_;
    }
    return static_cast<int>(blocks_.size()) - 1;
  }

  int Hold(int block) {
    if (block != kOutside) {
      ++At(block).num_holders;
    }
    return block;
  }

  void Release(int block) {
    if (block != kOutside && --At(block).num_holders == 0) {
      Count(At(block).kind) -= At(block).bytes;
    }
  }

  void BecomeGradient(int block) {
    Count(At(block).kind) -= At(block).bytes;
    At(block).kind = kGradient;
    Count(kGradient) += At(block).bytes;
  }

  int64_t BytesOf(int block) const { return blocks_[static_cast<size_t>(block)].bytes; }
  bool HeldOnce(int block) const { return blocks_[static_cast<size_t>(block)].num_holders == 1; }
  const HeldBytes& held() const { return held_; }
  const HeldBytes& peak() const { return peak_; }

 private:
  struct Block {
    Kind kind;
    int64_t bytes;
    int num_holders;
  };

  Block& At(int block) { return blocks_[static_cast<size_t>(block)]; }
  int64_t& Count(Kind kind) {
    return kind == kActivation ? held_.activations : kind == kGradient ? held_.gradients : held_.workspace;
  }

  std::vector<Block> blocks_;
  HeldBytes held_;
  HeldBytes peak_;
};

}  // namespace ampd::graph
