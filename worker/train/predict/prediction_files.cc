#include "worker/train/predict/prediction_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/formats/zip_writer.h"
#include "base/status_macros.h"
#include "data/npy.h"

namespace ampd::train {
namespace {

constexpr char kIndex[] = "index";
// Maximum number of bytes in an .npz file besides the elements of its arrays: the headers in the archive, and the
// archive's directory.
constexpr int64_t kNpzHeaderBytes = 4096;

// Appends the shortest text that reads back as the same number.
void AppendFloat(float number, std::string* out) {
  char digits[32];
  if (std::isfinite(number)) {
    out->append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
  } else {
    *out += "null";
  }
}

// An upper bound for the bytes that a tensor of this type and shape takes as JSON.
int64_t MostJsonBytes(at::ScalarType type, at::IntArrayRef shape) {
  constexpr int64_t kMostOfFloat = 15;    // Length of -1.17549435e-38
  constexpr int64_t kMostOfInteger = 20;  // Length of -9223372036854775808
  if (shape.empty()) {
    return type == at::kBool ? 1 : type == at::kLong ? kMostOfInteger : kMostOfFloat;
  }
  return 2 + shape[0] * (MostJsonBytes(type, shape.slice(1)) + 2);  // Brackets, and ", " between the elements.
}

// Appends `count` numbers that are consecutive in memory, with commas between them.
template <typename T>
void AppendNumbers(const T* numbers, int64_t count, std::string* out) {
  for (int64_t i = 0; i < count; ++i) {
    *out += i == 0 ? "" : ", ";
    if constexpr (std::is_same_v<T, float>) {
      AppendFloat(numbers[i], out);
    } else {
      absl::StrAppend(out, static_cast<int64_t>(numbers[i]));
    }
  }
}

// Appends a contiguous tensor as nested JSON lists. A tensor without dimensions becomes a number, and booleans become 0
// and 1.
void AppendJson(const at::Tensor& values, std::string* out) {
  if (values.dim() > 1) {
    *out += "[";
    for (int64_t i = 0; i < values.size(0); ++i) {
      *out += i == 0 ? "" : ", ";
      AppendJson(values[i], out);
    }
    *out += "]";
    return;
  }
  *out += values.dim() == 1 ? "[" : "";
  if (values.is_floating_point()) {
    AppendNumbers(values.const_data_ptr<float>(), values.numel(), out);
  } else if (values.scalar_type() == at::kBool) {
    AppendNumbers(values.const_data_ptr<bool>(), values.numel(), out);
  } else {
    AppendNumbers(values.const_data_ptr<int64_t>(), values.numel(), out);
  }
  *out += values.dim() == 1 ? "]" : "";
}

std::string JsonLine(int64_t index, const std::vector<amp::Prediction>& batch, int64_t row) {
  std::string line = absl::StrCat("{\"", kIndex, "\": ", index);
  for (const amp::Prediction& output : batch) {
    absl::StrAppend(&line, ", \"", output.name, "\": ");
    AppendJson(output.values[row], &line);
  }
  return line + "}\n";
}

data::ElementType ElementTypeOf(at::ScalarType type) {
  return type == at::kBool   ? data::ElementType::kBool
         : type == at::kLong ? data::ElementType::kInt64
                             : data::ElementType::kFloat32;
}

std::string_view RowBytes(const at::Tensor& values, int64_t row) {
  const auto size = static_cast<size_t>(values.nbytes()) / static_cast<size_t>(values.size(0));
  return {static_cast<const char*>(values.const_data_ptr()) + static_cast<size_t>(row) * size, size};
}

absl::Status TooLarge(int64_t bytes) {
  return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR",
               absl::StrCat("the prediction of one sample takes ", bytes,
                            " bytes, and a file of predictions has at most ", kMaxPredictionFileBytes));
}

}  // namespace

