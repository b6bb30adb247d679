#include "data/token_width.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd::data {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kEnoughNumbers = 64;  // In fewer numbers, all upper halves could be small by chance.
constexpr uint16_t kLargestUpper = 15;  // Upper half of the largest token below 2^20.

// Statistics of a file's pieces, read as 32-bit numbers that consist of two 16-bit halves.
struct Halves {
  int64_t num_numbers = 0;
  int64_t num_small_lower = 0;  // Lower halves of at most kLargestUpper.
  int64_t num_small_upper = 0;
  bool has_upper = false;   // Some upper half is not 0.
  bool has_lower = false;   // Some lower half is not 0.
  bool has_second = false;  // Read as 64-bit numbers, some upper 32 bits are not 0.

  // Adds a piece of the file, given as 16-bit numbers. REQUIRES: its size is a multiple of 64 bits, except at the end
  // of the file.
  void Add(const std::vector<uint16_t>& halves) {
    for (size_t i = 0; i + 1 < halves.size(); i += 2) {
      const uint16_t lower = halves[i];
      const uint16_t upper = halves[i + 1];
      ++num_numbers;
      num_small_lower += lower <= kLargestUpper ? 1 : 0;
      num_small_upper += upper <= kLargestUpper ? 1 : 0;
      has_upper = has_upper || upper != 0;
      has_lower = has_lower || lower != 0;
      has_second = has_second || (i % 4 == 2 && (lower != 0 || upper != 0));
    }
  }
};

TokenWidth WidthOf(const Halves& halves) {
  const int64_t count = halves.num_numbers;
  const bool is_enough = count >= kEnoughNumbers;
  const bool all_small = halves.num_small_upper == count;
  const bool lower_spread = 2 * halves.num_small_lower < count;
  if (!halves.has_lower && !halves.has_upper) {
    return {0, "all of it is 0, which may be of any width"};
  }
  if (is_enough && !halves.has_second) {
    return {0, "every second number of 32 bits is 0, as in numbers of 64 bits, which are no tokens"};
  }
  if (is_enough && all_small && (lower_spread || !halves.has_upper)) {
    return {4, absl::StrCat("every second 16 bits are ", halves.has_upper ? "at most 15" : "0",
                            ", as in numbers of 32 bits")};
  }
  if (all_small && !(is_enough && halves.has_upper && halves.num_small_lower == count)) {
    return {0, absl::StrCat(count, " numbers of 32 bits are ", is_enough ? "too much alike" : "too few",
                            " to tell them from twice as many of 16")};
  }
  if (is_enough && lower_spread && halves.num_small_upper * 20 >= count * 19) {
    return {0, "nearly every second 16 bits are at most 15, as in numbers of 32 bits, and some are not"};
  }
  return {2, "its numbers are not those of 32 bits"};
}

}  // namespace

absl::StatusOr<TokenWidth> WidthOfTokens(int64_t file_bytes, ReadAt read) {
  if (file_bytes == 0 || file_bytes % 2 != 0) {
    return TokenWidth{0, absl::StrCat("has ", file_bytes, " bytes, no whole number of tokens")};
  }
  if (file_bytes % 4 != 0) {
    return TokenWidth{2, absl::StrCat("has ", file_bytes, " bytes, a whole number of tokens of 2 bytes and none of 4")};
  }
  // The pieces begin at multiples of 64 bits, so that 64-bit numbers are not split.
  const std::array<int64_t, 3> offsets = {0, file_bytes / 2 / 8 * 8,
                                          std::max<int64_t>(file_bytes - kPieceBytes, 0) / 8 * 8};
  Halves halves;
  int64_t end = 0;
  for (const int64_t offset : offsets) {
    const int64_t begin = std::max(offset, end);
    const int64_t size = std::min(kPieceBytes, file_bytes - begin);
    if (size <= 0) {
      break;
    }
    std::vector<uint16_t> piece(static_cast<size_t>(size) / sizeof(uint16_t));
    AMPD_RETURN_IF_ERROR(read(begin, size, piece.data()));
    halves.Add(piece);
    end = begin + size;
  }
  return WidthOf(halves);
}

}  // namespace ampd::data
