#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"

namespace ampd::data {

// What there is to know of a file of JSON lines (jsonl.h), whatever the model, as the arrays that a job makes of it,
// one element a text: "input_ids", "labels", with the texts of each class where classes are below kMostCountedClasses,
// and, where any line has them, "token_type_ids", 0 in the others. Takes memory for one line and the counts. Errors are
// those of ForEachText.
absl::StatusOr<std::vector<v1::DatasetArray>> ReportTexts(const DataFile& file);

}  // namespace ampd::data
