#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_file.h"

// Images and labels in MNIST's IDX format, plain or gzip (detected by its magic, not by the name):
//
//   images := 0x00000803 count rows columns pixel*      pixel: u8
//   labels := 0x00000801 count label*                   label: u8
//   0x..., count, rows, columns := u32, big-endian
//
// The file is read strictly: the content must hold exactly as many bytes as its header says. If the caller wants fewer
// than `count` samples, the bytes after the last wanted one are not checked. The reader uses memory for the bytes that
// the file holds, even if its header claims more. Error messages name the file and the value; the errors have the
// reasons that data_file.h describes.
namespace ampd::data {

struct IdxImages {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint8_t> pixels;  // (count, rows, columns)
};

// Reads the first `limit` images, or all if `limit` is 0.
absl::StatusOr<IdxImages> ReadIdxImages(const DataFile& file, int64_t limit);

// Reads the first `limit` labels, or all if `limit` is 0. Checks that each is below `num_classes`.
absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const DataFile& file, int64_t limit, int64_t num_classes);

}  // namespace ampd::data
