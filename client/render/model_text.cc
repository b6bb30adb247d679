#include "client/render/model_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/table.h"

namespace ampd::client {
namespace {

using google::protobuf::RepeatedPtrField;
using v1::ModelTensor;
using v1::OpRule;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kNamesShown = 3;

std::string Table(const std::vector<std::string>& heading, const Rows& rows, const ModelTextOptions& options) {
  return rows.empty() ? "" : absl::StrCat("\n", RenderTable(heading, rows, options.headings, options.width));
}

std::string ShapeText(const RepeatedPtrField<std::string>& shape) {
  return Printable(absl::StrCat("(", absl::StrJoin(shape, ", "), ")"));
}

// Returns the class name without its Python module: "Conv2d" for "torch.nn.modules.conv.Conv2d".
std::string TypeText(const std::string& type) { return Printable(type.substr(type.rfind('.') + 1)); }

// Returns the names as one text. Unless `all` is set, it has only the first names: "a, b, c and 5 more".
std::string NamesText(const std::vector<std::string>& names, bool all) {
  const size_t shown = all ? names.size() : std::min(names.size(), kNamesShown);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ");
  return Printable(shown == names.size() ? text : absl::StrCat(text, " and ", names.size() - shown, " more"));
}

// Returns a remark about a program. The table shows it after the program's numbers.
std::string NoteOn(const v1::ModelProgram& program) {
  if (program.derived()) {
    return "this program is not in the file; it is derived from the training program, has no dropout, and uses "
           "running statistics in its norms";
  }
  return program.num_meant() + program.num_following() == 0
             ? ""
             : absl::StrCat("nodes that the model explicitly runs in float32: ", FormatCount(program.num_meant()),
                            "; nodes that follow the model's dtype: ", FormatCount(program.num_following()),
                            " (both found by comparing the model with a copy exported in bfloat16)");
}

std::string ProgramsText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelProgram& program : file.programs()) {
    rows.push_back({program.name(), program.derived() ? "" : FormatCount(program.num_nodes()),
                    program.num_ops() == 0 ? "" : FormatCount(program.num_ops()), NoteOn(program)});
  }
  return Table({"PROGRAM", "NODES", "OPS", ""}, rows, options);
}

std::string InputsText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelInput& input : file.inputs()) {
    rows.push_back({Printable(input.name()), input.dtype(), ShapeText(input.shape()), input.field()});
  }
  return Table({"INPUT", "DTYPE", "SHAPE", "TAKES"}, rows, options);
}

std::string HeadText(const v1::ModelOutput& output) {
  switch (output.head()) {
    case v1::ExportedModelSpec::CLASSIFICATION:
      return "classification";
    case v1::ExportedModelSpec::LANGUAGE_MODEL:
      return "language_model";
    case v1::ExportedModelSpec::REGRESSION:
      return "regression";
    case v1::ExportedModelSpec::MULTI_LABEL:
      return "multi_label";
    case v1::ExportedModelSpec::OWN_LOSS:
      return "own_loss";
    case v1::ExportedModelSpec::GAN:
      return "gan";
    default:
      return "none";
  }
}

std::string ReadAsText(const v1::ModelOutput& output) {
  if (!output.taken()) {
    return "";
  }
  const bool is_loss = output.head() == v1::ExportedModelSpec::OWN_LOSS || output.head() == v1::ExportedModelSpec::GAN;
  const bool are_numbers = output.head() == v1::ExportedModelSpec::REGRESSION;
  return absl::StrCat("this output is used as the ", is_loss ? "loss" : are_numbers ? "predictions" : "logits");
}

std::string OutputsText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelOutput& output : file.outputs()) {
    rows.push_back({absl::StrCat(output.index()), output.dtype(),
                    output.dtype().empty() ? "" : ShapeText(output.shape()), HeadText(output), ReadAsText(output)});
  }
  return Table({"OUTPUT", "DTYPE", "SHAPE", "HEAD", ""}, rows, options);
}

int64_t NumbersIn(const ModelTensor& tensor) {
  int64_t numbers = 1;
  for (const int64_t size : tensor.shape()) {
    numbers *= size;
  }
  return numbers;
}

std::string RoleText(ModelTensor::Role role) {
  switch (role) {
    case ModelTensor::TRAINED:
      return "trained";
    case ModelTensor::FROZEN:
      return "frozen";
    case ModelTensor::UNUSED:
      return "unused";
    case ModelTensor::TIED:
      return "tied";
    case ModelTensor::KEPT:
      return "buffers";
    case ModelTensor::LEFT_OUT:
      return "left out";
    default:
      return "";
  }
}

