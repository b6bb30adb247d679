#include "precision/table.h"

#include <string>

#include "precision/loss_scale_message.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::DtypeText;
using graph::OpClass;
using P = v1::PrecisionPolicy;

// The API's name of a format. REQUIRES: it is a format that a policy can name.
P::Dtype FieldOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBFloat16:
      return P::bf16;
    case Dtype::kFloat16:
      return P::fp16;
    default:
      return P::fp32;
  }
}

P::Dtype FieldOf(Masters masters) {
  switch (masters) {
    case Masters::kFloat32:
      return P::fp32;
    case Masters::kRemainder16:
      return P::bf16_remainder16;
    case Masters::kNone:
      break;
  }
  return P::none;
}

void SetFormats(const Formats& formats, P* policy) {
  policy->set_compute(FieldOf(formats.compute));
  policy->set_parameter(FieldOf(formats.parameter));
  policy->set_master(FieldOf(formats.master));
  policy->set_gradient(FieldOf(formats.parameter));
  policy->set_accumulation(FieldOf(formats.accumulation));
  policy->set_reduction(FieldOf(formats.reduction));
  policy->set_optimizer_state(FieldOf(formats.optimizer_state));
  policy->set_cast_mode(formats.parameter == Dtype::kFloat32 && formats.compute != Dtype::kFloat32 ? P::CAST
                                                                                                   : P::MASTER);
  policy->set_fp32_matmul(formats.tf32_matmul ? P::tf32 : P::fp32);
  policy->set_stochastic_rounding(formats.stochastic_rounding);
}

void SetFp8(const Fp8Recipe& recipe, v1::Fp8Recipe* fp8) {
  using Scaling = Fp8Recipe::Scaling;
  fp8->set_scaling(recipe.scaling == Scaling::kDelayed ? v1::Fp8Recipe::DELAYED
                   : recipe.scaling == Scaling::kBlock ? v1::Fp8Recipe::BLOCK
                                                       : v1::Fp8Recipe::CURRENT);
  if (recipe.scaling == Scaling::kDelayed) {
    fp8->set_amax_history_length(recipe.amax_history_length);
    fp8->set_margin(recipe.margin);
  }
  fp8->set_power_of_two_scales(recipe.power_of_two_scales);
  fp8->set_amax_epsilon(recipe.amax_epsilon);
  fp8->set_canary_every_steps(recipe.canary_every_steps);
  fp8->set_canary_bound(recipe.canary_bound);
}

}  // namespace

v1::OpRule::Class ToMessage(OpClass op_class) {
  switch (op_class) {
    case OpClass::kLower:
      return v1::OpRule::lower;
    case OpClass::kFp32:
      return v1::OpRule::fp32;
    case OpClass::kPromote:
      return v1::OpRule::promote;
    case OpClass::kBanned:
      return v1::OpRule::banned;
    case OpClass::kAsInput:
      break;
  }
  return v1::OpRule::as_input;
}

v1::PolicyTable ToMessage(const ResolvedPolicy& policy) {
  v1::PolicyTable table;
  table.set_preset(policy.preset);
  table.set_emulated(policy.emulated());
  table.mutable_policy()->set_preset(policy.preset);
  SetFormats(policy.formats, table.mutable_policy());
  *table.mutable_policy()->mutable_loss_scale() = ToMessage(policy.loss_scale);
  if (policy.fp8.has_value()) {
    SetFp8(*policy.fp8, table.mutable_policy()->mutable_fp8());
  }
  for (const ParameterRow& row : policy.parameters) {
    v1::PolicyTable::Parameter& parameter = *table.add_parameters();
    parameter.set_name(row.name);
    parameter.set_dtype(DtypeText(row.dtype));
    parameter.set_master(row.master == Masters::kNone ? "" : std::string(MastersName(row.master)));
  }
  for (const BufferRow& row : policy.buffers) {
    v1::PolicyTable::Buffer& buffer = *table.add_buffers();
    buffer.set_name(row.name);
    buffer.set_dtype(DtypeText(row.dtype));
  }
  for (const OpRow& row : policy.ops) {
    v1::PolicyTable::Op& op = *table.add_ops();
    op.set_op(row.op);
    op.set_module(row.module_path);
    op.set_policy(ToMessage(row.decision.op_class));
    const Dtype dtype = row.decision.fp8_layer.has_value() ? policy.fp8->forward : row.decision.compute;
    op.set_dtype(row.decision.op_class == OpClass::kLower ? DtypeText(dtype) : "");
    op.set_emulated(row.decision.emulated);
  }
  *table.mutable_warnings() = {policy.warnings.begin(), policy.warnings.end()};
  table.set_text(ToText(policy));
  return table;
}

}  // namespace ampd::precision
