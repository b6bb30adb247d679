#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/cifar_records.h"
#include "data/data_file.h"

// CIFAR-10 and CIFAR-100 in their binary version, plain or gzip. A file consists of records only:
//
//   CIFAR-10 record  := label pixel*           3,073 bytes; label: a byte below 10
//   CIFAR-100 record := coarse fine pixel*     3,074 bytes; coarse: a byte below 20; fine: a byte below 100
//   pixel* := 3 channels (red, green, blue) of 32 rows of 32, each a byte
//
// The file is read strictly. It is rejected if a record is cut off, if the label of a sample is not below the number of
// classes, or if the content is recognized (content.h) as another format or as the other version of CIFAR. If the
// caller limits the number of samples, later samples only serve to recognize the format. Error messages name the file
// and the value; the errors have the reasons that data_file.h describes.
namespace ampd::data {

struct CifarImages {
  std::vector<uint8_t> pixels;  // (N, 3, 32, 32)
  std::vector<uint8_t> labels;  // (N)
};

// Reads the samples of all files, in the order of the files: at most `limit` samples, or all if `limit` is 0. Checks
// that every label is below `num_classes`.
absl::StatusOr<CifarImages> ReadCifar(const std::vector<DataFile>& files, CifarLabels labels, int64_t limit,
                                      int64_t num_classes);

}  // namespace ampd::data
