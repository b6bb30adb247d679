#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/cifar_records.h"
#include "data/data_file.h"

// CIFAR-10 and CIFAR-100 in their binary version, plain or gzip. A file is records and nothing else:
//
//   CIFAR-10 record  := label pixel*           3,073 bytes
//   CIFAR-100 record := coarse fine pixel*     3,074 bytes
//   pixel* := 3 channels (red, green, blue) of 32 rows of 32, each a byte; labels are bytes below 10; 20 and 100
//
// Read strictly: no record is cut off, no label is beyond its number of classes, and the content is not that of another
// format or of the other of the two (content.h). With a limit nothing else is asked of what follows the last wanted
// sample. Errors name the file and the value; reasons as in data_file.h.
namespace ampd::data {

struct CifarImages {
  std::vector<uint8_t> pixels;  // (N, 3, 32, 32)
  std::vector<uint8_t> labels;  // (N)
};

// The samples of all files, one file behind the other. `limit`: only the first samples; 0: all. Every label is below
// `num_classes`.
absl::StatusOr<CifarImages> ReadCifar(const std::vector<DataFile>& files, CifarLabels labels, int64_t limit,
                                      int64_t num_classes);

}  // namespace ampd::data
