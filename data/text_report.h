#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/dataset_file.pb.h"
#include "data/data_file.h"

namespace ampd::data {

// Describes a file of JSON lines (jsonl.h) without a model. The report has one entry for each array that a job would
// make of the file: "input_ids", "labels" unless no line has one, and "token_type_ids" if any line has them (a line
// without them counts as all 0). Each array has one element per text. The entry of the labels has the number of texts
// of each class if all classes are below kMostCountedClasses. Uses memory for one line and the counts. Returns the
// errors of ForEachText, and the error of a line without a label if other lines have one.
absl::StatusOr<std::vector<v1::DatasetArray>> ReportTexts(const DataFile& file);

}  // namespace ampd::data
