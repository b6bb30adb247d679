#include "server/admission/initial_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/formats/tensor_misfits.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "models/models.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

constexpr char kField[] = "model.initial_checkpoint";

// Returns the shapes of the tensors that a checkpoint of the model has in its file model.safetensors, by name.
std::map<std::string, std::vector<int64_t>> ShapesOf(const graph::Graph& model) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::vector<graph::State>* states : {&model.parameters(), &model.buffers()}) {
    for (const graph::State& state : *states) {
      const graph::Shape& shape = model.type(state.value).shape;
      std::vector<int64_t>& extents = shapes[state.name];
      std::transform(shape.begin(), shape.end(), std::back_inserter(extents),
                     [](const graph::Dim& extent) { return extent.factor(); });
    }
  }
  return shapes;
}

// Whether the model and the checkpoint may differ in the tensor with this name: either of them may lack it, and its
// shapes may differ. The worker's LoadInitialWeights has the same rule.
bool MayLack(const v1::ModelSpec& spec, const std::string& name) {
  return GlobMatches("*num_batches_tracked", name) ||
         std::any_of(spec.initialize_anew().begin(), spec.initialize_anew().end(),
                     [&name](const std::string& glob) { return GlobMatches(glob, name); });
}

TensorMisfits Compare(const graph::Graph& given, const graph::Graph& wanted, const v1::ModelSpec& spec) {
  const std::map<std::string, std::vector<int64_t>> from = ShapesOf(given);
  const std::map<std::string, std::vector<int64_t>> to = ShapesOf(wanted);
  TensorMisfits misfits;
  for (const auto& [name, shape] : to) {
    const auto found = from.find(name);
    if (MayLack(spec, name)) {
      continue;
    }
    if (found == from.end()) {
      misfits.missing.push_back(name);
    } else if (found->second != shape) {
      misfits.AddShape(name, found->second, shape);
    }
  }
  for (const auto& [name, shape] : from) {
    if (!to.contains(name) && !MayLack(spec, name)) {
      misfits.extra.push_back(name);
    }
  }
  return misfits;
}

absl::Status CheckModel(const v1::JobSpec& source, const v1::JobSpec& spec) {
  if (source.model().has_exported() || spec.model().has_exported()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(const graph::Graph given, models::BuildModel(source));
  AMPD_ASSIGN_OR_RETURN(const graph::Graph wanted, models::BuildModel(spec));
  const TensorMisfits misfits = Compare(given, wanted, spec.model());
  return misfits.empty() ? absl::OkStatus() : InvalidFields({{kField, misfits.Describe()}});
}

absl::StatusOr<v1::Checkpoint> Find(const v1::Job& source, int64_t step) {
  const auto& kept = source.checkpoints();
  const auto found = std::find_if(kept.rbegin(), kept.rend(), [step](const v1::Checkpoint& checkpoint) {
    return step == 0 || checkpoint.step() == step;
  });
  if (found != kept.rend()) {
    return *found;
  }
  const std::string steps = absl::StrJoin(
      kept, ", ", [](std::string* out, const v1::Checkpoint& checkpoint) { absl::StrAppend(out, checkpoint.step()); });
  return Error(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
               absl::StrCat(kField, ": job ", source.id(), " keeps no checkpoint",
                            step == 0 ? "" : absl::StrCat(" at step ", step),
                            steps.empty() ? "" : absl::StrCat("; it keeps those at ", steps)));
}

}  // namespace

absl::StatusOr<v1::Checkpoint> ResolveInitialCheckpoint(const v1::Job& source, v1::JobSpec* spec) {
  if (!IsTerminal(source.state())) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
        absl::StrCat(kField, ": job ", source.id(), " is ", v1::Job::State_Name(source.state()),
                     "; only the checkpoints of ended jobs can be used, because a job deletes its older ones while "
                     "it trains; wait for its end, or cancel it"));
  }
  v1::CheckpointReference& reference = *spec->mutable_model()->mutable_initial_checkpoint();
  AMPD_ASSIGN_OR_RETURN(v1::Checkpoint start, Find(source, reference.step()));
  AMPD_RETURN_IF_ERROR(CheckModel(source.spec(), *spec));
  reference.set_step(start.step());
  start.set_step(0);
  return start;
}

}  // namespace ampd::server
