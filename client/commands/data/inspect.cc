#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ampd/v1/dataset_file.pb.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/commands/data/data.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"
#include "client/render/table.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"
#include "data/file_report.h"

namespace ampd::client {
namespace {

struct InspectDataOptions {
  std::string path;
  std::string format;  // format of a token file: llm_c, uint16 or uint32; empty: detected from the content
};

data::TokenFormat TokensNamed(const std::string& format) {
  return format == "uint16"   ? data::TokenFormat::kUint16
         : format == "uint32" ? data::TokenFormat::kUint32
                              : data::TokenFormat::kLlmC;
}

// Describes the file. The reader of data files follows no symbolic links, so this function resolves them first: people
// may use links on their own machine.
absl::StatusOr<v1::DatasetFile> Inspect(const InspectDataOptions& options) {
  const std::string& path = options.path;
  AMPD_RETURN_IF_ERROR(CheckInputFile(path));
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  }
  const data::DataFile file = {.root = real.parent_path(), .path = real.filename(), .name = path};
  auto report =
      options.format.empty() ? data::InspectFile(file) : data::InspectTokens(file, TokensNamed(options.format));
  if (report.ok()) {
    report->set_path(ValidUtf8(path));
  }
  return report;
}

std::string NumbersText(const google::protobuf::RepeatedField<double>& numbers) {
  return absl::StrJoin(numbers, ", ", [](std::string* out, double number) { out->append(FormatNumber(number)); });
}

// Returns the number of classes and of samples per class: "10, of 974 to 1032 samples".
std::string ClassesText(const v1::DatasetArray& array) {
  if (array.class_counts().empty()) {
    return "";
  }
  const auto [least, most] = std::minmax_element(array.class_counts().begin(), array.class_counts().end());
  return absl::StrCat(array.class_counts_size(), ", of ", FormatCount(*least),
                      *least == *most ? "" : absl::StrCat(" to ", FormatCount(*most)), " samples");
}

// Returns a line with the names of at most the first 20 classes: "classes: cat, dog". JSON and YAML have all names.
std::string ClassesLine(const v1::DatasetFile& file) {
  constexpr int kMost = 20;
  if (file.class_names().empty()) {
    return "";
  }
  const int num_shown = std::min(kMost, file.class_names_size());
  const std::vector<std::string> shown(file.class_names().begin(), file.class_names().begin() + num_shown);
  const int num_left = file.class_names_size() - num_shown;
  return absl::StrCat("classes: ", Printable(absl::StrJoin(shown, ", ")),
                      num_left > 0 ? absl::StrCat(" and ", num_left, " more") : "", "\n");
}

// Returns the range of the texts' lengths: "3 to 512 tokens, mean 118.4".
std::string LengthsText(const v1::LengthRange& lengths) {
  return absl::StrCat(FormatCount(lengths.min()),
                      lengths.min() == lengths.max() ? "" : absl::StrCat(" to ", FormatCount(lengths.max())),
                      lengths.max() == 1 ? " token" : " tokens", ", mean ", FormatNumber(lengths.mean()));
}

std::vector<std::string> Row(const v1::DatasetArray& array) {
  return {Printable(array.name()),
          array.dtype(),
          absl::StrCat("(", absl::StrJoin(array.shape(), ", "), ")"),
          array.has_min() ? absl::StrCat(FormatNumber(array.min()), " to ", FormatNumber(array.max())) : "",
          NumbersText(array.mean()),
          NumbersText(array.std()),
          ClassesText(array)};
}

// Returns a table with a row for each array. It has the column of lengths only if the file has texts.
std::string ArraysTable(const v1::DatasetFile& file, bool headings) {
  const bool has_texts = std::any_of(file.arrays().begin(), file.arrays().end(),
                                     [](const v1::DatasetArray& array) { return array.has_lengths(); });
  std::vector<std::string> heading = {"NAME", "DTYPE", "SHAPE", "RANGE", "MEAN", "STD", "CLASSES"};
  if (has_texts) {
    heading.emplace_back("LENGTHS");
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::DatasetArray& array : file.arrays()) {
    rows.push_back(Row(array));
    if (has_texts) {
      rows.back().push_back(array.has_lengths() ? LengthsText(array.lengths()) : "");
    }
  }
  return rows.empty() ? "" : RenderTable(heading, rows, headings, OutputWidth());
}

void PrintTable(const Session& session, const v1::DatasetFile& file) {
  WriteFormatted("%s: %s, %s%s\n", Printable(file.path()).c_str(), v1::DatasetFile::Format_Name(file.format()).c_str(),
                 FormatBytes(file.size_bytes()).c_str(), file.gzip() ? ", gzip" : "");
  WriteProse(ArraysTable(file, !session.options().no_headers));
  WriteProse(ClassesLine(file));
  for (const std::string& note : file.notes()) {
    WriteFormatted("note: %s\n", Printable(note).c_str());
  }
  for (const std::string& problem : file.problems()) {
    WriteColoured(absl::StrCat(session.palette().Red("problem:"), " ", Printable(problem), "\n"));
  }
}

// Shows what a file on this machine contains, without a server. The exit code is 1 if the file has problems.
int InspectData(Session* session, const InspectDataOptions& options) {
  const auto file = Inspect(options);
  if (!file.ok()) {
    const int exit_code = session->Fail(file.status());
    if (options.path.ends_with(".yaml") || options.path.ends_with(".yml")) {
      session->Note(absl::StrCat("  to check a job file: ", session->Command("job submit --dry-run -f "),
                                 ShellPath(Printable(options.path))));
    }
    if (absl::IsNotFound(file.status()) && !options.path.starts_with('/')) {
      session->Note(
          "  the file must be on this machine; a path in a job file begins with the name of a data root, which stands "
          "for a folder of the worker");
    }
    return exit_code;
  }
  if (!PrintStructured(*session, *file)) {
    PrintTable(*session, *file);
  }
  return file->problems().empty() ? kExitOk : kExitFailure;
}

}  // namespace

Command InspectDataCommand() {
  const auto options = std::make_shared<InspectDataOptions>();
  return {.name = "inspect",
          .help = "Show what is in a data set file on this machine, and its problems",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {{.name = "path",
                         .value = &options->path,
                         .text = "FILE",
                         .help = "Data file: IDX (MNIST), CIFAR, .npz or .npy, safetensors, tokens (of llm.c or "
                                 "nanoGPT) or JSON lines; the format is detected from the content",
                         .required = true,
                         .suggest = SuggestFiles,
                         .is_path = true},
                        {.name = "--format",
                         .value = &options->format,
                         .text = "FORMAT",
                         .help = "Format of a token file: llm_c, uint16 or uint32 (default: detected from the content)",
                         .choices = {"llm_c", "uint16", "uint32"}}},
          .run = [options](Session* session) { return InspectData(session, *options); }};
}

}  // namespace ampd::client
