#include "worker/data/cifar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/byte_source.h"
#include "worker/data/byte_stream.h"

namespace ampd::data {
namespace {

struct Layout {
  int64_t num_labels;  // before the pixels
  int64_t label;       // which of them
  int64_t num_classes;
};

Layout LayoutOf(CifarLabels labels) {
  switch (labels) {
    case CifarLabels::kTen:
      return {1, 0, 10};
    case CifarLabels::kHundredCoarse:
      return {2, 0, 20};
    case CifarLabels::kHundredFine:
      return {2, 1, 100};
  }
  return {1, 0, 10};
}

// Adds the records of one file, until there are `most` samples.
absl::Status AddFile(const DataFile& file, const Layout& layout, int64_t most, int64_t num_classes,
                     CifarImages& images) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  std::vector<uint8_t> record(layout.num_labels + kCifarPixelBytes);
  for (int64_t i = 0; static_cast<int64_t>(images.labels.size()) < most; ++i) {
    AMPD_ASSIGN_OR_RETURN(const size_t count, stream.Read(record.data(), record.size()));
    if (count == 0 && i > 0) {
      return absl::OkStatus();
    }
    if (count < record.size()) {
      return DataError(file.name, absl::StrCat("the file ends after ", count, " of ", record.size(),
                                               " bytes of record ", i, count == 0 ? ": it is empty" : ""));
    }
    const uint8_t label = record[layout.label];
    if (label >= num_classes) {
      return DataError(file.name, absl::StrCat("label ", int{label}, " of sample ", i, " is not below ", num_classes));
    }
    if (static_cast<int64_t>(images.pixels.size()) + kCifarPixelBytes > kMaxDatasetBytes) {
      return DataError(file.name, absl::StrCat("with it the images are more than ", kMaxDatasetBytes, " bytes"));
    }
    images.labels.push_back(label);
    images.pixels.insert(images.pixels.end(), record.begin() + layout.num_labels, record.end());
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CifarRecordBytes(CifarLabels labels) { return LayoutOf(labels).num_labels + kCifarPixelBytes; }

absl::StatusOr<CifarImages> ReadCifar(const std::vector<DataFile>& files, CifarLabels labels, int64_t limit,
                                      int64_t num_classes) {
  const Layout layout = LayoutOf(labels);
  CifarImages images;
  for (const DataFile& file : files) {
    AMPD_RETURN_IF_ERROR(
        AddFile(file, layout, limit > 0 ? limit : INT64_MAX, std::min(layout.num_classes, num_classes), images));
  }
  return images;
}

}  // namespace ampd::data
