#include "base/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/formats/safetensors_json.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kDtypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"I64", 8},
    {"U64", 8},
    {"F64", 8},
}};

absl::Status Wrong(const TensorEntry& tensor, const std::string& what) {
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name), ": ", what));
}

std::string ShapeText(const TensorEntry& tensor) { return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]"); }

// The number of bytes that a tensor of this dtype and shape has.
absl::StatusOr<uint64_t> TensorBytes(const TensorEntry& tensor) {
  uint64_t bytes = SafetensorsDtypeBytes(tensor.dtype);
  if (bytes == 0) {
    return Wrong(tensor, absl::StrCat("unknown dtype ", Quoted(tensor.dtype)));
  }
  for (const int64_t dim : tensor.shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return Wrong(tensor, absl::StrCat("the impossible shape ", ShapeText(tensor)));
    }
  }
  return bytes;
}

absl::Status CheckName(const TensorEntry& tensor) {
  if (tensor.name.empty()) {
    return absl::DataLossError("a tensor's name is empty");
  }
  if (tensor.name.size() > kMaxSafetensorsNameBytes) {
    return Wrong(tensor, absl::StrCat("a name of ", tensor.name.size(), " bytes; at most ", kMaxSafetensorsNameBytes));
  }
  if (!IsUtf8(tensor.name) || HasControl(tensor.name)) {
    return Wrong(tensor, "a name that is not UTF-8 or has control characters");
  }
  return tensor.name == "__metadata__" ? Wrong(tensor, "a name that the format keeps for itself") : absl::OkStatus();
}

// Checks one tensor's entry, and that its data begins at `at`, where the data of the previous tensor ends.
absl::Status CheckTensor(const TensorEntry& tensor, uint64_t at, uint64_t data_bytes) {
  AMPD_RETURN_IF_ERROR(CheckName(tensor));
  AMPD_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor));
  const std::string offsets = absl::StrCat("data_offsets [", tensor.begin, ", ", tensor.end, "]");
  if (tensor.end < tensor.begin) {
    return Wrong(tensor, absl::StrCat(offsets, " end before they begin"));
  }
  if (tensor.end > data_bytes) {
    return Wrong(tensor, absl::StrCat(offsets, " reach beyond the ", data_bytes, " bytes of data"));
  }
  if (tensor.end - tensor.begin != bytes) {
    return Wrong(tensor, absl::StrCat(offsets, " hold ", tensor.end - tensor.begin, " bytes; shape ", ShapeText(tensor),
                                      " of ", tensor.dtype, " takes ", bytes));
  }
  if (tensor.begin != at) {
    return Wrong(tensor, absl::StrCat(offsets, tensor.begin < at ? " overlap" : " leave a gap behind",
                                      " the tensor that ends at ", at));
  }
  return absl::OkStatus();
}

// Sorts the tensors by offset, checks each of them, and checks that together they fill the data of `data_bytes` bytes
// without gaps.
absl::Status CheckTensors(std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const TensorEntry& tensor : tensors) {
    AMPD_RETURN_IF_ERROR(CheckTensor(tensor, at, data_bytes));
    at = tensor.end;
  }
  return at == data_bytes ? absl::OkStatus()
                          : absl::DataLossError(absl::StrCat(data_bytes - at, " bytes follow the last tensor"));
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(out, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendMetadata(const std::map<std::string, std::string>& metadata, std::string* out) {
  absl::StrAppend(out, "\"__metadata__\":{");
  const char* comma = "";
  for (const auto& [key, value] : metadata) {
    absl::StrAppend(out, comma);
    AppendJsonString(key, out);
    out->push_back(':');
    AppendJsonString(value, out);
    comma = ",";
  }
  out->push_back('}');
}

void AppendTensor(const TensorEntry& tensor, uint64_t begin, uint64_t end, std::string* out) {
  AppendJsonString(tensor.name, out);
  absl::StrAppend(out, ":{\"dtype\":\"", tensor.dtype, "\",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                  "],\"data_offsets\":[", begin, ",", end, "]}");
}

}  // namespace

uint64_t SafetensorsDtypeBytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) {
      return bytes;
    }
  }
  return 0;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix, uint64_t file_bytes) {
  constexpr size_t kLengthBytes = 8;
  if (file_bytes < kLengthBytes || prefix.size() < kLengthBytes) {
    return absl::DataLossError("safetensors: shorter than its length field");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(prefix[i])} << (8 * i);
  }
  if (length > file_bytes - kLengthBytes) {
    return absl::DataLossError(absl::StrCat("safetensors: a header of ", length, " bytes in a file of ", file_bytes));
  }
  if (length > kMaxSafetensorsHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("safetensors: a header of ", length, " bytes; at most ", kMaxSafetensorsHeaderBytes));
  }
  if (length > prefix.size() - kLengthBytes) {
    return absl::DataLossError("safetensors: the file ended inside its header");
  }
  AMPD_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsJson(prefix.substr(kLengthBytes, length)));
  header.data_begin = kLengthBytes + length;
  AMPD_RETURN_IF_ERROR(CheckTensors(header.tensors, file_bytes - header.data_begin));
  return header;
}

absl::StatusOr<SafetensorsFile> ParseSafetensors(std::string_view bytes) {
  SafetensorsFile file;
  AMPD_ASSIGN_OR_RETURN(file.header, ParseSafetensorsHeader(bytes, bytes.size()));
  file.data = bytes.substr(file.header.data_begin);
  return file;
}

absl::StatusOr<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    AppendMetadata(header.metadata, &json);
  }
  uint64_t at = 0;
  std::set<std::string_view> names;
  for (const TensorEntry& tensor : header.tensors) {
    const auto bytes = TensorBytes(tensor);
    uint64_t end = 0;
    if (!CheckName(tensor).ok() || !bytes.ok() || tensor.shape.size() > kMaxSafetensorsRank ||
        __builtin_add_overflow(at, *bytes, &end) || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " can't be stored"));
    }
    json.append(json.size() > 1 ? "," : "");
    AppendTensor(tensor, at, end, &json);
    at = end;
  }
  json.push_back('}');
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes || names.size() > kMaxSafetensorsTensors || !IsUtf8(json)) {
    return absl::InvalidArgumentError("too many tensors for a safetensors header, or metadata that is not UTF-8");
  }
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i)));
  }
  return out + json;
}

}  // namespace ampd
