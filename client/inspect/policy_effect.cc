#include "client/inspect/policy_effect.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/status_macros.h"
#include "precision/cost/memory.h"
#include "precision/cost/memory_message.h"
#include "precision/op_list.h"
#include "precision/optimizer_kind.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "precision/table.h"

namespace ampd::client {
namespace {

using graph::Dtype;
using graph::OpClass;
using precision::ResolvedPolicy;

void AddShares(const v1::PolicyTable& table, v1::ModelPolicy* policy) {
  std::map<std::tuple<int, std::string, bool>, int> counts;
  for (const v1::PolicyTable::Op& op : table.ops()) {
    ++counts[{op.policy(), op.dtype(), op.emulated()}];
  }
  for (const auto& [key, count] : counts) {
    const auto& [op_class, dtype, emulated] = key;
    v1::ModelPolicy::Share& share = *policy->add_shares();
    share.set_policy(static_cast<v1::OpRule::Class>(op_class));
    share.set_dtype(dtype);
    share.set_emulated(emulated);
    share.set_num_ops(count);
  }
}

// Returns whether the policy computes anything in a format with fewer bits than fp32.
bool Lowers(const ResolvedPolicy& resolved) {
  return resolved.formats.compute != Dtype::kFloat32 || !resolved.fp8_layers.empty();
}

std::string WhyFp32(const ResolvedPolicy& resolved, const graph::Node& node) {
  if (node.keeps_fp32) {
    return "the model asks for it, by a dtype that it names or by torch.autocast(enabled=False)";
  }
  return resolved.op_list == precision::OpList::kAmpd
             ? "sums, exponentials and losses lose too much accuracy in fewer bits"
             : absl::StrCat("the op list ", std::string(precision::OpListName(resolved.op_list)),
                            " keeps this op in fp32");
}

// Adds the ops that compute in fp32 although the policy uses a lower precision for other ops. REQUIRES: the policy was
// resolved for the program.
void AddKeptOps(const ResolvedPolicy& resolved, const graph::Graph& program, v1::ModelPolicy* policy) {
  std::map<std::pair<std::string, std::string>, int> counts;  // number of ops, by op and reason
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (const graph::Node& node = program.nodes()[i]; resolved.ops[i].decision.op_class == OpClass::kFp32) {
      ++counts[{node.op, WhyFp32(resolved, node)}];
    }
  }
  for (const auto& [key, count] : counts) {
    v1::ModelPolicy::Kept& kept = *policy->add_kept();
    kept.set_op(key.first);
    kept.set_num_ops(count);
    kept.set_why(key.second);
  }
}

// For each parameter, returns the op that explains why the parameter stays in fp32. It is the first op that reads the
// parameter and is not a matrix product or, if there is none, the first op that reads the parameter.
std::map<std::string, std::string> ReadersOf(const graph::Graph& program, const ResolvedPolicy& resolved) {
  std::map<graph::ValueId, std::pair<std::string, bool>> readers;  // the op, and whether it is a matrix product
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const bool is_product = resolved.ops[i].decision.op_class == OpClass::kLower;
    for (const graph::ValueId use : program.nodes()[i].Uses()) {
      auto& [op, was_product] = readers.try_emplace(use, program.nodes()[i].op, is_product).first->second;
      if (was_product && !is_product) {
        std::tie(op, was_product) = std::pair(program.nodes()[i].op, false);
      }
    }
  }
  std::map<std::string, std::string> names;
  for (const graph::State& parameter : program.parameters()) {
    names[parameter.name] = readers[parameter.value].first;
  }
  return names;
}

void AddKeptParameters(const ResolvedPolicy& resolved, const graph::Graph& program, v1::ModelPolicy* policy) {
  const bool are_cast = resolved.formats.parameter == Dtype::kFloat32;
  const std::map<std::string, std::string> readers = ReadersOf(program, resolved);
  std::map<std::string, v1::ModelPolicy::Kept> kept;  // by the op that reads the parameters
  for (size_t i = 0; i < resolved.parameters.size(); ++i) {
    if (resolved.parameters[i].dtype != Dtype::kFloat32) {
      continue;
    }
    const std::string op = are_cast ? "" : readers.at(resolved.parameters[i].name);
    v1::ModelPolicy::Kept& of_op = kept[op];
    of_op.set_op(op);
    of_op.set_num_parameters(of_op.num_parameters() + 1);
    int64_t bytes = ItemSizeBytes(Dtype::kFloat32);
    for (const graph::Dim& dim : program.type(program.parameters()[i].value).shape) {
      bytes *= dim.factor();
    }
    of_op.set_parameter_bytes(of_op.parameter_bytes() + bytes);
    of_op.set_why(are_cast ? "the preset keeps parameters in fp32 and casts them for matrix products"
                           : "the op is not a matrix product and reads its parameters in fp32");
  }
  for (auto& [op, of_op] : kept) {
    *policy->add_kept() = std::move(of_op);
  }
}

// Fills `policy` with the effect of its preset on the program. REQUIRES: `policy` has the name of the preset.
absl::Status Describe(const precision::TrainedPrograms& programs, const ModelQuestion& question,
                      v1::ModelPolicy* policy) {
  v1::JobSpec spec;
  spec.mutable_precision()->set_preset(policy->preset());
  const graph::Graph& program = programs.train;
  AMPD_ASSIGN_OR_RETURN(
      const ResolvedPolicy resolved,
      precision::ResolvePolicy(spec.precision(), program, question.device, precision::KindOf(spec.optimizer())));
  AMPD_RETURN_IF_ERROR(precision::ApplyPrecision(program, resolved).status());
  if (question.batch_size > 0) {
    AMPD_ASSIGN_OR_RETURN(
        const precision::MemoryModel memory,
        precision::MemoryModel::Create(programs, resolved, precision::TrainingSetup::Of(spec, question.device)));
    *policy->mutable_memory() = precision::ToMessage(memory.At(question.batch_size));
  }
  policy->set_preset(resolved.preset);
  *policy->mutable_table() = precision::ToMessage(resolved);
  AddShares(policy->table(), policy);
  if (Lowers(resolved)) {
    AddKeptOps(resolved, program, policy);
    AddKeptParameters(resolved, program, policy);
  }
  for (const precision::Fp8Layer& layer : resolved.fp8_layers) {
    policy->add_fp8_layers(layer.module_path);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPolicies(const graph::ImportedPrograms& imported, ModelQuestion question, v1::ModelFile* file) {
  const bool is_evaluated = graph::HeadOf(imported.train).has_value();
  const auto programs = precision::TrainedPrograms::Of(imported.train, is_evaluated ? &imported.eval : nullptr);
  if (!programs.ok()) {
    file->add_problems(std::string(programs.status().message()));
    return;
  }
  if (question.batch_size > 0 && !programs->AreCountable(question.batch_size)) {
    file->add_warnings(absl::StrCat("the memory of a step with ", question.batch_size,
                                    " samples is not shown: it is more than any machine has"));
    question.batch_size = 0;
  }
  for (const std::string& preset : question.presets) {
    v1::ModelPolicy& policy = *file->add_policies();
    policy.set_preset(preset);
    if (const absl::Status status = Describe(*programs, question, &policy); !status.ok()) {
      policy.Clear();
      policy.set_preset(preset);
      policy.set_problem(std::string(status.message()));
    }
  }
}

}  // namespace ampd::client
