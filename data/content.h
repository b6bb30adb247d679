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
  // A text for messages. If `format` is unspecified: what the file is instead, or why its content fits two formats. For
  // tokens without a header: how their width was found. Empty otherwise.
  std::string why;
  std::string begin;          // The first bytes of the content, decompressed.
  int64_t content_bytes = 0;  // Size after decompression.
  int64_t size_bytes = 0;     // Size on disk.
  bool gzip = false;
  absl::Status damage;  // Error of the decompression.
};

// Determines a file's format. Reads its beginning, and also pieces of a file that may hold tokens, or the whole file if
// it is compressed. Returns an error (data_file.h) only if the file can't be opened or read, not if it has no known
// format.
absl::StatusOr<FileContent> LookAt(const DataFile& file);

// Returns DATA_ERROR if the content is certainly in another format than the one expected: it has that format's
// signature, or is text. `expected` describes for the message what the file should be, for example "tokens without a
// header". REQUIRES: `begin` meets the requirement of ContentOf.
absl::Status RefuseOtherFormats(std::string_view begin, int64_t content_bytes, const std::string& name,
                                const std::string& expected);

}  // namespace ampd::data
