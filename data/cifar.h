#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/cifar_records.h"
#include "data/data_file.h"

// CIFAR-10 and CIFAR-100 in their binary version, plain or gzip. A file consists of records only:
//
//   CIFAR-10 record  := label pixel*           3,073 bytes
//   CIFAR-100 record := coarse fine pixel*     3,074 bytes
//   pixel* := 3 channels (red, green, blue) of 32 rows of 32, each a byte; labels are bytes below 10, 20 and 100
//
// The file is read strictly: no record is cut off, every label is below its number of classes, and the content is not
// recognized as another format or the other of the two (content.h). With a limit, nothing else is checked after the
// last wanted sample. Errors name the file and the value; reasons as in data_file.h.
namespace ampd::data {

struct CifarImages {
  std::vector<uint8_t> pixels;  // (N, 3, 32, 32)
  std::vector<uint8_t> labels;  // (N)
};

// Reads the samples of all files, in the order of the files. `limit`: the number of samples to read; 0: all. Checks
// that every label is below `num_classes`.
absl::StatusOr<CifarImages> ReadCifar(const std::vector<DataFile>& files, CifarLabels labels, int64_t limit,
                                      int64_t num_classes);

}  // namespace ampd::data
