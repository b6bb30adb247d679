#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/safetensors_json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "graph/exported/exported_constants.h"
#include "graph/exported/exported_inline.h"
#include "graph/exported/exported_json.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/exported_twin.h"
#include "graph/exported/json_cursor.h"

namespace ampd::graph {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "ampd.exported_model";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxPrograms = 16;
constexpr int kMaxDepth = 64;
constexpr char kTrain[] = "train";
constexpr char kEval[] = "eval";
constexpr char kTwin[] = "twin";
constexpr char kWeightsFolder[] = "data/weights/";
constexpr char kExportAgain[] = "; export the model again, or copy its file again";

// Whether the JSON is nested deeper than torch.export nests. Such JSON is refused before it is parsed.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) {
        return true;
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<json> Parse(std::string_view text) {
  auto parsed = IsTooDeep(text) ? absl::InvalidArgumentError("is too deep") : ParseJson(text);
  if (absl::IsAlreadyExists(parsed.status())) {
    return BadExport(absl::StrCat("the JSON ", parsed.status().message()));
  }
  return parsed.ok() ? std::move(parsed) : BadExport("the JSON is not sound");
}

// The files of one program, relative to the archive's folder.
struct ProgramFiles {
  std::string program, weights, constants;

  explicit ProgramFiles(const std::string& name)
      : program(absl::StrCat("models/", name, ".json")),
        weights(absl::StrCat("data/weights/", name, "_weights_config.json")),
        constants(absl::StrCat("data/constants/", name, "_constants_config.json")) {}
};

// The folder that holds all entries. Its name is arbitrary.
absl::StatusOr<std::string> FolderOf(const ZipArchive& archive) {
  constexpr absl::string_view kMark = "archive_format";
  for (const std::string& name : archive.names()) {
    absl::string_view folder = name;
    if (absl::ConsumeSuffix(&folder, kMark) && std::count(folder.begin(), folder.end(), '/') <= 1 &&
        (folder.empty() || folder.back() == '/')) {
      return std::string(folder);
    }
  }
  return BadExport("the archive is none of torch.export.save: it has no archive_format");
}

// Converts the archive's error about one entry to BAD_EXPORT. Returns UNAVAILABLE unchanged, because then the host
// can't read the file, and the file is not at fault.
absl::Status EntryError(const std::string& name, const absl::Status& error) {
  return absl::IsUnavailable(error) ? error : BadExport(absl::StrCat(name, ": ", error.message()));
}

// Reads an entry as text. Returns RESOURCE_EXHAUSTED if the text is longer than `max_bytes`. If `max_bytes` is not
// below kMaxExportedJsonBytes, that constant is the limit instead, and the error is BAD_EXPORT.
absl::StatusOr<std::string> ReadText(const ZipArchive& archive, const std::string& folder, const std::string& name,
                                     int64_t max_bytes = kMaxExportedJsonBytes) {
  const auto index = archive.Find(folder + name);
  if (!index.has_value()) {
    return BadExport(absl::StrCat("the archive has no ", name));
  }
  auto content = archive.ReadEntry(*index, std::min(max_bytes, kMaxExportedJsonBytes));
  const bool is_too_much_here = absl::IsResourceExhausted(content.status()) && max_bytes < kMaxExportedJsonBytes;
  return content.ok() || is_too_much_here ? content : EntryError(name, content.status());
}

absl::Status CheckFormat(const ZipArchive& archive, const std::string& folder) {
  for (const auto& [name, wanted] :
       {std::pair("archive_format", "pt2"), {"archive_version", "0"}, {"byteorder", "little"}}) {
    AMPD_ASSIGN_OR_RETURN(const std::string content, ReadText(archive, folder, name));
    if (content != wanted) {
      return BadExport(absl::StrCat(name, " is \"", content.substr(0, 20), "\"; this build reads \"", wanted, "\""));
    }
  }
  return absl::OkStatus();
}

// Names of the programs in an archive.
std::vector<std::string> ProgramsOf(const ZipArchive& archive, const std::string& folder) {
  std::vector<std::string> programs;
  for (absl::string_view name : archive.names()) {
    if (absl::ConsumePrefix(&name, folder) && absl::ConsumePrefix(&name, "models/") &&
        absl::ConsumeSuffix(&name, ".json")) {
      programs.emplace_back(name);
    }
  }
  return programs;
}

// The training program's name: the only program, or "train".
absl::StatusOr<std::string> TrainingProgram(const std::vector<std::string>& programs) {
  if (programs.empty()) {
    return BadExport("the archive has no program, no models/*.json");
  }
  if (programs.size() == 1) {
    return programs[0];
  }
  if (programs.size() > kMaxPrograms || std::find(programs.begin(), programs.end(), kTrain) == programs.end()) {
    return BadExport(absl::StrCat("the archive has ", programs.size(),
                                  " programs; of several, that for training is called \"train\""));
  }
  return std::string(kTrain);
}

bool HasShape(const StoredTensor& stored, const ExportedTensor& tensor) {
  return stored.dtype == tensor.dtype && std::equal(stored.sizes.begin(), stored.sizes.end(), tensor.sizes.begin(),
                                                    tensor.sizes.end(), [](int64_t size, const ExportedSize& other) {
                                                      return other == ExportedSize{size, "", ""};
                                                    });
}

// Checks that a program's inputs exist, and that its state is in the file.
absl::Status CheckInputs(const ExportedProgram& program, const std::map<std::string, StoredTensor>& state) {
  std::set<std::string> tensors;
  for (const ExportedInput& input : program.inputs) {
    const auto tensor = program.graph.tensors.find(input.tensor);
    if (tensor == program.graph.tensors.end() || !tensors.insert(input.tensor).second) {
      return BadExport(absl::StrCat("the input ", input.tensor, " has no type, or is there twice"));
    }
    const bool is_state = input.kind != ExportedInput::Kind::kUser;
    const auto stored = state.find(input.name);
    if (is_state && (stored == state.end() || !HasShape(stored->second, tensor->second))) {
      return BadExport(
          absl::StrCat("the tensor ", input.name, " is ",
                       stored == state.end() ? "missing" : "of another shape or dtype than its program says"));
    }
  }
  const std::set<std::string> given(program.graph.inputs.begin(), program.graph.inputs.end());
  return given == tensors ? absl::OkStatus() : BadExport("the inputs of the program are not those of its signature");
}

// Checks a program against the file's state, inlines its nested graphs, and marks the dtypes that the bfloat16 twin
// lists (graph/exported/exported_twin.h).
absl::Status Finish(ExportedProgram& program, const std::map<std::string, StoredTensor>& state,
                    const TwinTensors& twin) {
  AMPD_RETURN_IF_ERROR(CheckInputs(program, state));
  AMPD_ASSIGN_OR_RETURN(program.graph, WithoutNestedGraphs(program.graph));
  return MarkNamedDtypes(twin, program.graph);
}

}  // namespace

