#include "worker/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/data/philox.h"

namespace ampd::data {
namespace {

__extension__ typedef unsigned __int128 Uint128;

// Returns an almost uniform number in [0, bound), from 64 random bits. The relative bias is under bound / 2^64.
uint64_t Below(uint64_t bits, uint64_t bound) { return static_cast<uint64_t>((Uint128{bits} * bound) >> 64); }

// The position in a batch at which the part of rank `rank` begins and the part of the previous rank ends. If the
// samples can't be divided equally, each of the first parts has one sample more.
int64_t PartBegin(int64_t num_in_batch, int64_t num_ranks, int64_t rank) {
  return num_in_batch / num_ranks * rank + std::min(num_in_batch % num_ranks, rank);
}

}  // namespace

int64_t Sampler::Options::num_in_batch() const {
  return last_batch == LastBatch::kPad ? batch_size : std::min(batch_size, num_samples);
}

int64_t Sampler::Options::num_batches() const {
  const int64_t num_full = num_samples / num_in_batch();
  const bool is_padded = last_batch == LastBatch::kPad && num_samples % num_in_batch() != 0;
  return num_full + (is_padded ? 1 : 0);
}

Sampler::Sampler(const Options& options) : options_(options) { Shuffle(); }

void Sampler::Shuffle() {
  order_.resize(options_.num_samples);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  if (options_.keep_order) {
    return;
  }
  for (int64_t i = options_.num_samples - 1; i > 0; --i) {
    const uint64_t bits = PhiloxBits(options_.seed, cursor_.epoch, i);
    std::swap(order_[i], order_[Below(bits, static_cast<uint64_t>(i) + 1)]);
  }
}

std::vector<int64_t> Sampler::Next() {
  const int64_t size = options_.num_in_batch();
  const int64_t needed = options_.last_batch == LastBatch::kPad ? 1 : size;
  if (cursor_.position + needed > options_.num_samples) {
    cursor_ = {cursor_.epoch + 1, 0};
    Shuffle();
  }
  std::vector<int64_t> indices;
  const int64_t end = PartBegin(size, options_.num_ranks, options_.rank + 1);
  for (int64_t i = PartBegin(size, options_.num_ranks, options_.rank); i < end; ++i) {
    indices.push_back(order_[static_cast<size_t>((cursor_.position + i) % options_.num_samples)]);
  }
  cursor_.position = std::min(cursor_.position + size, options_.num_samples);
  return indices;
}

bool Sampler::CanBeAt(const Options& options, const Cursor& cursor) {
  const bool is_padded_end = options.last_batch == LastBatch::kPad && cursor.position == options.num_samples;
  return cursor.epoch >= 0 && cursor.position >= 0 && cursor.position <= options.num_samples &&
         (is_padded_end || cursor.position % options.num_in_batch() == 0);
}

bool Sampler::Seek(const Cursor& cursor) {
  if (!CanBeAt(options_, cursor)) {
    return false;
  }
  cursor_ = cursor;
  Shuffle();
  return true;
}

}  // namespace ampd::data
