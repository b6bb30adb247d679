#include "data/tensor_arrays.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/byte_source.h"

namespace ampd::data {
namespace {

constexpr uint64_t kLengthBytes = 8;

// Reads up to `size` bytes from `offset` on; fewer only at the end of the file.
absl::StatusOr<size_t> ReadBytesAt(const UniqueFd& file, const std::string& name, uint64_t offset, uint8_t* out,
                                   size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(file.get(), out + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR) {
      return FileError(name, errno);
    }
    if (count == 0) {
      break;
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return done;
}

absl::StatusOr<ElementType> TypeOf(const std::string& dtype, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, ElementType>, 9> kTypes = {{{"BOOL", ElementType::kBool},
                                                                               {"U8", ElementType::kUint8},
                                                                               {"I8", ElementType::kInt8},
                                                                               {"I16", ElementType::kInt16},
                                                                               {"I32", ElementType::kInt32},
                                                                               {"I64", ElementType::kInt64},
                                                                               {"F16", ElementType::kFloat16},
                                                                               {"F32", ElementType::kFloat32},
                                                                               {"F64", ElementType::kFloat64}}};
  for (const auto& [code, type] : kTypes) {
    if (dtype == code) {
      return type;
    }
  }
  return DataError(name, absl::StrCat("of dtype ", absl::CEscape(dtype),
                                      "; data may be BOOL, U8, I8, I16, I32, I64, F16, F32 or F64"));
}

}  // namespace

absl::StatusOr<TensorArrays> TensorArrays::Open(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenDataFile(file));
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) {
    return FileError(file.name, errno);
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string prefix(std::min(size, kLengthBytes + kMaxSafetensorsHeaderBytes), '\0');
  AMPD_ASSIGN_OR_RETURN(const size_t count,
                        ReadBytesAt(opened, file.name, 0, reinterpret_cast<uint8_t*>(prefix.data()), prefix.size()));
  prefix.resize(count);
  auto header = ParseSafetensorsHeader(prefix, size);
  if (!header.ok()) {
    return DataError(file.name, std::string(header.status().message()));
  }
  return TensorArrays(file.name, std::move(opened), *std::move(header));
}

std::vector<std::string> TensorArrays::names() const {
  std::vector<std::string> names;
  for (const TensorEntry& tensor : header_.tensors) {
    names.push_back(tensor.name);
  }
  return names;
}

absl::StatusOr<Array> TensorArrays::Read(const std::string& name, int64_t limit) const {
  const auto tensor = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                   [&](const TensorEntry& entry) { return entry.name == name; });
  if (tensor == header_.tensors.end()) {
    return DataError(name_,
                     absl::StrCat("it has no tensor \"", absl::CEscape(name), "\"; it has ", SomeNames(names())));
  }
  const std::string what = absl::StrCat(name_, ": tensor \"", absl::CEscape(name), "\"");
  Array array;
  AMPD_ASSIGN_OR_RETURN(array.type, TypeOf(tensor->dtype, what));
  array.shape = tensor->shape;
  if (limit > 0 && !array.shape.empty()) {
    array.shape[0] = std::min(array.shape[0], limit);
  }
  const int64_t size = ArrayBytes(array.type, array.shape, kMaxDatasetBytes);
  if (size < 0) {
    return DataError(what, absl::StrCat("more than ", kMaxDatasetBytes, " bytes"));
  }
  uint64_t offset = header_.data_begin + tensor->begin;
  const auto source = [&](uint8_t* out, size_t wanted) -> absl::StatusOr<size_t> {
    AMPD_ASSIGN_OR_RETURN(const size_t count, ReadBytesAt(file_, what, offset, out, wanted));
    offset += count;
    return count;
  };
  AMPD_ASSIGN_OR_RETURN(array.bytes, ReadExactly(source, what, size));
  AMPD_RETURN_IF_ERROR(CheckBooleans(array, what));
  return array;
}

}  // namespace ampd::data