absl::Status BadExport(const std::string& message) {
  constexpr size_t kMaxBytes = 400;
  const std::string piece = Shortened(message, kMaxBytes);
  return Error(absl::StatusCode::kInvalidArgument, "BAD_EXPORT",
               IsUtf8(piece) && !HasControl(piece) ? piece : absl::CHexEscape(piece));
}

SavedNames SavedNamesOf(const std::map<std::string, StoredTensor>& stored, const std::set<std::string>& of_graph) {
  SavedNames names;
  for (const auto& [name, tensor] : stored) {
    const bool is_saved = tensor.entry.starts_with(kWeightsFolder);
    if (of_graph.contains(name)) {
      if (!is_saved) {
        names.left_out.insert(name);
      }
      continue;
    }
    const auto kept = std::find_if(of_graph.begin(), of_graph.end(), [&, &wanted = tensor](const std::string& other) {
      const auto found = stored.find(other);
      return found != stored.end() && found->second == wanted;
    });
    if (is_saved && kept != of_graph.end()) {
      names.tied[name] = *kept;
    }
  }
  return names;
}

int64_t ReachOf(const StoredTensor& tensor) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) {
      return 0;
    }
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return last + 1;
}

absl::StatusOr<ExportedModel> ParseExportedModel(std::string text) {
  AMPD_ASSIGN_OR_RETURN(const json parsed, Parse(text));
  absl::Status status;
  const JsonCursor root(parsed, status);
  ExportedModel model;
  if (root["format"].Text() != kFormat || root["version"].Integer() != kVersion) {
    root["format"].Fail(absl::StrCat("is not ", kFormat, ", version ", kVersion));
  }
  ReadStoredTensors(root["weights"], kWeightsFolder, model.state);
  ReadStoredTensors(root[kConstants], kConstantsFolder, model.state);
  const JsonCursor programs = root["programs"];
  model.train = ReadProgram(programs[kTrain]);
  if (programs.Has(kEval)) {
    model.eval = ReadProgram(programs[kEval]);
    if (root.Has(kEvalConstants)) {
      UseOwnConstants(root[kEvalConstants], model);
    }
  }
  TwinTensors train_twin, eval_twin;
  if (root.Has(kTwin)) {
    train_twin = ReadTwin(root[kTwin], kTrain);
    eval_twin = model.eval.has_value() ? ReadTwin(root[kTwin], kEval) : eval_twin;
  }
  if (!status.ok()) {
    return BadExport(std::string(status.message()));
  }
  AMPD_RETURN_IF_ERROR(Finish(model.train, model.state, train_twin));
  if (model.eval.has_value()) {
    AMPD_RETURN_IF_ERROR(Finish(*model.eval, model.state, eval_twin));
  }
  model.json = std::move(text);
  return model;
}

