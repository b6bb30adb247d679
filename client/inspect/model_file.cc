#include "client/inspect/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/zip_archive.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/inspect/module_tree.h"
#include "client/inspect/policy_effect.h"
#include "graph/exported/exported_constants.h"
#include "graph/exported/exported_ops.h"
#include "graph/exported/exported_types.h"
#include "graph/exported/import.h"

namespace ampd::client {
namespace {

using graph::ExportedInput;
using graph::ExportedModel;
using graph::ExportedProgram;
using graph::ExportedSize;
using v1::ModelTensor;
using Kind = ExportedInput::Kind;
using Programs = absl::StatusOr<graph::ImportedPrograms>;

// The names of model inputs for which datasets have a field of the same meaning. An input with any other name reads the
// array of that name in a data file.
constexpr std::string_view kFields[] = {"images", "input_ids", "attention_mask", "token_type_ids"};

// Returns the symbol of the batch size, which is the first dimension of the first input.
std::string BatchOf(const ExportedProgram& program) {
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == Kind::kUser) {
      const std::vector<ExportedSize>& sizes = program.graph.tensors.at(input.tensor).sizes;
      return sizes.empty() ? "" : sizes[0].symbol;
    }
  }
  return "";
}

// Returns a size as text: "B", "4*B", "28". B is the batch size. A size that the import would reject is shown as the
// file has it.
std::string SizeText(const ExportedSize& size, const std::string& batch) {
  if (size.symbol.empty()) {
    return size.unknown.empty() ? absl::StrCat(size.factor) : size.unknown;
  }
  const std::string symbol = size.symbol == batch ? "B" : size.symbol;
  return size.factor == 1 ? symbol : absl::StrCat(size.factor, "*", symbol);
}

template <typename Message>
void SetType(const ExportedProgram& program, const std::string& tensor, Message* message) {
  const auto type = program.graph.tensors.find(tensor);
  if (type == program.graph.tensors.end()) {
    return;
  }
  message->set_dtype(std::string(graph::DtypeName(type->second.dtype)));
  const std::string batch = BatchOf(program);
  for (const ExportedSize& size : type->second.sizes) {
    message->add_shape(SizeText(size, batch));
  }
}

// Counts the program's nodes, the nodes whose dtype the model requests (kMeant), and the nodes whose dtype only follows
// the dtype of another tensor (kFollows).
void CountNodes(const ExportedProgram& program, v1::ModelProgram* counts) {
  const auto count = [&program](graph::NamedDtype dtype) {
    return static_cast<int>(
        std::count_if(program.graph.nodes.begin(), program.graph.nodes.end(),
                      [dtype](const graph::ExportedNode& node) { return node.named_dtype == dtype; }));
  };
  counts->set_num_nodes(static_cast<int>(program.graph.nodes.size()));
  counts->set_num_meant(count(graph::NamedDtype::kMeant));
  counts->set_num_following(count(graph::NamedDtype::kFollows));
}

void AddPrograms(const ExportedModel& model, const Programs& programs, v1::ModelFile* file) {
  v1::ModelProgram& train = *file->add_programs();
  train.set_name("train");
  CountNodes(model.train, &train);
  v1::ModelProgram& eval = *file->add_programs();
  eval.set_name("eval");
  eval.set_derived(!model.eval.has_value());
  if (model.eval.has_value()) {
    CountNodes(*model.eval, &eval);
  }
  if (programs.ok()) {
    train.set_num_ops(static_cast<int>(programs->train.nodes().size()));
    eval.set_num_ops(static_cast<int>(programs->eval.nodes().size()));
  }
}

bool IsKnownField(const std::string& name, const ModelQuestion& question) {
  return std::find(std::begin(kFields), std::end(kFields), name) != std::end(kFields) ||
         (name == "labels" && question.head == graph::Head::kOwnLoss) ||
         (name == "noise" && question.head == graph::Head::kGan);
}

void AddInputs(const ExportedProgram& program, const ModelQuestion& question, v1::ModelFile* file) {
  for (const ExportedInput& input : program.inputs) {
    if (input.kind != Kind::kUser) {
      continue;
    }
    v1::ModelInput& added = *file->add_inputs();
    added.set_name(input.tensor);
    SetType(program, input.tensor, &added);
    const std::string field = graph::InputNameOf(program, input, {});
    if (IsKnownField(field, question)) {
      added.set_field(field);
    } else if (field != "labels") {  // "labels" without such a head is a problem, not a warning
      added.set_field(field);
      file->add_warnings(absl::StrCat("the input ", input.tensor,
                                      " reads the array of that name in an npz or safetensors file; for other data "
                                      "model.exported.inputs must name the field that it reads"));
    }
  }
}

