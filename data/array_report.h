#pragma once

#include <cstdint>
#include <string>

#include "ampd/v1/dataset_file.pb.h"
#include "data/array.h"

namespace ampd::data {

// Which dimension of an array of images holds the channels.
enum class Channels { kNone, kSecond, kLast };

// A report counts the samples of each class only if there are at most this many classes.
inline constexpr int64_t kMostCountedClasses = 1 << 16;

// Describes an array: its type, shape and range. Elements that are not finite in float32, the type in which jobs use
// them, are only counted. An array that may hold labels (integers of shape (N) or (N, 1), from 0
// to 65,535) also gets the number of samples of each class. Any other array of 2 to 4 dimensions counts as images and
// gets the mean and standard deviation of each channel, with uint8 mapped to [0, 1]. Only an array of 4 dimensions can
// have several channels: the channels are its second dimension if that is at most 4, otherwise its last one if that is
// at most 4. Makes two passes over the array, and copies no elements.
v1::DatasetArray ReportArray(const std::string& name, const Array& array);

}  // namespace ampd::data
