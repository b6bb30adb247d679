#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "base/formats/content_kind.h"
#include "data/data_file.h"

// Determines the format of a dataset file from its content alone. Jobs and `ampctl data inspect` use the same function,
// so they always agree on it.
namespace ampd::data {

struct FileContent {
  v1::DatasetFile::Format format = v1::DatasetFile::FORMAT_UNSPECIFIED;
  // If there is no format: what the file is, or why its content leaves two formats open. For tokens without a header:
  // how their width was found. Empty otherwise.
  std::string why;
  std::string begin;          // The first bytes of the content, decompressed.
  int64_t content_bytes = 0;  // Size after decompression.
  int64_t size_bytes = 0;     // Size on disk.
  bool gzip = false;
  absl::Status damage;  // Error of the decompression.
};

// Reads the beginning of a file, samples of one that may hold tokens, and all of one that is compressed. Errors as in
// data_file.h; only a file that can't be opened or read is one.
absl::StatusOr<FileContent> LookAt(const DataFile& file);

// DATA_ERROR if the content is certainly of another format, because it has that format's signature or is text.
// `expected`: what the file should be, for example "tokens without a header". REQUIRES: `begin` is what ContentOf
// takes.
absl::Status RefuseOtherFormats(std::string_view begin, int64_t content_bytes, const std::string& name,
                                const std::string& expected);

}  // namespace ampd::data