// Returns one line per role that tensors have, with the tensors' names where they help.
std::string TensorsText(const v1::ModelFile& file, const ModelTextOptions& options) {
  struct Total {
    int64_t num_tensors = 0;
    int64_t numbers = 0;
    int64_t bytes = 0;
    std::vector<std::string> names;
  };
  std::map<ModelTensor::Role, Total> totals;
  for (const ModelTensor& tensor : file.tensors()) {
    Total& total = totals[tensor.role()];
    ++total.num_tensors;
    total.numbers += NumbersIn(tensor);
    total.bytes += tensor.size_bytes();
    total.names.push_back(tensor.tied_to().empty() ? tensor.name()
                                                   : absl::StrCat(tensor.name(), " = ", tensor.tied_to()));
  }
  Rows rows;
  for (const auto& [role, total] : totals) {
    const bool is_usual = role == ModelTensor::TRAINED || role == ModelTensor::KEPT || role == ModelTensor::LEFT_OUT;
    rows.push_back({RoleText(role), FormatCount(total.num_tensors), FormatCount(total.numbers),
                    FormatBytes(total.bytes), is_usual ? "" : NamesText(total.names, false)});
  }
  return Table({"TENSORS", "COUNT", "NUMBERS", "SIZE", ""}, rows, options);
}

std::string EveryTensorText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const ModelTensor& tensor : file.tensors()) {
    const std::string role = tensor.role() == ModelTensor::KEPT ? "buffer" : RoleText(tensor.role());
    rows.push_back({Printable(tensor.name()), tensor.dtype(),
                    absl::StrCat("(", absl::StrJoin(tensor.shape(), ", "), ")"), FormatBytes(tensor.size_bytes()),
                    Printable(tensor.tied_to().empty() ? role : absl::StrCat(role, " to ", tensor.tied_to()))});
  }
  return Table({"TENSOR", "DTYPE", "SHAPE", "SIZE", "ROLE"}, rows, options);
}

// Returns how many modules contain `module`; 0 for the model itself.
int LevelOf(const v1::ModelModule& module) {
  const std::string& path = module.path();
  return path.empty() ? 0 : 1 + static_cast<int>(std::count(path.begin(), path.end(), '.'));
}

std::string ModulesText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelModule& module : file.modules()) {
    const int level = LevelOf(module);
    if (level > kShownModuleLevels && !options.wide) {
      continue;
    }
    const std::string& path = module.path();
    const std::string name = path.empty() ? "(the model)" : Printable(path.substr(path.rfind('.') + 1));
    rows.push_back({std::string(static_cast<size_t>(2 * level), ' ') + name, TypeText(module.type()),
                    FormatCount(module.num_parameters()), FormatCount(module.num_ops())});
  }
  return Table({"MODULE", "TYPE", "PARAMETERS", "OPS"}, rows, options);
}

std::string OpsText(const v1::ModelFile& file, const ModelTextOptions& options) {
  const bool has_eval = file.programs_size() > 1 && !file.programs(1).derived();
  Rows rows;
  for (const v1::ModelOp& op : file.ops()) {
    const std::string fate = op.fate() == v1::ModelOp::RUNS   ? OpRule::Class_Name(op.policy())
                             : op.fate() == v1::ModelOp::GONE ? "left out"
                                                              : options.palette.Red("refused");
    rows.push_back(
        {Printable(op.op()), FormatCount(op.num_train()), has_eval ? FormatCount(op.num_eval()) : "-", fate});
  }
  return Table({"OP", "TRAIN", "EVAL", "POLICIES"}, rows, options);
}

// Returns the number of ops of one class. For matrix products, returns one number for each dtype: "21 bfloat16, 2
// float8_e4m3fn".
std::string ShareText(const v1::ModelPolicy& policy, OpRule::Class op_class) {
  std::vector<std::string> parts;
  for (const v1::ModelPolicy::Share& share : policy.shares()) {
    if (share.policy() == op_class) {
      parts.push_back(absl::StrCat(share.num_ops(), share.dtype().empty() ? "" : " ", share.dtype(),
                                   share.emulated() ? " emulated" : ""));
    }
  }
  return parts.empty() ? "0" : absl::StrJoin(parts, ", ");
}

