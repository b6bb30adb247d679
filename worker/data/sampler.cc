#include "worker/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/data/philox.h"

namespace ampd::data {
namespace {

__extension__ typedef unsigned __int128 Uint128;

// Below `bound`; the bias is under bound / 2^64.
uint64_t Below(uint64_t bits, uint64_t bound) { return static_cast<uint64_t>((Uint128{bits} * bound) >> 64); }

}  // namespace

Sampler::Sampler(const Options& options) : options_(options) {
  options_.batch_size = std::min(options_.batch_size, options_.num_samples);
  Shuffle();
}

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
  if (cursor_.position + options_.batch_size > options_.num_samples) {
    cursor_ = {cursor_.epoch + 1, 0};
    Shuffle();
  }
  const auto begin = order_.begin() + cursor_.position;
  cursor_.position += options_.batch_size;
  return {begin, begin + options_.batch_size};
}

bool Sampler::CanBeAt(const Options& options, const Cursor& cursor) {
  return cursor.epoch >= 0 && cursor.position >= 0 && cursor.position <= options.num_samples &&
         cursor.position % std::min(options.batch_size, options.num_samples) == 0;
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
