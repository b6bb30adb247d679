#include "worker/train/checkpoint/tensor_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd::train {
namespace {

// All dtypes of the format, so that every dtype that ParseSafetensors accepts can be loaded.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 15> kDtypes = {{
    {"BOOL", at::kBool},
    {"U8", at::kByte},
    {"I8", at::kChar},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"I16", at::kShort},
    {"U16", at::kUInt16},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I32", at::kInt},
    {"U32", at::kUInt32},
    {"F32", at::kFloat},
    {"I64", at::kLong},
    {"U64", at::kUInt64},
    {"F64", at::kDouble},
}};

absl::StatusOr<at::ScalarType> TypeOf(const TensorEntry& entry) {
  const auto* found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.first == entry.dtype; });
  if (found == kDtypes.end()) {
    return absl::DataLossError(absl::StrCat("tensor ", entry.name, ": dtype ", entry.dtype, " can't be loaded"));
  }
  return found->second;
}

}  // namespace

absl::StatusOr<TensorFile> TensorFile::Of(const executor::TensorMap& tensors) {
  TensorFile file;
  SafetensorsHeader header;
  for (const auto& [name, tensor] : tensors) {
    TensorEntry entry;
    entry.name = name;
    entry.shape = tensor.sizes().vec();
    for (const auto& [dtype, type] : kDtypes) {
      if (type == tensor.scalar_type()) {
        entry.dtype = std::string(dtype);
      }
    }
    header.tensors.push_back(std::move(entry));
    file.tensors_.push_back(tensor.detach().contiguous());
  }
  AMPD_ASSIGN_OR_RETURN(file.header_, EncodeSafetensorsHeader(header));
  return file;
}

std::vector<std::string_view> TensorFile::parts() const {
  std::vector<std::string_view> parts = {header_};
  for (const at::Tensor& tensor : tensors_) {
    if (tensor.numel() > 0) {
      parts.emplace_back(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    }
  }
  return parts;
}

absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file, const TensorEntry& entry) {
  AMPD_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(entry));
  const std::string_view bytes = file.data.substr(entry.begin, entry.end - entry.begin);
  if (type == at::kBool && !std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0 || c == 1; })) {
    return absl::DataLossError(absl::StrCat("tensor ", entry.name, ": a boolean that is neither 0 nor 1"));
  }
  at::Tensor tensor = at::empty(entry.shape, type);
  if (!bytes.empty()) {
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  }
  return tensor;
}

absl::StatusOr<executor::TensorMap> ReadTensors(std::string_view bytes) {
  AMPD_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  executor::TensorMap tensors;
  for (const TensorEntry& entry : file.header.tensors) {
    AMPD_ASSIGN_OR_RETURN(tensors[entry.name], ReadTensor(file, entry));
  }
  return tensors;
}

}  // namespace ampd::train
