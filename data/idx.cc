#include "data/idx.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"

namespace ampd::data {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;

absl::StatusOr<uint32_t> ReadU32(ByteStream& stream, const std::string& name) {
  std::array<uint8_t, 4> bytes = {};
  AMPD_ASSIGN_OR_RETURN(const size_t count, stream.Read(bytes.data(), bytes.size()));
  if (count != bytes.size()) {
    return DataError(name, "the file ends inside its header");
  }
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

absl::Status ExpectMagic(ByteStream& stream, const std::string& name, uint32_t expected) {
  AMPD_ASSIGN_OR_RETURN(const uint32_t magic, ReadU32(stream, name));
  if (magic == expected) {
    return absl::OkStatus();
  }
  return DataError(
      name, absl::StrCat("magic 0x", absl::Hex(magic, absl::kZeroPad8), ", expected 0x",
                         absl::Hex(expected, absl::kZeroPad8), expected == kImagesMagic ? " (images)" : " (labels)"));
}

absl::StatusOr<int64_t> ReadSize(ByteStream& stream, const std::string& name, const char* what) {
  AMPD_ASSIGN_OR_RETURN(const uint32_t size, ReadU32(stream, name));
  if (size == 0) {
    return DataError(name, absl::StrCat(what, " is 0"));
  }
  return int64_t{size};
}

}  // namespace

absl::StatusOr<IdxImages> ReadIdxImages(const DataFile& file, int64_t limit) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  AMPD_RETURN_IF_ERROR(ExpectMagic(stream, file.name, kImagesMagic));
  IdxImages images;
  AMPD_ASSIGN_OR_RETURN(const int64_t count, ReadSize(stream, file.name, "the number of images"));
  AMPD_ASSIGN_OR_RETURN(images.rows, ReadSize(stream, file.name, "the number of rows"));
  AMPD_ASSIGN_OR_RETURN(images.columns, ReadSize(stream, file.name, "the number of columns"));
  images.count = limit > 0 ? std::min(limit, count) : count;
  int64_t size = 0;
  if (__builtin_mul_overflow(images.rows, images.columns, &size) || __builtin_mul_overflow(size, images.count, &size) ||
      size > kMaxDatasetBytes) {
    return DataError(file.name, absl::StrCat(images.count, " images of ", images.rows, " x ", images.columns,
                                             " are more than ", kMaxDatasetBytes, " bytes"));
  }
  const auto source = [&](uint8_t* out, size_t wanted) { return stream.Read(out, wanted); };
  AMPD_ASSIGN_OR_RETURN(images.pixels, ReadExactly(source, file.name, size));
  if (images.count == count) {
    AMPD_RETURN_IF_ERROR(ExpectEnd(source, file.name));
  }
  return images;
}

absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const DataFile& file, int64_t limit, int64_t num_classes) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  AMPD_RETURN_IF_ERROR(ExpectMagic(stream, file.name, kLabelsMagic));
  AMPD_ASSIGN_OR_RETURN(const int64_t count, ReadSize(stream, file.name, "the number of labels"));
  const int64_t wanted = limit > 0 ? std::min(limit, count) : count;
  const auto source = [&](uint8_t* out, size_t size) { return stream.Read(out, size); };
  AMPD_ASSIGN_OR_RETURN(std::vector<uint8_t> labels, ReadExactly(source, file.name, wanted));
  if (wanted == count) {
    AMPD_RETURN_IF_ERROR(ExpectEnd(source, file.name));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= num_classes) {
      return DataError(file.name,
                       absl::StrCat("label ", int{labels[i]}, " of sample ", i, " is not below ", num_classes));
    }
  }
  return labels;
}

}  // namespace ampd::data
