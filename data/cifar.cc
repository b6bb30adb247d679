#include "data/cifar.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "data/content.h"

namespace ampd::data {
namespace {

using Format = v1::DatasetFile::Format;

// Rejects a file that is not in the CIFAR format `labels` (CIFAR-10 or CIFAR-100). A file of the other CIFAR format is
// recognized by its size. Without this check, the bytes of such a file would be reported as wrong labels.
absl::Status RefuseOthers(const DataFile& file, const FileContent& content, CifarLabels labels) {
  AMPD_RETURN_IF_ERROR(RefuseOtherFormats(content.begin, content.content_bytes, file.name, "records of CIFAR"));
  const bool is_ten = labels == CifarLabels::kTen;
  const int64_t record = CifarRecordOf(labels).num_bytes();
  const int64_t other = CifarRecordOf(is_ten ? CifarLabels::kHundredFine : CifarLabels::kTen).num_bytes();
  const bool is_other = content.damage.ok() && content.content_bytes > 0 && content.content_bytes % record != 0 &&
                        content.content_bytes % other == 0;
  return !is_other ? absl::OkStatus()
                   : DataError(file.name,
                               absl::StrCat("has ", content.content_bytes, " bytes, no whole number of records of ",
                                            record, " but of ", other, ": set variant to ",
                                            is_ten ? "CIFAR100_FINE or CIFAR100_COARSE" : "CIFAR10"));
}

// Rejects a file whose labels show that it is CIFAR-100 where `labels` says CIFAR-10, or the reverse. Reading the
// samples may not find this, because the wrong labels may follow the last wanted sample.
absl::Status CheckFormat(const DataFile& file, const FileContent& content, CifarLabels labels) {
  const Format expected = labels == CifarLabels::kTen ? v1::DatasetFile::CIFAR10 : v1::DatasetFile::CIFAR100;
  const bool fits = content.content_bytes % CifarRecordOf(labels).num_bytes() == 0;
  return !fits || content.format == expected || content.format == v1::DatasetFile::FORMAT_UNSPECIFIED
             ? absl::OkStatus()
             : DataError(file.name, absl::StrCat("by the labels of all its records it is a file of ",
                                                 v1::DatasetFile::Format_Name(content.format), ", not of ",
                                                 v1::DatasetFile::Format_Name(expected)));
}

// Appends the records of one file to `images`, until it has `most` samples.
absl::Status AddRecords(const DataFile& file, const CifarRecord& layout, int64_t most, int64_t num_classes,
                        CifarImages& images) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  std::vector<uint8_t> record(static_cast<size_t>(layout.num_bytes()));
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
    images.pixels.insert(images.pixels.end(), record.end() - kCifarPixelBytes, record.end());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CifarImages> ReadCifar(const std::vector<DataFile>& files, CifarLabels labels, int64_t limit,
                                      int64_t num_classes) {
  const CifarRecord record = CifarRecordOf(labels);
  const int64_t most = limit > 0 ? limit : std::numeric_limits<int64_t>::max();
  const int64_t classes = std::min(record.num_classes[static_cast<size_t>(record.label)], num_classes);
  CifarImages images;
  for (const DataFile& file : files) {
    if (static_cast<int64_t>(images.labels.size()) == most) {
      break;
    }
    AMPD_ASSIGN_OR_RETURN(const FileContent content, LookAt(file));
    AMPD_RETURN_IF_ERROR(RefuseOthers(file, content, labels));
    AMPD_RETURN_IF_ERROR(AddRecords(file, record, most, classes, images));
    AMPD_RETURN_IF_ERROR(CheckFormat(file, content, labels));
  }
  return images;
}

}  // namespace ampd::data