namespace {

// Returns an error if all tensors together have more bytes than allowed, or if one tensor reads more bytes of its entry
// than allowed. Allowed are kFreeStoredBytes or, if that is more, kMaxUnpacking times `archive_bytes`. So a small
// archive cannot fill a worker's memory.
absl::Status CheckStoredBytes(const ExportedModel& model, int64_t archive_bytes) {
  const int64_t most = std::max(kFreeStoredBytes, archive_bytes * kMaxUnpacking);
  int64_t total = 0;
  for (const auto& [name, tensor] : model.state) {
    const int64_t item_bytes = ItemSizeBytes(tensor.dtype);
    int64_t elements = 1;
    for (const int64_t size : tensor.sizes) {
      elements *= size;
    }
    total += elements * item_bytes;
    if (total > most || ReachOf(tensor) * item_bytes > most) {
      return BadExport(absl::StrCat("its tensors unpack to more than ", most, " bytes, the archive has ", archive_bytes,
                                    "; export it again, torch.export does not pack them"));
    }
  }
  return absl::OkStatus();
}

// Checks that every tensor has its content. REQUIRES: CheckStoredBytes returned OK.
absl::Status CheckContent(const ZipArchive& archive, const std::string& folder, const ExportedModel& model) {
  std::map<std::string_view, size_t> entries;
  for (size_t i = 0; i < archive.names().size(); ++i) {
    entries.emplace(archive.names()[i], i);
  }
  for (const auto& [name, tensor] : model.state) {
    const int64_t needed = ReachOf(tensor) * ItemSizeBytes(tensor.dtype);
    const auto entry = entries.find(folder + tensor.entry);
    if (needed == 0) {
      continue;
    }
    if (entry == entries.end()) {
      return BadExport(absl::StrCat("the archive has no ", tensor.entry, ", the content of ", name, kExportAgain));
    }
    const auto size = archive.SizeUpTo(entry->second, needed);
    if (!size.ok()) {
      return EntryError(tensor.entry, size.status());
    }
    if (*size < needed) {
      return BadExport(absl::StrCat(tensor.entry, " has ", *size, " bytes; ", name,
                                    ", whose content it is, reaches to ", needed, kExportAgain));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExportedModel> ReadExportedModel(const ZipArchive& archive, int64_t max_json_bytes) {
  AMPD_ASSIGN_OR_RETURN(const std::string folder, FolderOf(archive));
  AMPD_RETURN_IF_ERROR(CheckFormat(archive, folder));
  const std::vector<std::string> programs = ProgramsOf(archive, folder);
  AMPD_ASSIGN_OR_RETURN(const std::string train, TrainingProgram(programs));
  const ProgramFiles files(train);
  std::vector<std::pair<std::string, std::string>> parts = {
      {"weights", files.weights}, {kConstants, files.constants}, {kTrain, files.program}};
  if (programs.size() > 1 && std::find(programs.begin(), programs.end(), kEval) != programs.end()) {
    parts.emplace_back(kEval, ProgramFiles(kEval).program);
    parts.emplace_back(kEvalConstants, ProgramFiles(kEval).constants);
  }
  if (archive.Find(folder + kTwinFile).has_value()) {
    parts.emplace_back(kTwin, kTwinFile);
  }
  std::map<std::string, std::string> texts;
  for (const auto& [part, file] : parts) {
    AMPD_ASSIGN_OR_RETURN(texts[part], ReadText(archive, folder, file, max_json_bytes));
    max_json_bytes -= static_cast<int64_t>(texts[part].size());
    // Each file is parsed alone before its text is inserted into the model's JSON. Otherwise the text could close the
    // JSON value that holds it and add further members.
    const auto parsed = Parse(texts[part]);
    if (!parsed.ok()) {
      return BadExport(absl::StrCat(file, ": ", parsed.status().message()));
    }
  }
  if (texts.contains(kEvalConstants)) {
    AMPD_ASSIGN_OR_RETURN(texts[kEvalConstants], OwnConstants(archive, texts[kConstants], texts[kEvalConstants]));
  }
  const auto member = [&texts](const char* part) {
    return !texts[part].empty() ? absl::StrCat(", \"", part, "\": ", texts[part]) : "";
  };
  AMPD_ASSIGN_OR_RETURN(ExportedModel model,
                        ParseExportedModel(absl::StrCat("{\"format\": \"", kFormat, "\", \"version\": ", kVersion,
                                                        member("weights"), member(kConstants), member(kEvalConstants),
                                                        ", \"programs\": {\"train\": ", texts[kTrain], member(kEval),
                                                        "}", member(kTwin), "}")));
  AMPD_RETURN_IF_ERROR(CheckStoredBytes(model, archive.size_bytes()));
  AMPD_RETURN_IF_ERROR(CheckContent(archive, folder, model));
  return model;
}

absl::StatusOr<std::string> ReadStored(const ZipArchive& archive, const StoredTensor& tensor) {
  AMPD_ASSIGN_OR_RETURN(const std::string folder, FolderOf(archive));
  const auto index = archive.Find(folder + tensor.entry);
  const int64_t needed = ReachOf(tensor) * ItemSizeBytes(tensor.dtype);
  if (!index.has_value()) {
    return needed == 0 ? absl::StatusOr<std::string>("") : BadExport(absl::StrCat("the archive has no ", tensor.entry));
  }
  // Reads only the bytes that the tensor needs. The rest of the entry may unpack to any size.
  auto content = archive.ReadStart(*index, needed);
  if (!content.ok()) {
    return EntryError(tensor.entry, content.status());
  }
  if (static_cast<int64_t>(content->size()) < needed) {
    return BadExport(absl::StrCat(tensor.entry, " has ", content->size(), " bytes; its tensor reaches to ", needed));
  }
  return content;
}

absl::Status VerifyContent(const ZipArchive& archive, const ExportedModel& model) {
  AMPD_ASSIGN_OR_RETURN(const std::string folder, FolderOf(archive));
  std::map<std::string, int64_t> needed;  // Bytes needed of each entry.
  for (const auto& [name, tensor] : model.state) {
    int64_t& num_bytes = needed[tensor.entry];
    num_bytes = std::max(num_bytes, ReachOf(tensor) * ItemSizeBytes(tensor.dtype));
  }
  std::vector<uint8_t> chunk(size_t{1} << 20);
  for (const auto& [name, num_bytes] : needed) {
    const auto index = archive.Find(folder + name);
    if (!index.has_value()) {
      continue;  // The tensors of this entry are empty.
    }
    AMPD_ASSIGN_OR_RETURN(ZipEntry entry, archive.OpenEntry(*index));
    // Reads one byte more than needed, because the checksum is verified at the end of an entry.
    for (int64_t left = num_bytes + 1; left > 0;) {
      const size_t wanted = std::min(chunk.size(), static_cast<size_t>(left));
      const auto count = entry.Read(chunk.data(), wanted);
      if (!count.ok()) {
        return EntryError(name, count.status());
      }
      left = *count < wanted ? 0 : left - static_cast<int64_t>(*count);
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::graph
