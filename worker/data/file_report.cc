#include "worker/data/file_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data/array_report.h"
#include "worker/data/byte_stream.h"
#include "worker/data/cifar.h"
#include "worker/data/idx.h"
#include "worker/data/npy.h"
#include "worker/data/npz.h"
#include "worker/data/tensor_arrays.h"
#include "worker/data/text_report.h"
#include "worker/data/tokens.h"

namespace ampd::data {
namespace {

using Format = v1::DatasetFile::Format;

constexpr size_t kBeginBytes = 16;
constexpr size_t kOpeningBytes = 2;

// 20240520 and 20240801, as in tokens.h.
constexpr absl::string_view kGpt2Magic("\x88\xd8\x34\x01", 4);
constexpr absl::string_view kLlama3Magic("\xa1\xd9\x34\x01", 4);

// That a text may begin with, and that the reader of JSON passes over.
constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";

// What is known of a file before a reader has seen it.
struct Glance {
  std::string begin;          // of the content, decompressed
  std::string opening;        // the first two bytes of it that are no blanks of JSON and no mark of UTF-8
  int64_t content_bytes = 0;  // decompressed
  int64_t size_bytes = 0;     // on disk
  bool gzip = false;
  absl::Status damage;  // of the compression
};

// `content` follows what `opening` was taken of.
void AddToOpening(absl::string_view content, std::string& opening) {
  for (const char byte : content) {
    if (opening.size() == kOpeningBytes) {
      return;
    }
    if (!absl::StrContains(" \t\r\n", byte)) {
      opening.push_back(byte);
    }
  }
}

absl::StatusOr<Glance> GlanceAt(const DataFile& file) {
  Glance glance;
  AMPD_ASSIGN_OR_RETURN(const UniqueFd opened, OpenDataFile(file));
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) {
    return FileError(file.name, errno);
  }
  glance.size_bytes = status.st_size;
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  glance.gzip = stream.is_gzip();
  // Byte by byte, so that a damaged file of a few bytes has a beginning.
  std::vector<uint8_t> chunk(1);
  absl::StatusOr<size_t> count = 1;
  while (count.ok() && *count > 0 && glance.begin.size() < kBeginBytes) {
    count = stream.Read(chunk.data(), 1);
    glance.begin.append(chunk.begin(), chunk.begin() + (count.ok() ? static_cast<int64_t>(*count) : 0));
  }
  AddToOpening(absl::StripPrefix(glance.begin, kUtf8Mark), glance.opening);
  glance.content_bytes = static_cast<int64_t>(glance.begin.size());
  chunk.resize(1 << 16);
  while (count.ok() && *count > 0 && glance.content_bytes <= kMaxDatasetBytes) {
    count = stream.Read(chunk.data(), chunk.size());
    const size_t size = count.ok() ? *count : 0;
    AddToOpening({reinterpret_cast<const char*>(chunk.data()), size}, glance.opening);
    glance.content_bytes += static_cast<int64_t>(size);
  }
  glance.damage = count.status();
  return glance;
}

// Eight bytes of length, which leave a file's content room, and an object of JSON.
bool BeginsAsSafetensors(const Glance& glance) {
  constexpr size_t kLengthBytes = 8;
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes && i < glance.begin.size(); ++i) {
    length |= uint64_t{static_cast<uint8_t>(glance.begin[i])} << (8 * i);
  }
  return !glance.gzip && glance.begin.size() > kLengthBytes && glance.begin[kLengthBytes] == '{' &&
         length <= static_cast<uint64_t>(glance.content_bytes) - kLengthBytes;
}

// CIFAR's formats are known by their size alone.
Format CifarOf(int64_t content_bytes) {
  if (content_bytes > 0 && content_bytes % CifarRecordBytes(CifarLabels::kTen) == 0) {
    return v1::DatasetFile::CIFAR10;
  }
  if (content_bytes > 0 && content_bytes % CifarRecordBytes(CifarLabels::kHundredFine) == 0) {
    return v1::DatasetFile::CIFAR100;
  }
  return v1::DatasetFile::FORMAT_UNSPECIFIED;
}

// An object of JSON, sound or not. A file of CIFAR's size must go on as one: a label may be a blank and a pixel '{'.
bool BeginsAsJson(const Glance& glance, bool may_be_cifar) {
  return absl::StartsWith(glance.opening, may_be_cifar ? "{\"" : "{");
}

