#include "data/byte_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/data_file.h"

namespace ampd::data {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::vector<uint8_t>> ReadExactly(ByteSource source, const std::string& name, int64_t size) {
  std::vector<uint8_t> bytes;
  while (static_cast<int64_t>(bytes.size()) < size) {
    const int64_t begin = static_cast<int64_t>(bytes.size());
    const int64_t wanted = std::min(kChunkBytes, size - begin);
    bytes.resize(begin + wanted);
    AMPD_ASSIGN_OR_RETURN(const size_t count, source(bytes.data() + begin, wanted));
    if (static_cast<int64_t>(count) < wanted) {
      return DataError(name, absl::StrCat("the file ends after ", begin + static_cast<int64_t>(count), " of ", size,
                                          " bytes of samples"));
    }
  }
  return bytes;
}

absl::Status ExpectEnd(ByteSource source, const std::string& name) {
  uint8_t byte = 0;
  AMPD_ASSIGN_OR_RETURN(const size_t count, source(&byte, 1));
  return count == 0 ? absl::OkStatus() : DataError(name, "bytes follow the last sample");
}

}  // namespace ampd::data
