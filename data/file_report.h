#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"
#include "data/tokens.h"

namespace ampd::data {

// Reads a whole file of a dataset, whose format is found from its content, and says what is in it and what is wrong
// with it, in the words of the reader that a job would use. `path` is left to the caller. DATA_ERROR when the file
// can't be opened, or is of no format that its content tells (content.h).
absl::StatusOr<v1::DatasetFile> InspectFile(const DataFile& file);

// The same of a file that is said to hold tokens, as a job reads it where it says so. REQUIRES: `format` is not kAuto.
// DATA_ERROR when the file can't be opened.
absl::StatusOr<v1::DatasetFile> InspectTokens(const DataFile& file, TokenFormat format);

}  // namespace ampd::data