// Returns how many parameters are stored in each dtype: "60 bfloat16, 2 float32".
std::string StoredText(const v1::PolicyTable& table) {
  std::map<std::string, int> counts;
  for (const v1::PolicyTable::Parameter& parameter : table.parameters()) {
    ++counts[parameter.dtype()];
  }
  return absl::StrJoin(
      counts, ", ", [](std::string* out, const auto& count) { absl::StrAppend(out, count.second, " ", count.first); });
}

std::string LossScaleText(const v1::LossScale& scale) {
  if (scale.has_fixed()) {
    return FormatNumber(scale.fixed().scale());
  }
  return scale.has_dynamic() ? absl::StrCat("dynamic from ", FormatNumber(scale.dynamic().initial())) : "off";
}

std::string PoliciesText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelPolicy& policy : file.policies()) {
    if (!policy.problem().empty()) {
      continue;
    }
    rows.push_back({policy.preset(), ShareText(policy, OpRule::lower), ShareText(policy, OpRule::fp32),
                    ShareText(policy, OpRule::promote), ShareText(policy, OpRule::as_input), StoredText(policy.table()),
                    LossScaleText(policy.table().policy().loss_scale()),
                    policy.has_memory() ? FormatBytes(policy.memory().total_bytes()) : ""});
  }
  return Table({"POLICY", "LOWER", "FP32", "PROMOTE", "AS INPUT", "PARAMETERS", "LOSS SCALE",
                options.batch_size > 0 ? absl::StrCat("MEMORY OF ", options.batch_size) : ""},
               rows, options);
}

std::string KeptText(const v1::ModelFile& file, const ModelTextOptions& options) {
  Rows rows;
  for (const v1::ModelPolicy& policy : file.policies()) {
    for (const v1::ModelPolicy::Kept& kept : policy.kept()) {
      const std::string parameters =
          absl::StrCat(kept.num_parameters(), " parameters (", FormatBytes(kept.parameter_bytes()), ")",
                       kept.op().empty() ? "" : " of ");
      rows.push_back({policy.preset(),
                      absl::StrCat(kept.num_ops() > 0 ? absl::StrCat(kept.num_ops(), " ") : parameters, kept.op()),
                      kept.why()});
    }
  }
  return Table({"UNDER", "STAYS FP32", "WHY"}, rows, options);
}

// Returns the layers that use FP8 and the remarks on policies, one per line.
std::string RemarksText(const v1::ModelFile& file, const ModelTextOptions& options) {
  std::string text;
  for (const v1::ModelPolicy& policy : file.policies()) {
    if (policy.fp8_layers_size() > 0) {
      const std::vector<std::string> layers(policy.fp8_layers().begin(), policy.fp8_layers().end());
      absl::StrAppend(&text, policy.preset(), ": in FP8 ", NamesText(layers, options.wide), "\n");
    }
    for (const std::string& warning : policy.table().warnings()) {
      absl::StrAppend(&text, options.palette.Yellow(policy.preset() + " warning:"), " ", Printable(warning), "\n");
    }
    if (!policy.problem().empty()) {
      absl::StrAppend(&text, options.palette.Red(policy.preset() + " is refused:"), " ", Printable(policy.problem()),
                      "\n");
    }
  }
  for (const std::string& warning : file.warnings()) {
    absl::StrAppend(&text, options.palette.Yellow("warning:"), " ", Printable(warning), "\n");
  }
  for (const std::string& problem : file.problems()) {
    absl::StrAppend(&text, options.palette.Red("problem:"), " ", Printable(problem), "\n");
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string RenderModelFile(const v1::ModelFile& file, const ModelTextOptions& options) {
  return absl::StrCat(Printable(file.path()), ": torch.export, ", FormatBytes(file.size_bytes()), "\n",
                      ProgramsText(file, options), InputsText(file, options), OutputsText(file, options),
                      TensorsText(file, options), options.wide ? EveryTensorText(file, options) : "",
                      ModulesText(file, options), OpsText(file, options), PoliciesText(file, options),
                      KeptText(file, options), RemarksText(file, options));
}

bool HidesModules(const v1::ModelFile& file) {
  return std::any_of(file.modules().begin(), file.modules().end(),
                     [](const v1::ModelModule& module) { return LevelOf(module) > kShownModuleLevels; });
}

}  // namespace ampd::client
