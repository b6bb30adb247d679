#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "base/formats/content_kind.h"
#include "data/data_file.h"

// What a file of a dataset is, decided by its content and by nothing else. Jobs and `ampctl data inspect` decide by the
// same function, so what one of them takes for tokens is none of CIFAR's images to the other.
namespace ampd::data {

struct FileContent {
  v1::DatasetFile::Format format = v1::DatasetFile::FORMAT_UNSPECIFIED;
  // Of no format: what it is, or why its content leaves two formats open. Of tokens without a header: by what their
  // width is told. Empty otherwise.
  std::string why;
  std::string begin;          // of the content, decompressed
  int64_t content_bytes = 0;  // decompressed
  int64_t size_bytes = 0;     // on disk
  bool gzip = false;
  absl::Status damage;  // of the compression
};

// Reads the beginning of a file, samples of one that may be tokens, and all of one that is compressed. Errors as in
// data_file.h: only what can't be opened or read is one.
absl::StatusOr<FileContent> LookAt(const DataFile& file);

// DATA_ERROR where the content is surely that of another format, one with a signature of its own, or text; `expected`
// says what the file was to be: "tokens without a header". REQUIRES: `begin` as ContentOf has it.
absl::Status RefuseOtherFormats(std::string_view begin, int64_t content_bytes, const std::string& name,
                                const std::string& expected);

}  // namespace ampd::data
