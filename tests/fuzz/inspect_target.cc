#include "data/file_report.h"
#include "tests/fuzz/target.h"

// Inspects the input as a data file. The input counts as accepted if its format is known and the inspection finds no
// problem.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ampd::fuzz::Require;
  const ampd::data::DataFile file = ampd::fuzz::WriteInput(data, size);
  const auto report = ampd::data::InspectFile(file);
  if (!report.ok() || report->problems().empty()) {
    ampd::fuzz::Judge(report.status());
  } else {
    ++ampd::fuzz::Seen().num_refused;
  }
  if (!report.ok()) {
    return 0;
  }
  Require(report->format() != ampd::v1::DatasetFile::FORMAT_UNSPECIFIED, "a report has a format");
  for (const ampd::v1::DatasetArray& array : report->arrays()) {
    int64_t elements = 1;
    for (const int64_t extent : array.shape()) {
      elements *= extent;
    }
    int64_t labels = 0;
    for (const int64_t count : array.class_counts()) {
      labels += count;
    }
    Require(labels == 0 || labels == elements, "each label is counted");
    Require(array.num_not_finite() <= elements, "no more elements are strange than there are");
    const ampd::v1::LengthRange& lengths = array.lengths();
    Require(!array.has_lengths() || (1 <= lengths.min() && static_cast<double>(lengths.min()) <= lengths.mean() &&
                                     lengths.mean() <= static_cast<double>(lengths.max())),
            "a text has a token, and the mean is among the lengths");
    Require(!array.has_min() || array.min() <= array.max(), "a range begins before it ends");
  }
  return 0;
}