// Returns the head for the output: `wanted` if it accepts the output, otherwise the head that the output's type
// implies.
v1::ExportedModelSpec::Head HeadOf(const absl::StatusOr<graph::ExportedTypes>& types, const std::string& tensor,
                                   std::optional<graph::Head> wanted) {
  auto head = v1::ExportedModelSpec::HEAD_UNSPECIFIED;
  if (const auto type = types.ok() ? types->TypeOf(tensor) : types.status(); type.ok()) {
    const bool takes = wanted.has_value() && graph::Takes(*wanted, *type);
    const auto chosen = takes ? wanted : graph::HeadOf(*type);
    v1::ExportedModelSpec::Head_Parse(chosen.has_value() ? std::string(graph::HeadName(*chosen)) : "", &head);
  }
  return head;
}

bool IsSelected(int index, const ModelQuestion& question) {
  const auto num_selected =
      static_cast<int>(graph::OutputNamesOf(question.head.value_or(graph::Head::kClassification)).size());
  return index >= question.output && index < question.output + num_selected;
}

void AddOutputs(const ExportedProgram& program, const ModelQuestion& question, v1::ModelFile* file) {
  const absl::StatusOr<graph::ExportedTypes> types = graph::ExportedTypes::Of(program, question.sequence_length);
  for (size_t i = 0; i < program.graph.outputs.size(); ++i) {
    v1::ModelOutput& output = *file->add_outputs();
    output.set_index(static_cast<int>(i));
    if (const auto& tensor = program.graph.outputs[i]; tensor.has_value()) {
      SetType(program, *tensor, &output);
      output.set_taken(IsSelected(output.index(), question));
      output.set_head(HeadOf(types, *tensor, output.taken() ? question.head : std::nullopt));
    }
  }
}

ModelTensor::Kind KindOf(Kind kind) {
  return kind == Kind::kParameter ? ModelTensor::PARAMETER
         : kind == Kind::kBuffer  ? ModelTensor::BUFFER
                                  : ModelTensor::CONSTANT;
}

// Determines the role of each tensor of the model's state: what training does with the tensor.
class Roles {
 public:
  Roles(const ExportedModel& model, const Programs& programs)
      : model_(model),
        counters_(graph::CountersOf(model.train)),
        norm_counters_(graph::NormCountersOf(model.train)),
        is_imported_(programs.ok()) {
    if (is_imported_) {
      for (const graph::State& parameter : programs->train.parameters()) {
        trained_.insert(parameter.name);
      }
    }
  }

  // Sets the role of `tensor`, which the program reads through `input`. Call it in the order of the program's inputs.
  void Set(const ExportedInput& input, ModelTensor* tensor) {
    if (input.kind != Kind::kParameter) {
      const bool is_kept = !counters_.contains(input.tensor) || norm_counters_.contains(input.name);
      tensor->set_role(is_kept ? ModelTensor::KEPT : ModelTensor::LEFT_OUT);
      return;
    }
    const graph::StoredTensor& stored = model_.state.at(input.name);
    const auto tied = std::find_if(placed_.begin(), placed_.end(), [&](const auto& o) { return *o.first == stored; });
    if (tied != placed_.end()) {
      tensor->set_role(ModelTensor::TIED);
      tensor->set_tied_to(tied->second);
      return;
    }
    placed_.emplace_back(&stored, input.name);
    const bool requires_grad = model_.train.graph.tensors.at(input.tensor).requires_grad;
    const bool is_unused = is_imported_ && !trained_.contains(input.name);
    tensor->set_role(!requires_grad ? ModelTensor::FROZEN : is_unused ? ModelTensor::UNUSED : ModelTensor::TRAINED);
  }

 private:
  const ExportedModel& model_;
  const std::set<std::string> counters_;
  const std::map<std::string, std::string> norm_counters_;
  const bool is_imported_;
  std::set<std::string> trained_;
  std::vector<std::pair<const graph::StoredTensor*, std::string>> placed_;  // each parameter seen so far and its name
};

