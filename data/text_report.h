#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"

namespace ampd::data {

// Describes a file of JSON lines (jsonl.h), independent of any model, as the arrays that a job makes of it, with one
// element per text: "input_ids", "labels", and, if any line has them, "token_type_ids", with 0 for the other lines. The
// labels get the number of texts of each class if all classes are below kMostCountedClasses. Uses memory for one line
// and the counts. Errors as ForEachText.
absl::StatusOr<std::vector<v1::DatasetArray>> ReportTexts(const DataFile& file);

}  // namespace ampd::data
