#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"
#include "data/tokens.h"

namespace ampd::data {

// Reads a whole dataset file, detects its format from its content, and reports its arrays and its problems. The text of
// a problem is the error that a job would get from the same file; bytes in the file's name that are not UTF-8 become
// '?'. The caller sets `path` of the result. Returns DATA_ERROR if the file can't be opened, or if its content matches
// no format (content.h).
absl::StatusOr<v1::DatasetFile> InspectFile(const DataFile& file);

// Reads a whole dataset file as tokens in the given format, as for a job that declares this format, and reports its
// arrays and its problems. REQUIRES: `format` is not kAuto. DATA_ERROR if the file can't be opened.
absl::StatusOr<v1::DatasetFile> InspectTokens(const DataFile& file, TokenFormat format);

}  // namespace ampd::data
