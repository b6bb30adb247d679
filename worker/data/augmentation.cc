#include "worker/data/augmentation.h"

#include "worker/data/philox.h"

namespace ampd::data {
namespace {

// The image changes of an epoch are drawn from the random stream kChanges + epoch. The offset makes these streams
// differ from those of the sampler, which draws from the streams numbered `epoch`.
constexpr uint64_t kChanges = uint64_t{1} << 63;

constexpr uint64_t kMask = (uint64_t{1} << 31) - 1;

// Returns an almost uniform number in [0, bound), from 31 random bits. The relative bias is under bound / 2^31.
int64_t BelowBound(uint64_t bits, int64_t bound) {
  return static_cast<int64_t>(((bits & kMask) * static_cast<uint64_t>(bound)) >> 31);
}

}  // namespace

ImageChange ChangeOf(const Augmentation& augmentation, int64_t epoch, int64_t sample) {
  const uint64_t bits =
      PhiloxBits(augmentation.seed, kChanges | static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
  const int64_t num_places = 2 * augmentation.crop_padding + 1;
  return {.top = BelowBound(bits, num_places),
          .left = BelowBound(bits >> 31, num_places),
          .mirrored = augmentation.flip && (bits >> 63) != 0};
}

}  // namespace ampd::data
