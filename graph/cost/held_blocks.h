#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/cost/memory.h"

namespace ampd::graph {

// Reference-counted blocks of memory. Tracks the bytes held now, by kind, and their peak. Thread-compatible.
class HeldBlocks {
 public:
  enum Kind { kActivation, kGradient, kWorkspace };

  // Identifies a block of one HeldBlocks. Only Allocate() makes ids of blocks. A default-constructed id stands for
  // memory that is counted elsewhere, such as that of a parameter: holding and releasing it has no effect, and it has
  // no bytes.
  class Id {
   public:
    Id() = default;

   private:
    friend class HeldBlocks;
    explicit Id(size_t index) : index_(index) {}
    std::optional<size_t> index_;
  };

  Id Allocate(Kind kind, int64_t bytes) {
    blocks_.push_back({kind, bytes, 1});
    Count(kind) += bytes;
    if (held_.total() > peak_.total()) {
      peak_ = held_;
    }
    return Id(blocks_.size() - 1);
  }

  Id Hold(Id id) {
    if (Block* const block = Find(id); block != nullptr) {
      ++block->num_holders;
    }
    return id;
  }

  void Release(Id id) {
    if (Block* const block = Find(id); block != nullptr && --block->num_holders == 0) {
      Count(block->kind) -= block->bytes;
    }
  }

  void BecomeGradient(Id id) {
    if (Block* const block = Find(id); block != nullptr) {
      Count(block->kind) -= block->bytes;
      block->kind = kGradient;
      Count(kGradient) += block->bytes;
    }
  }

  int64_t BytesOf(Id id) const {
    const Block* const block = Find(id);
    return block == nullptr ? 0 : block->bytes;
  }
  // Whether the block has exactly one holder. Memory that is counted elsewhere has other holders too.
  bool HeldOnce(Id id) const {
    const Block* const block = Find(id);
    return block != nullptr && block->num_holders == 1;
  }
  const HeldBytes& held() const { return held_; }
  const HeldBytes& peak() const { return peak_; }

 private:
  struct Block {
    Kind kind;
    int64_t bytes;
    int num_holders;
  };

  // The block of an id; null if its memory is counted elsewhere.
  Block* Find(Id id) { return id.index_.has_value() ? &blocks_[*id.index_] : nullptr; }
  const Block* Find(Id id) const { return id.index_.has_value() ? &blocks_[*id.index_] : nullptr; }
  int64_t& Count(Kind kind) {
    return kind == kActivation ? held_.activations : kind == kGradient ? held_.gradients : held_.workspace;
  }

  std::vector<Block> blocks_;
  HeldBytes held_;
  HeldBytes peak_;
};

}  // namespace ampd::graph
