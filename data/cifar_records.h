#pragma once

#include <cstdint>
#include <vector>

// What a record of CIFAR's binary files is (cifar.h has the grammar).
namespace ampd::data {

inline constexpr int64_t kCifarChannels = 3;
inline constexpr int64_t kCifarSize = 32;  // rows, and columns
inline constexpr int64_t kCifarPixelBytes = kCifarChannels * kCifarSize * kCifarSize;

enum class CifarLabels { kTen, kHundredFine, kHundredCoarse };

struct CifarRecord {
  std::vector<int64_t> num_classes;  // of each label before the pixels
  int64_t label = 0;                 // which of them is taken

  int64_t num_bytes() const { return static_cast<int64_t>(num_classes.size()) + kCifarPixelBytes; }
};

CifarRecord CifarRecordOf(CifarLabels labels);

}  // namespace ampd::data
