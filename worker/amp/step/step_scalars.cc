#include "worker/amp/step/step_scalars.h"

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ATen/ops/empty.h"
#include "worker/amp/step/current_stream.h"

namespace ampd::amp {
namespace {

using kernels::GradientStats;
using kernels::PhaseBlock;
using kernels::StepBlock;

static_assert(std::is_trivially_copyable_v<StepBlock> && std::is_trivially_copyable_v<PhaseBlock>);
static_assert(sizeof(StepBlock) % alignof(PhaseBlock) == 0 && sizeof(PhaseBlock) % alignof(GradientStats) == 0);

size_t BytesOf(const StepRecord& record) {
  return sizeof(StepBlock) + record.phases.size() * sizeof(PhaseBlock) + record.stats.size() * sizeof(GradientStats);
}

at::Tensor HostBytes(size_t count, bool pinned) {
  return at::empty({static_cast<int64_t>(count)}, at::TensorOptions().dtype(at::kByte).pinned_memory(pinned));
}

}  // namespace

StepScalars::StepScalars(const ComputeDevice& device, const kernels::ScalerRule& scaler,
                         const std::vector<kernels::PhaseRule>& phases, const std::vector<size_t>& num_gradients)
    : device_(device.device), kernels_(device.cuda_kernels) {
  start_.step.scaler_rule = scaler;
  for (size_t i = 0; i < phases.size(); ++i) {
    PhaseBlock& phase = start_.phases.emplace_back();
    phase.rule = phases[i];
    phase.first_stat = static_cast<int64_t>(start_.stats.size());
    phase.num_stats = static_cast<int64_t>(num_gradients[i]);
    start_.stats.resize(start_.stats.size() + num_gradients[i]);
  }
  bytes_ = at::empty({static_cast<int64_t>(BytesOf(start_))}, at::TensorOptions().dtype(at::kByte).device(device_));
  auto* const data = static_cast<std::byte*>(bytes_.data_ptr());
  control_.step = reinterpret_cast<StepBlock*>(data);
  control_.phases = reinterpret_cast<PhaseBlock*>(data + sizeof(StepBlock));
  control_.stats = reinterpret_cast<GradientStats*>(data + sizeof(StepBlock) + phases.size() * sizeof(PhaseBlock));
  control_.num_phases = static_cast<int32_t>(phases.size());
  loss_scale_ = View(offsetof(StepBlock, scaler) + offsetof(kernels::ScalerState, scale), at::kFloat);
  for (size_t i = 0; i < phases.size(); ++i) {
    const size_t phase = sizeof(StepBlock) + i * sizeof(PhaseBlock);
    views_.push_back(
        {.loss = View(phase + offsetof(PhaseBlock, loss), at::kFloat),
         .skip = View(phase + offsetof(PhaseBlock, decision) + offsetof(kernels::StepDecision, skip), at::kBool)});
  }
}

at::Tensor StepScalars::View(size_t offset, at::ScalarType type) const {
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  return bytes_.narrow(0, static_cast<int64_t>(offset), size).view(type).select(0, 0);
}

at::Tensor StepScalars::any_skip() const {
  at::Tensor any = skip(0);
  for (size_t i = 1; i < views_.size(); ++i) {
    any = any.logical_or(skip(i));
  }
  return any;
}

void StepScalars::Load(const kernels::ScalerState& scaler, double rate_factor, const std::vector<int64_t>& applied) {
  start_.step.scaler = scaler;
  start_.step.rate_factor = rate_factor;
  for (size_t i = 0; i < applied.size(); ++i) {
    start_.phases[i].applied_steps = applied[i];
  }
  const at::Tensor host = HostBytes(BytesOf(start_), /*pinned=*/false);
  auto* to = static_cast<std::byte*>(host.data_ptr());
  const auto put = [&to](const void* from, size_t count) {
    std::memcpy(to, from, count);
    to += count;
  };
  put(&start_.step, sizeof(StepBlock));
  put(start_.phases.data(), start_.phases.size() * sizeof(PhaseBlock));
  put(start_.stats.data(), start_.stats.size() * sizeof(GradientStats));
  bytes_.copy_(host);
}

void StepScalars::Send() {
  const bool is_cuda = device_.is_cuda();
  Sent& sent = sent_.emplace_back(Sent{HostBytes(BytesOf(start_), is_cuda), std::nullopt});
  sent.bytes.copy_(bytes_, /*non_blocking=*/true);
  if (kernels_ != nullptr) {
    sent.arrived.emplace(*kernels_).Record(CurrentStream(device_));
  }
}

StepRecord StepScalars::AwaitStep() {
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (sent.arrived.has_value()) {
    sent.arrived->Await();
  }
  return Parse(sent.bytes);
}

StepRecord StepScalars::Parse(const at::Tensor& bytes) const {
  StepRecord record = start_;
  const auto* from = static_cast<const std::byte*>(bytes.const_data_ptr());
  const auto get = [&from](void* to, size_t count) {
    std::memcpy(to, from, count);
    from += count;
  };
  get(&record.step, sizeof(StepBlock));
  get(record.phases.data(), record.phases.size() * sizeof(PhaseBlock));
  get(record.stats.data(), record.stats.size() * sizeof(GradientStats));
  return record;
}

}  // namespace ampd::amp
