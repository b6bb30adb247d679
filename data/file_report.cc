#include "data/file_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/formats/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "data/array_report.h"
#include "data/cifar.h"
#include "data/content.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/tensor_arrays.h"
#include "data/text_report.h"
#include "data/tokens.h"
#include "nlohmann/json.hpp"

namespace ampd::data {
namespace {

using Format = v1::DatasetFile::Format;

constexpr size_t kShownBytes = 16;
constexpr char kAboutText[] =
    "ampctl data tokenize makes tokens of a text or, with --jsonl, JSON lines of a table such as CSV";
constexpr char kAboutTokens[] = "--format says how wide tokens without a header are";

// Adds a problem. Its text may contain the name of the file, which need not be UTF-8, as texts of a report must be.
void AddProblem(const std::string& problem, v1::DatasetFile& report) { report.add_problems(ValidUtf8(problem)); }

Array Labels(std::vector<uint8_t> labels) {
  const auto count = static_cast<int64_t>(labels.size());
  return {ElementType::kUint8, {count}, std::move(labels)};
}

absl::Status AddIdx(const DataFile& file, const FileContent& content, v1::DatasetFile& report) {
  if (content.begin[3] == 1) {
    AMPD_ASSIGN_OR_RETURN(std::vector<uint8_t> labels, ReadIdxLabels(file, 0, 256));
    *report.add_arrays() = ReportArray("labels", Labels(std::move(labels)));
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(IdxImages images, ReadIdxImages(file, 0));
  *report.add_arrays() = ReportArray(
      "images", {ElementType::kUint8, {images.count, images.rows, images.columns}, std::move(images.pixels)});
  return absl::OkStatus();
}

absl::Status AddCifar(const DataFile& file, CifarLabels kind, v1::DatasetFile& report) {
  AMPD_ASSIGN_OR_RETURN(CifarImages images, ReadCifar({file}, kind, 0, 256));
  const auto count = static_cast<int64_t>(images.labels.size());
  *report.add_arrays() = ReportArray(
      "images", {ElementType::kUint8, {count, kCifarChannels, kCifarSize, kCifarSize}, std::move(images.pixels)});
  *report.add_arrays() = ReportArray("labels", Labels(std::move(images.labels)));
  if (kind == CifarLabels::kHundredFine) {
    AMPD_ASSIGN_OR_RETURN(CifarImages coarse, ReadCifar({file}, CifarLabels::kHundredCoarse, 0, 256));
    *report.add_arrays() = ReportArray("coarse labels", Labels(std::move(coarse.labels)));
  }
  return absl::OkStatus();
}

// Adds all arrays of an archive, an NpzFile or TensorArrays, to the report.
template <typename Archive>
absl::Status AddEach(const absl::StatusOr<Archive>& archive, v1::DatasetFile& report) {
  AMPD_RETURN_IF_ERROR(archive.status());
  for (const std::string& name : archive->names()) {
    const absl::StatusOr<Array> array = archive->Read(name, 0);
    if (array.ok()) {
      *report.add_arrays() = ReportArray(name, *array);
    } else {
      AddProblem(std::string(array.status().message()), report);
    }
  }
  return absl::OkStatus();
}

// Adds the class names if the metadata entry "classes" is a JSON list of texts, as `ampctl data pack` writes it. Files
// of other programs may have an entry "classes" with another meaning.
void AddClassNames(const std::map<std::string, std::string>& metadata, v1::DatasetFile& report) {
  const auto found = metadata.find("classes");
  const auto names = found == metadata.end() ? nlohmann::json() : ParseJson(found->second).value_or(nlohmann::json());
  const bool are_texts = names.is_array() && std::all_of(names.begin(), names.end(),
                                                         [](const nlohmann::json& name) { return name.is_string(); });
  for (size_t i = 0; are_texts && i < names.size(); ++i) {
    report.add_class_names(names[i].get<std::string>());
  }
}

absl::Status AddTensors(const DataFile& file, v1::DatasetFile& report) {
  const absl::StatusOr<TensorArrays> tensors = TensorArrays::Open(file);
  AMPD_RETURN_IF_ERROR(AddEach(tensors, report));
  AddClassNames(tensors->metadata(), report);
  return absl::OkStatus();
}

absl::Status AddTokens(const DataFile& file, TokenFormat format, v1::DatasetFile& report) {
  AMPD_ASSIGN_OR_RETURN(const TokenFile read, ReadTokens(file, format, 0, std::nullopt));
  if (!read.note.empty()) {
    report.add_notes(read.note);
  }
  std::visit(
      [&](const auto& all) {
        v1::DatasetArray& array = *report.add_arrays();
        array.set_name("tokens");
        array.set_dtype(sizeof(all[0]) == 2 ? "uint16" : "uint32");
        array.add_shape(static_cast<int64_t>(all.size()));
        if (!all.empty()) {
          const auto [least, most] = std::minmax_element(all.begin(), all.end());
          array.set_min(*least);
          array.set_max(*most);
        }
      },
      read.tokens);
  return absl::OkStatus();
}

absl::Status AddTexts(const DataFile& file, v1::DatasetFile& report) {
  AMPD_ASSIGN_OR_RETURN(std::vector<v1::DatasetArray> arrays, ReportTexts(file));
  const bool has_labels =
      std::any_of(arrays.begin(), arrays.end(), [](const v1::DatasetArray& array) { return array.name() == "labels"; });
  if (!has_labels) {
    report.add_notes("no line has a label: the file is for data.predict, and not for data.train or data.eval");
  }
  for (v1::DatasetArray& array : arrays) {
    *report.add_arrays() = std::move(array);
  }
  return absl::OkStatus();
}

absl::Status AddArrays(const DataFile& file, const FileContent& content, v1::DatasetFile& report) {
  switch (report.format()) {
    case v1::DatasetFile::IDX:
      return AddIdx(file, content, report);
    case v1::DatasetFile::CIFAR10:
      return AddCifar(file, CifarLabels::kTen, report);
    case v1::DatasetFile::CIFAR100:
      return AddCifar(file, CifarLabels::kHundredFine, report);
    case v1::DatasetFile::NPZ:
      return AddEach(NpzFile::Open(file), report);
    case v1::DatasetFile::SAFETENSORS:
      return AddTensors(file, report);
    case v1::DatasetFile::LLM_C_TOKENS:
      return AddTokens(file, TokenFormat::kLlmC, report);
    case v1::DatasetFile::UINT16_TOKENS:
    case v1::DatasetFile::UINT32_TOKENS:
      return AddTokens(file, TokenFormat::kAuto, report);  // Errors are those of a job that declares AUTO.
    case v1::DatasetFile::JSONL:
      return AddTexts(file, report);
    case v1::DatasetFile::NPY: {
      AMPD_ASSIGN_OR_RETURN(const Array array, ReadNpy(file, 0));
      *report.add_arrays() = ReportArray("array", array);
      return absl::OkStatus();
    }
    default:
      AMPD_RETURN_IF_ERROR(content.damage);
      if (content.content_bytes == 0) {
        return DataError(file.name, "is empty: it has 0 bytes");
      }
      return DataError(
          file.name,
          absl::StrCat("of no format that is known by its content: ", content.why, "; it begins with \"",
                       absl::CHexEscape(content.begin.substr(0, kShownBytes)), "\" and has ", content.content_bytes,
                       " bytes; the formats are IDX, CIFAR, .npz, .npy, safetensors, tokens and JSON lines; ",
                       absl::StrContains(content.why, "text") ? kAboutText : kAboutTokens));
  }
}

// Adds the problems of the arrays for which every job refuses an array that it reads.
void AddProblemsOfArrays(const std::string& file_name, v1::DatasetFile& report) {
  for (const v1::DatasetArray& array : report.arrays()) {
    const std::string name = absl::StrCat(file_name, ": array \"", absl::CEscape(array.name()), "\"");
    if (array.num_not_finite() > 0) {
      AddProblem(absl::StrCat(name, " has ", array.num_not_finite(), " elements that are not finite",
                              array.dtype() == "float64" ? " in float32, the type in which jobs use them" : ""),
                 report);
    }
    if (std::find(array.shape().begin(), array.shape().end(), 0) != array.shape().end()) {
      AddProblem(absl::StrCat(name, " of shape (", absl::StrJoin(array.shape(), ", "), ") has no element"), report);
    }
  }
}

Format FormatOf(TokenFormat format) {
  return format == TokenFormat::kUint16   ? v1::DatasetFile::UINT16_TOKENS
         : format == TokenFormat::kUint32 ? v1::DatasetFile::UINT32_TOKENS
                                          : v1::DatasetFile::LLM_C_TOKENS;
}

}  // namespace

absl::StatusOr<v1::DatasetFile> InspectTokens(const DataFile& file, TokenFormat format) {
  AMPD_ASSIGN_OR_RETURN(const UniqueFd opened, OpenDataFile(file));
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) {
    return FileError(file.name, errno);
  }
  v1::DatasetFile report;
  report.set_format(FormatOf(format));
  report.set_size_bytes(status.st_size);
  if (const absl::Status added = AddTokens(file, format, report); !added.ok()) {
    AddProblem(std::string(added.message()), report);
  }
  return report;
}

absl::StatusOr<v1::DatasetFile> InspectFile(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(const FileContent content, LookAt(file));
  v1::DatasetFile report;
  report.set_format(content.format);
  report.set_size_bytes(content.size_bytes);
  report.set_gzip(content.gzip);
  const absl::Status added = AddArrays(file, content, report);
  if (!added.ok() && report.format() == v1::DatasetFile::FORMAT_UNSPECIFIED) {
    return added;
  }
  if (!added.ok()) {
    AddProblem(std::string(added.message()), report);
  }
  AddProblemsOfArrays(file.name, report);
  return report;
}

}  // namespace ampd::data
