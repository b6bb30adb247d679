#pragma once

#include <cstdint>
#include <vector>

// Layout of a record of CIFAR's binary files (cifar.h has the grammar).
namespace ampd::data {

inline constexpr int64_t kCifarChannels = 3;
inline constexpr int64_t kCifarSize = 32;  // Number of rows, and of columns.
inline constexpr int64_t kCifarPixelBytes = kCifarChannels * kCifarSize * kCifarSize;

enum class CifarLabels { kTen, kHundredFine, kHundredCoarse };

struct CifarRecord {
  std::vector<int64_t> num_classes;  // For each label in a record, in order: its number of classes.
  int64_t label = 0;                 // Index (into num_classes) of the label that is used.

  int64_t num_bytes() const { return static_cast<int64_t>(num_classes.size()) + kCifarPixelBytes; }
};

CifarRecord CifarRecordOf(CifarLabels labels);

}  // namespace ampd::data
