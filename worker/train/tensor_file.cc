#include "worker/train/tensor_file.h"

#include <array>
#include <cstring>
#include <utility>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/train/safetensors.h"

namespace ampd::train {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 8> kDtypes = {{{"F32", at::kFloat},
                                                                                 {"F64", at::kDouble},
                                                                                 {"F16", at::kHalf},
                                                                                 {"BF16", at::kBFloat16},
                                                                                 {"I64", at::kLong},
                                                                                 {"I32", at::kInt},
                                                                                 {"U8", at::kByte},
                                                                                 {"BOOL", at::kBool}}};

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

absl::StatusOr<executor::TensorMap> ReadTensors(std::string_view bytes) {
  AMPD_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  executor::TensorMap tensors;
  for (const TensorEntry& entry : file.header.tensors) {
    at::ScalarType type = at::ScalarType::Undefined;
    for (const auto& [dtype, known] : kDtypes) {
      type = dtype == entry.dtype ? known : type;
    }
    if (type == at::ScalarType::Undefined) {
      return absl::DataLossError(absl::StrCat("tensor ", entry.name, ": dtype ", entry.dtype, " is not supported"));
    }
    at::Tensor tensor = at::empty(entry.shape, type);
    if (entry.end > entry.begin) {
      std::memcpy(tensor.data_ptr(), file.data.data() + entry.begin, entry.end - entry.begin);
    }
    tensors[entry.name] = std::move(tensor);
  }
  return tensors;
}

}  // namespace ampd::train
