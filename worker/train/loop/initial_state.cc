#include "worker/train/loop/initial_state.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "data/data_file.h"
#include "worker/train/checkpoint/tensor_file.h"
#include "worker/train/loop/attempt_error.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/plan/initial_weights.h"
#include "worker/train/plan/model_source.h"

namespace ampd::train {
namespace {

using v1::Event;

// Loads the parameters and buffers in the file of an exported model into the engine.
absl::Status LoadExportedState(bool keeps_sources, AttemptPlan& plan, amp::Engine& engine, TelemetryWriter& telemetry) {
  amp::EngineState state = engine.ExportState();
  // The tensor names come from the model's file. If checkpoints can't store them, fail now, not at the first
  // checkpoint.
  AMPD_RETURN_IF_ERROR(WithReason(TensorFile::Of(state.model).status(), v1::Reason::SPEC_ERROR));
  AMPD_RETURN_IF_ERROR(WithReason(TensorFile::Of(state.optimizer).status(), v1::Reason::SPEC_ERROR));
  int64_t num_bytes = 0;
  for (const auto& [name, tensor] : plan.imported->state) {
    state.model.insert_or_assign(name, tensor);
    num_bytes += static_cast<int64_t>(tensor.nbytes());
  }
  const size_t num_tensors = plan.imported->state.size();
  if (!keeps_sources) {
    plan.imported->state.clear();
  }
  AMPD_RETURN_IF_ERROR(WithReason(engine.ImportState(state), v1::Reason::DATA_ERROR));
  return telemetry.Event(Event::WEIGHTS_LOADED, 0,
                         absl::StrCat("loaded ", num_tensors, " tensors from the file of the exported model"),
                         {{"num_tensors", absl::StrCat(num_tensors)}, {"num_bytes", absl::StrCat(num_bytes)}});
}

absl::Status LoadWeightsFile(const v1::ModelSpec& model, bool keeps_sources, AttemptPlan& plan, amp::Engine& engine,
                             TelemetryWriter& telemetry) {
  amp::EngineState state = engine.ExportState();
  const auto loaded =
      LoadInitialWeights(plan.initial_weights, {model.initialize_anew().begin(), model.initialize_anew().end()},
                         state.model, plan.imported.has_value() ? plan.imported->names : graph::SavedNames());
  if (!loaded.ok()) {
    return data::DataError(NameOfInitialWeights(model), std::string(loaded.status().message()));
  }
  if (!keeps_sources) {
    std::string().swap(plan.initial_weights);
  }
  AMPD_RETURN_IF_ERROR(WithReason(engine.ImportState(state), v1::Reason::DATA_ERROR));
  return telemetry.Event(
      Event::WEIGHTS_LOADED, 0,
      Describe(*loaded, model.has_initial_checkpoint() ? NameOfInitialWeights(model) : "a file"),
      {{"num_tensors", absl::StrCat(loaded->num_tensors)}, {"num_bytes", absl::StrCat(loaded->num_bytes)}});
}

// Names the file or checkpoint from which this tensor's initial values came, for messages.
std::string SourceOf(const v1::ModelSpec& model, const std::string& tensor) {
  const bool is_anew = std::any_of(model.initialize_anew().begin(), model.initialize_anew().end(),
                                   [&](const std::string& glob) { return GlobMatches(glob, tensor); });
  const bool has_weights = !model.initial_weights().empty() || model.has_initial_checkpoint();
  if (has_weights && !is_anew) {
    return NameOfInitialWeights(model);
  }
  return model.exported().artifact().empty()
             ? absl::StrCat("model.exported.path \"", model.exported().path(), "\"")
             : absl::StrCat("model.exported.artifact \"", model.exported().artifact(), "\"");
}

absl::Status CheckFinite(const v1::ModelSpec& model, const amp::Engine& engine) {
  if (!model.has_exported() && model.initial_weights().empty() && !model.has_initial_checkpoint()) {
    return absl::OkStatus();  // The engine has drawn all values itself.
  }
  const std::optional<amp::NonFinite> found = engine.FindNonFinite();
  return found.has_value() ? AttemptError(v1::Reason::DATA_ERROR,
                                          absl::StrCat(SourceOf(model, found->name), ": ", DescribeWithRange(*found)))
                           : absl::OkStatus();
}

}  // namespace

absl::Status LoadInitialState(const v1::ModelSpec& model, bool keeps_sources, AttemptPlan& plan, amp::Engine& engine,
                              TelemetryWriter& telemetry) {
  if (plan.imported.has_value()) {
    AMPD_RETURN_IF_ERROR(LoadExportedState(keeps_sources, plan, engine, telemetry));
  }
  if (!plan.initial_weights.empty()) {
    AMPD_RETURN_IF_ERROR(LoadWeightsFile(model, keeps_sources, plan, engine, telemetry));
  }
  return CheckFinite(model, engine);
}

}  // namespace ampd::train
