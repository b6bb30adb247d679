#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/array.h"
#include "data/byte_source.h"
#include "tests/fuzz/target.h"

namespace ampd::fuzz {

// Checks that an array that a reader has accepted has all of its bytes.
inline void RequireWhole(const data::Array& array) {
  const auto bytes = static_cast<int64_t>(array.bytes.size());
  Require(bytes == data::ArrayBytes(array.type, array.shape, data::kMaxDatasetBytes),
          "there are as many bytes as the shape says");
}

// Adds the file of named arrays to the count of accepted or of refused files. A file is accepted only if the reader can
// read all of its arrays.
template <typename File>
void JudgeArrays(const absl::StatusOr<File>& file) {
  absl::Status status = file.status();
  if (file.ok()) {
    for (const std::string& name : file->names()) {
      const absl::StatusOr<data::Array> array = file->Read(name, 0);
      if (!array.ok()) {
        status = array.status();
        break;
      }
      RequireWhole(*array);
    }
  }
  Judge(status);
}

}  // namespace ampd::fuzz
