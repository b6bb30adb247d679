// The engine's checkpoint state: export, import and the check for finite numbers.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "c10/util/Exception.h"
#include "worker/amp/engine.h"
#include "worker/amp/engine_programs.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {

EngineState Engine::ExportState(EngineState reuse) const {
  TORCH_CHECK(pending_.empty(), "a state is exported between steps");
  EngineState state;
  for (const auto& phase : phases_) {
    for (const Parameter& parameter : phase->parameters()) {
      state.model[parameter.name] = MasterOf(parameter, std::move(reuse.model[parameter.name]));
    }
    state.optimizer.merge(phase->ExportOptimizer(reuse.optimizer));
    if (phases_.size() > 1) {
      state.applied_by_phase[phase->name()] = phase->applied_steps();
    }
  }
  for (const auto& [name, buffer] : buffers_) {
    const bool is_narrow = buffer.is_floating_point() && buffer.element_size() < static_cast<int64_t>(sizeof(float));
    const at::ScalarType dtype = is_narrow ? at::kFloat : buffer.scalar_type();
    state.model[name] = CopyInto(std::move(reuse.model[name]), buffer, dtype);
  }
  ExportCounts(state.model);
  if (programs_->fp8) {
    state.fp8 = programs_->fp8->ExportState();
  }
  state.scaler = scaler_.state();
  state.applied_steps = applied_steps_;
  state.skipped_steps = skipped_steps_;
  return state;
}

std::optional<NonFinite> Engine::FindNonFinite() const {
  TORCH_CHECK(pending_.empty(), "a state is looked at between steps");
  using Kind = StateTensor::Kind;
  std::vector<StateTensor> parameters, statistics, averages, moments, constants;
  std::set<std::string> written;
  for (const auto& phase : phases_) {
    written.insert(phase->written_buffers().begin(), phase->written_buffers().end());
    for (const Parameter& parameter : phase->parameters()) {
      if (parameter.master.defined() && !parameter.master.is_same(parameter.leaf)) {
        parameters.push_back({Kind::kParameter, parameter.name, parameter.master});
      }
      parameters.push_back({Kind::kParameter, parameter.name, parameter.leaf.detach()});
    }
    for (const auto& [name, tensor] : phase->optimizer().NamedState()) {
      const bool is_average = absl::EndsWith(name, ".average");
      (is_average ? averages : moments).push_back({is_average ? Kind::kAverage : Kind::kMoment, name, tensor});
    }
  }
  for (const auto& [name, buffer] : buffers_) {
    const bool is_written = written.contains(name);
    (is_written ? statistics : constants).push_back({is_written ? Kind::kStatistic : Kind::kConstant, name, buffer});
  }
  std::vector<StateTensor> all = std::move(parameters);
  for (const auto& more : {statistics, averages, moments, constants}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return amp::FindNonFinite(all);
}

void Engine::ExportCounts(TensorMap& model) const {
  std::map<std::string, int64_t> counts = batches_before_;
  for (const auto& phase : phases_) {
    for (const auto& [name, per_micro_batch] : phase->batches_counted()) {
      counts[name] += num_micro_batches_ * per_micro_batch;
    }
  }
  for (const auto& [name, count] : counts) {
    model[name] = at::scalar_tensor(count, at::kLong);
  }
}

void Engine::ImportCounts(const TensorMap& model) {
  num_micro_batches_ = 0;
  for (auto& [name, count] : batches_before_) {
    const auto found = model.find(name);
    count = found == model.end() ? 0 : found->second.item<int64_t>();
  }
}

absl::Status Engine::CheckState(const EngineState& state) const {
  std::vector<std::pair<std::string, at::Tensor>> targets(buffers_.begin(), buffers_.end());
  for (const auto& phase : phases_) {
    for (const Parameter& parameter : phase->parameters()) {
      targets.emplace_back(parameter.name, parameter.leaf);
    }
    if (phases_.size() > 1 && !state.applied_by_phase.contains(phase->name())) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE",
                   absl::StrCat("the state has no count of the steps that phase ", phase->name(), " applied"));
    }
  }
  for (const auto& [name, target] : targets) {
    const auto it = state.model.find(name);
    if (it == state.model.end() || it->second.sizes() != target.sizes()) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE",
                   absl::StrCat("the state has no tensor ", name, " of the model's shape"));
    }
  }
  for (const auto& [name, unused] : batches_before_) {
    const auto it = state.model.find(name);
    if (it != state.model.end() && (it->second.dim() > 0 || it->second.scalar_type() != at::kLong)) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE",
                   absl::StrCat("the state's ", name, " is no int64 scalar"));
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::ImportState(const EngineState& state) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(pending_.empty(), "a state is imported between steps");
  AMPD_RETURN_IF_ERROR(CheckState(state));
  for (const auto& [name, buffer] : buffers_) {
    buffer.copy_(state.model.at(name));
  }
  AMPD_RETURN_IF_ERROR(programs_->label_counter->Bind(buffers_));
  ImportCounts(state.model);
  for (const auto& phase : phases_) {
    const int64_t applied = phases_.size() > 1 ? state.applied_by_phase.at(phase->name()) : state.applied_steps;
    AMPD_RETURN_IF_ERROR(phase->Import(state.model, state.optimizer, applied));
  }
  if (programs_->fp8) {
    programs_->fp8->ImportState(state.fp8);
  }
  scaler_.Restore(state.scaler);
  known_scaler_.reset();
  applied_steps_ = state.applied_steps;
  skipped_steps_ = state.skipped_steps;
  return absl::OkStatus();
}

}  // namespace ampd::amp
