#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/zip_archive.h"
#include "data/array.h"
#include "data/data_file.h"

namespace ampd::data {

inline constexpr int64_t kMaxNpzEntries = 1000;

// The arrays of an .npz file: a ZIP archive with an entry "<array>.npy" for each array, stored or deflated, as
// numpy.savez and numpy.savez_compressed write it. Other entries are ignored. An entry is unpacked only as far as its
// array's own header says, at most kMaxDatasetBytes. The entry must end there, and its checksum is verified. The errors
// have the reasons that data_file.h describes. Thread-compatible.
class NpzFile {
 public:
  static absl::StatusOr<NpzFile> Open(const DataFile& file);

  // Names of the arrays, in the order of the archive, each once.
  const std::vector<std::string>& names() const { return names_; }

  // Reads the named array. If `limit` is above 0, reads at most so many elements of its first dimension.
  absl::StatusOr<Array> Read(const std::string& name, int64_t limit) const;

 private:
  NpzFile(std::string file, ZipArchive archive) : file_(std::move(file)), archive_(std::move(archive)) {}
  absl::Status List();

  std::string file_;  // Name of the file in messages.
  ZipArchive archive_;
  std::vector<std::string> names_;
  std::vector<size_t> entries_;  // For each name, the index of its entry in the archive.
};

}  // namespace ampd::data
