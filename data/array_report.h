#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/dataset_file.pb.h"
#include "data/array.h"

namespace ampd::data {

// Where the channels of images are among the dimensions of an array.
enum class Channels { kNone, kSecond, kLast };

// The samples of each class are counted where there are so many classes at most.
inline constexpr int64_t kMostCountedClasses = 1 << 16;

// What there is to know of an array: its type, shape and range; of images mean and standard deviation of each channel,
// uint8 mapped to [0, 1]; of what can be labels, integers of (N) or (N, 1) from 0 to 65,535, the samples of each class.
// Images are arrays of 2 to 4 dimensions; of 4, the second or the last are the channels, whichever has at most 4.
// Takes two passes over it and memory for a thousand channels at most.
v1::DatasetArray ReportArray(const std::string& name, const Array& array);

}  // namespace ampd::data