// IDX first: its magic has two zeros, and CIFAR, known by its size alone, could begin with them. JSON lines behind
// safetensors, whose length may be a byte that is '{'; eight bytes of text are no length that a file has.
Format FormatOf(const Glance& glance) {
  const absl::string_view begin = glance.begin;
  if (begin.size() >= 4 && begin[0] == 0 && begin[1] == 0 && begin[2] == 8 && (begin[3] == 1 || begin[3] == 3)) {
    return v1::DatasetFile::IDX;
  }
  if (absl::StartsWith(begin, "\x93NUMPY")) {
    return v1::DatasetFile::NPY;
  }
  if (absl::StartsWith(begin, "PK\x03\x04") || absl::StartsWith(begin, "PK\x05\x06")) {
    return v1::DatasetFile::NPZ;
  }
  for (const absl::string_view magic : {kGpt2Magic, kLlama3Magic}) {
    if (!glance.gzip && absl::StartsWith(begin, magic)) {
      return v1::DatasetFile::LLM_C_TOKENS;
    }
  }
  if (BeginsAsSafetensors(glance)) {
    return v1::DatasetFile::SAFETENSORS;
  }
  const Format cifar = CifarOf(glance.content_bytes);
  return BeginsAsJson(glance, cifar != v1::DatasetFile::FORMAT_UNSPECIFIED) ? v1::DatasetFile::JSONL : cifar;
}

Array Labels(std::vector<uint8_t> labels) {
  const auto count = static_cast<int64_t>(labels.size());
  return {ElementType::kUint8, {count}, std::move(labels)};
}

absl::Status AddIdx(const DataFile& file, const Glance& glance, v1::DatasetFile& report) {
  if (glance.begin[3] == 1) {
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

// All arrays of an NpzFile or of TensorArrays.
template <typename Archive>
absl::Status AddEach(const absl::StatusOr<Archive>& archive, v1::DatasetFile& report) {
  AMPD_RETURN_IF_ERROR(archive.status());
  for (const std::string& name : archive->names()) {
    const absl::StatusOr<Array> array = archive->Read(name, 0);
    if (array.ok()) {
      *report.add_arrays() = ReportArray(name, *array);
    } else {
      report.add_problems(std::string(array.status().message()));
    }
  }
  return absl::OkStatus();
}

// Of a JSON list of texts, as `ampctl data pack` writes it. Metadata is free: others may mean something else by it.
void AddClassNames(const std::map<std::string, std::string>& metadata, v1::DatasetFile& report) {
  const auto found = metadata.find("classes");
  const auto names = found == metadata.end() ? nlohmann::json() : nlohmann::json::parse(found->second, nullptr, false);
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
  AMPD_ASSIGN_OR_RETURN(const Tokens tokens, ReadTokens(file, format, 0, std::numeric_limits<int64_t>::max()));
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
      tokens);
  return absl::OkStatus();
}

absl::Status AddTexts(const DataFile& file, v1::DatasetFile& report) {
  AMPD_ASSIGN_OR_RETURN(std::vector<v1::DatasetArray> arrays, ReportTexts(file));
  for (v1::DatasetArray& array : arrays) {
    *report.add_arrays() = std::move(array);
  }
  return absl::OkStatus();
}

absl::Status AddArrays(const DataFile& file, const Glance& glance, v1::DatasetFile& report) {
  switch (report.format()) {
    case v1::DatasetFile::IDX:
      return AddIdx(file, glance, report);
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
    case v1::DatasetFile::JSONL:
      return AddTexts(file, report);
    case v1::DatasetFile::NPY: {
      AMPD_ASSIGN_OR_RETURN(const Array array, ReadNpy(file, 0));
      *report.add_arrays() = ReportArray("array", array);
      return absl::OkStatus();
    }
    default:
      AMPD_RETURN_IF_ERROR(glance.damage);
      return DataError(file.name,
                       absl::StrCat("of no format that is known by its content: it begins with \"",
                                    absl::CHexEscape(glance.begin), "\" and has ", glance.content_bytes, " bytes"));
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
    report.add_problems(std::string(added.message()));
  }
  return report;
}

absl::StatusOr<v1::DatasetFile> InspectFile(const DataFile& file) {
  AMPD_ASSIGN_OR_RETURN(const Glance glance, GlanceAt(file));
  v1::DatasetFile report;
  report.set_format(FormatOf(glance));
  report.set_size_bytes(glance.size_bytes);
  report.set_gzip(glance.gzip);
  const absl::Status added = AddArrays(file, glance, report);
  if (!added.ok() && report.format() == v1::DatasetFile::FORMAT_UNSPECIFIED) {
    return added;
  }
  if (!added.ok()) {
    report.add_problems(std::string(added.message()));
  }
  for (const v1::DatasetArray& array : report.arrays()) {
    if (array.num_not_finite() > 0) {
      report.add_problems(absl::StrCat(file.name, ": array \"", absl::CEscape(array.name()), "\" has ",
                                       array.num_not_finite(), " elements that are not finite"));
    }
  }
  return report;
}

}  // namespace ampd::data
