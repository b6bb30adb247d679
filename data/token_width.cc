#include "data/token_width.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd::data {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kEnoughNumbers = 64;       // In fewer numbers, all upper halves could be small by chance.
constexpr uint16_t kLargestUpper = 15;       // Upper half of the largest token below 2^20.
constexpr uint16_t kNegativeUpper = 0xffff;  // Upper half of a small negative number, such as -1 or -100.

// Statistics of a file's pieces, read as 32-bit numbers that consist of two 16-bit halves.
struct Halves {
  int64_t num_numbers = 0;
  int64_t num_small_lower = 0;  // Lower halves of at most kLargestUpper.
  int64_t num_small_upper = 0;
  int64_t num_negative_upper = 0;  // Upper halves that are kNegativeUpper.
  bool has_upper = false;          // Some upper half is not 0.
  bool has_lower = false;          // Some lower half is not 0.
  // Read as 64-bit numbers, the upper 32 bits of some number are those of no token: neither 0 nor, as in a small
  // negative number, all ones.
  bool has_second = false;
  bool has_negative_second = false;  // Read as 64-bit numbers, the upper 32 bits of some number are all ones.

  // Adds a piece of the file, given as 16-bit numbers. REQUIRES: its size is a multiple of 64 bits, except at the end
  // of the file.
  void Add(const std::vector<uint16_t>& halves) {
    for (size_t i = 0; i + 1 < halves.size(); i += 2) {
      const uint16_t lower = halves[i];
      const uint16_t upper = halves[i + 1];
      ++num_numbers;
      num_small_lower += lower <= kLargestUpper ? 1 : 0;
      num_small_upper += upper <= kLargestUpper ? 1 : 0;
      num_negative_upper += upper == kNegativeUpper ? 1 : 0;
      has_upper = has_upper || upper != 0;
      has_lower = has_lower || lower != 0;
      const bool is_negative = lower == kNegativeUpper && upper == kNegativeUpper;
      has_second = has_second || (i % 4 == 2 && (lower != 0 || upper != 0) && !is_negative);
      has_negative_second = has_negative_second || (i % 4 == 2 && is_negative);
    }
  }
};

// What the numbers of a file say about the width of its tokens, without the size of the file.
struct Finding {
  TokenWidth width;
  bool looks_wide = false;  // The numbers have, or may have, more than 16 bits.
};

Finding Find(const Halves& halves) {
  const int64_t count = halves.num_numbers;
  const bool is_enough = count >= kEnoughNumbers;
  const bool all_small = halves.num_small_upper == count;
  const bool lower_spread = 2 * halves.num_small_lower < count;
  // Upper halves as tokens of 32 bits have them, or the negative numbers that mark positions without a label.
  const int64_t num_wide = halves.num_small_upper + halves.num_negative_upper;
  const bool has_negative = halves.num_negative_upper > 0;
  if (!halves.has_lower && !halves.has_upper) {
    return {{0, "all of it is 0, which may be of any width"}};
  }
  if (is_enough && !halves.has_second) {
    return {{0, absl::StrCat("every second number of 32 bits is 0", halves.has_negative_second ? " or -1" : "",
                             ", as in numbers of 64 bits, which are no tokens")},
            true};
  }
  if (is_enough && all_small && (lower_spread || !halves.has_upper)) {
    return {{4, absl::StrCat("every second 16 bits are ", halves.has_upper ? "at most 15" : "0",
                             ", as in numbers of 32 bits")},
            true};
  }
  if (is_enough && (lower_spread || has_negative) && num_wide * 20 >= count * 19) {
    return {{0, absl::StrCat("nearly every second 16 bits are at most 15",
                             has_negative ? " or, as in negative numbers, 65535, as in numbers of 32 bits"
                                          : ", as in numbers of 32 bits, and some are not")},
            true};
  }
  if (num_wide == count && !(is_enough && halves.has_upper && halves.num_small_lower == count)) {
    return {{0, absl::StrCat(count, " numbers of 32 bits are ", is_enough ? "too much alike" : "too few",
                             " to tell them from twice as many of 16")}};
  }
  return {{2, "its numbers are not those of 32 bits"}};
}

// Adds the size of the file to what its numbers say. Tokens of 32 bits need a multiple of 4 bytes. A file of another
// even size has tokens of 16 bits, unless its numbers are wider: then it is cut off.
TokenWidth WidthFor(int64_t file_bytes, const Finding& finding) {
  if (file_bytes % 4 == 0) {
    return finding.width;
  }
  const std::string size = absl::StrCat("has ", file_bytes, " bytes, ");
  return finding.looks_wide ? TokenWidth{0, absl::StrCat(size, "no whole number of tokens of 4 bytes, but ",
                                                         finding.width.why, "; it may be cut off")}
                            : TokenWidth{2, absl::StrCat(size, "a whole number of tokens of 2 bytes and none of 4")};
}

}  // namespace

absl::StatusOr<TokenWidth> WidthOfTokens(int64_t file_bytes, ReadAt read) {
  if (file_bytes == 0 || file_bytes % 2 != 0) {
    return TokenWidth{0, absl::StrCat("has ", file_bytes, " bytes, no whole number of tokens")};
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
  return WidthFor(file_bytes, Find(halves));
}

}  // namespace ampd::data
