#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"
#include "data/tokens.h"

namespace ampd::data {

// Reads a whole dataset file, detects its format from its content, and reports what is in it and what is wrong with it,
// with the messages of the reader that a job would use. The caller sets `path`. DATA_ERROR if the file can't be opened,
// or if its content matches no format (content.h).
absl::StatusOr<v1::DatasetFile> InspectFile(const DataFile& file);

// As InspectFile, for a file that is declared to hold tokens: reads it as a job with that declaration does. REQUIRES:
// `format` is not kAuto. DATA_ERROR if the file can't be opened.
absl::StatusOr<v1::DatasetFile> InspectTokens(const DataFile& file, TokenFormat format);

}  // namespace ampd::data
