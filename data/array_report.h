#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/dataset_file.pb.h"
#include "data/array.h"

namespace ampd::data {

// Which dimension of an array of images holds the channels.
enum class Channels { kNone, kSecond, kLast };

// Samples of each class are counted only if there are at most this many classes.
inline constexpr int64_t kMostCountedClasses = 1 << 16;

// Describes an array: its type, shape and range. Images also get mean and standard deviation of each channel, with
// uint8 mapped to [0, 1]. Possible labels, integers of (N) or (N, 1) from 0 to 65,535, also get the number of samples
// of each class. Images are arrays of 2 to 4 dimensions; with 4, the channels are the second or the last dimension,
// whichever is at most 4. Makes two passes over the array and uses memory for at most a thousand channels.
v1::DatasetArray ReportArray(const std::string& name, const Array& array);

}  // namespace ampd::data