ModelTensor& AddTensor(const ExportedModel& model, const ExportedInput& input, v1::ModelFile* file) {
  const graph::StoredTensor& stored = model.state.at(input.name);
  ModelTensor& tensor = *file->add_tensors();
  tensor.set_name(input.name);
  tensor.set_kind(KindOf(input.kind));
  tensor.set_dtype(std::string(graph::DtypeName(stored.dtype)));
  int64_t size_bytes = ItemSizeBytes(stored.dtype);
  for (const int64_t size : stored.sizes) {
    tensor.add_shape(size);
    size_bytes *= size;
  }
  tensor.set_size_bytes(size_bytes);
  return tensor;
}

void AddTensors(const ExportedModel& model, const Programs& programs, v1::ModelFile* file) {
  Roles roles(model, programs);
  for (const ExportedInput& input : model.train.inputs) {
    if (input.kind == Kind::kUser) {
      continue;
    }
    roles.Set(input, &AddTensor(model, input, file));
  }
  for (const ExportedInput& input : graph::ConstantsOfEvaluation(model)) {
    AddTensor(model, input, file).set_role(ModelTensor::KEPT);
  }
}

// Adds the reasons for which a job would reject the file. They name every op that a model may not use; the trainer's
// error for such a file names only the first.
void AddProblems(const ExportedModel& model, const absl::Status& status, v1::ModelFile* file) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& problem) {
    if (seen.insert(problem).second) {
      file->add_problems(problem);
    }
  };
  add(std::string(status.message()));
  if (ReasonOf(status) != "UNKNOWN_OP") {
    return;
  }
  for (const ExportedProgram* const program : {&model.train, model.eval.has_value() ? &*model.eval : nullptr}) {
    for (const std::string& refusal : program == nullptr ? std::vector<std::string>() : graph::RefusedOps(*program)) {
      add(refusal);
    }
  }
}

// Opens a file that torch.export may have written: a regular file that begins as a ZIP archive.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  constexpr std::string_view kStart = "PK\x03\x04";
  // Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found = {};
  if (!file.ok() || fstat(file.get(), &found) != 0) {
    return ErrnoError(errno, path);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, S_ISDIR(found.st_mode) ? " is a folder; name a file" : " is not a regular file"));
  }
  std::string start(kStart.size(), '\0');
  if (pread(file.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()) || start != kStart) {
    return absl::DataLossError(absl::StrCat(path, " is not a torch.export file (.pt2), which is a ZIP archive"));
  }
  return file;
}

absl::StatusOr<ExportedModel> ReadModel(UniqueFd file) {
  AMPD_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(std::move(file), graph::kMaxExportedEntries));
  AMPD_ASSIGN_OR_RETURN(ExportedModel model, graph::ReadExportedModel(archive));
  AMPD_RETURN_IF_ERROR(graph::VerifyContent(archive, model));
  return model;
}

// Converts an error of a local file. The code of the result is never UNAVAILABLE, because ampctl would then report that
// the server can't be reached.
absl::Status FileError(const std::string& path, const absl::Status& error) {
  const std::string message = absl::StrCat(path, ": ", error.message());
  return absl::IsUnavailable(error) ? absl::InternalError(message) : absl::DataLossError(message);
}

}  // namespace

v1::ModelFile DescribeModel(const ExportedModel& model, const ModelQuestion& question) {
  const Programs programs = graph::ImportPrograms(
      model,
      {.output = question.output, .head = question.head, .inputs = {}, .sequence_length = question.sequence_length});
  v1::ModelFile file;
  AddPrograms(model, programs, &file);
  AddInputs(model.train, question, &file);
  AddOutputs(model.train, question, &file);
  AddTensors(model, programs, &file);
  AddModules(model, &file);
  AddOps(model, &file);
  if (!programs.ok()) {
    AddProblems(model, programs.status(), &file);
    return file;
  }
  file.mutable_warnings()->Add(programs->warnings.begin(), programs->warnings.end());
  AddPolicies(*programs, question, &file);
  return file;
}

absl::StatusOr<v1::ModelFile> InspectModelFile(const std::string& path, const ModelQuestion& question) {
  AMPD_ASSIGN_OR_RETURN(UniqueFd opened, OpenFile(path));
  const auto model = ReadModel(std::move(opened));
  if (!model.ok()) {
    return FileError(path, model.status());
  }
  v1::ModelFile file = DescribeModel(*model, question);
  file.set_path(ValidUtf8(path));
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  file.set_size_bytes(error ? 0 : static_cast<int64_t>(size));
  return file;
}

}  // namespace ampd::client
