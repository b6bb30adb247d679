#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "base/formats/content_kind.h"
#include "data/data_file.h"

// Determines the format of a dataset file from its content alone. Jobs and `ampctl data inspect` use the same function,
// so they always agree on a file's format.
namespace ampd::data {

struct FileContent {
  v1::DatasetFile::Format format = v1::DatasetFile::FORMAT_UNSPECIFIED;
  // Whether the format is practically certain (base/formats/content_kind.h). If it is not, the content may also be
  // numbers without a header that have the signs of the format by chance.
  bool is_certain = false;
  // A text for messages. If `format` is unspecified, the text says what the file is instead, or why the content fits
  // two formats. For tokens without a header, the text says how their width was found. Otherwise it is empty.
  std::string why;
  std::string begin;          // The first bytes of the content, decompressed.
  int64_t content_bytes = 0;  // Size after decompression.
  int64_t size_bytes = 0;     // Size on disk.
  bool gzip = false;
  absl::Status damage;  // Error of the decompression.
};

// Determines a file's format. Reads only some parts of the file, but all of a compressed file. Returns an error
// (data_file.h) only if the file can't be opened or read, not if it has no known format.
absl::StatusOr<FileContent> LookAt(const DataFile& file);

// Returns DATA_ERROR if the content is certainly not in the expected format: it has the signature of another format, or
// it is text. `expected` describes the expected content for the message, for example "tokens without a header".
// REQUIRES: `begin` is all of the content, or at least its first 4,096 bytes.
absl::Status RefuseOtherFormats(std::string_view begin, int64_t content_bytes, const std::string& name,
                                const std::string& expected);

}  // namespace ampd::data