absl::Status PredictionFiles::Add(int64_t step, const std::vector<amp::Prediction>& batch) {
  if (rows_per_file_ == 0) {
    PlanFiles(batch);
  }
  for (int64_t row = 0; row < batch.front().values.size(0); ++row) {
    AMPD_RETURN_IF_ERROR(AddRow(batch, row));
    step_ = step;
  }
  return absl::OkStatus();
}

void PredictionFiles::PlanFiles(const std::vector<amp::Prediction>& batch) {
  constexpr int64_t kMostOfIndex = 32;  // Bytes of {"index": 9223372036854775807, and of the end of the line
  int64_t most = kMostOfIndex;
  for (const amp::Prediction& output : batch) {
    const int64_t around = static_cast<int64_t>(output.name.size()) + 6;  // Bytes of , "NAME": with a blank
    most += around + MostJsonBytes(output.values.scalar_type(), output.values.sizes().slice(1));
  }
  rows_per_file_ = format_ == v1::PredictSpec::NPZ ? std::numeric_limits<int64_t>::max()  // Only bytes limit a file.
                                                   : std::max<int64_t>(1, kMaxPredictionFileBytes / most);
}

absl::Status PredictionFiles::AddRow(const std::vector<amp::Prediction>& batch, int64_t row) {
  const bool as_json = format_ != v1::PredictSpec::NPZ;
  const std::string line = as_json ? JsonLine(num_samples_, batch, row) : "";
  auto bytes = static_cast<int64_t>(as_json ? line.size() : sizeof(int64_t));
  for (const amp::Prediction& output : batch) {
    bytes += as_json ? 0 : static_cast<int64_t>(RowBytes(output.values, row).size());
  }
  const int64_t most = kMaxPredictionFileBytes - (as_json ? 0 : kNpzHeaderBytes);
  if (bytes > most) {
    return TooLarge(bytes);
  }
  if (num_samples_ - first_ == rows_per_file_ || num_bytes_ + bytes > most) {
    AMPD_RETURN_IF_ERROR(Flush());
  }
  num_bytes_ += bytes;
  lines_ += line;
  if (!as_json) {
    if (columns_.empty()) {
      columns_.push_back({kIndex, at::kLong, {}, {}});
      for (const amp::Prediction& output : batch) {
        columns_.push_back({output.name, output.values.scalar_type(), output.values.sizes().slice(1).vec(), {}});
      }
    }
    columns_.front().content.append(reinterpret_cast<const char*>(&num_samples_), sizeof(num_samples_));
    for (size_t i = 0; i < batch.size(); ++i) {
      columns_[i + 1].content += RowBytes(batch[i].values, row);
    }
  }
  ++num_samples_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> PredictionFiles::Content() {
  if (format_ != v1::PredictSpec::NPZ) {
    return std::exchange(lines_, {});
  }
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Column& column : std::exchange(columns_, {})) {
    std::vector<int64_t> shape = column.row_shape;
    shape.insert(shape.begin(), num_samples_ - first_);
    entries.emplace_back(column.name + ".npy", data::WriteNpy(ElementTypeOf(column.type), shape, column.content));
  }
  return ZipOf(entries);
}

absl::Status PredictionFiles::Flush() {
  AMPD_ASSIGN_OR_RETURN(std::string content, Content());
  v1::Sample file;
  file.set_step(step_);
  file.set_file_name(
      absl::StrFormat("predictions-%010d.%s", first_, format_ == v1::PredictSpec::NPZ ? "npz" : "jsonl"));
  file.set_media_type(format_ == v1::PredictSpec::NPZ ? "application/zip" : "application/jsonl");
  file.set_content(std::move(content));
  first_ = num_samples_;
  num_bytes_ = 0;
  ++num_files_;
  return sink_(std::move(file));
}

absl::Status PredictionFiles::Finish() { return num_bytes_ == 0 ? absl::OkStatus() : Flush(); }

}  // namespace ampd::train
