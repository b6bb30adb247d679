#include "tests/parity/op_run.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/reshape.h>
#include <torch/csrc/autograd/autograd.h>

#include <exception>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "base/status_macros.h"
#include "graph/einsum/einsum.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "worker/amp/ops/attention.h"
#include "worker/amp/ops/cross_entropy.h"
#include "worker/amp/ops/upcast_matmul.h"
#include "worker/executor/dtype.h"
#include "worker/executor/op_registry.h"

namespace ampd::parity {
namespace {

executor::OpRegistry EngineOps() {
  executor::OpRegistry registry;
  amp::RegisterUpcastMatmul(registry);
  amp::RegisterCrossEntropy(registry, /*device=*/{});
  return registry;
}

// Returns copies of the case's tensors as leaves, in the dtypes in which the program stores them.
executor::TensorMap LeavesOf(const OpCase& one, const graph::Graph& program) {
  executor::TensorMap leaves = one.slots;
  for (auto& [name, tensor] : leaves) {
    tensor = tensor.clone();
  }
  const auto store = [&](const std::vector<graph::State>& states) {
    for (const graph::State& state : states) {
      at::Tensor& tensor = leaves.at(state.name);
      tensor = tensor.to(executor::ToScalarType(program.type(state.value).dtype));
    }
  };
  store(program.parameters());
  store(program.buffers());
  for (const graph::State& parameter : program.parameters()) {
    leaves.at(parameter.name).requires_grad_(true);
  }
  for (const graph::ValueId input : program.inputs()) {
    at::Tensor& tensor = leaves.at(program.value(input).name);
    tensor.requires_grad_(tensor.is_floating_point());
  }
  return leaves;
}

// Returns the same gradient as gradient_for() in oracle_autocast.py.
at::Tensor GradientFor(const at::Tensor& result) {
  const at::Tensor numbers = at::arange(result.numel(), at::TensorOptions(at::kFloat));
  return numbers.remainder(7).div(8).add(0.25).reshape(result.sizes()).to(result.scalar_type());
}

absl::StatusOr<OpRun> Run(const OpCase& one, const graph::Graph& program) {
  AMPD_ASSIGN_OR_RETURN(const auto run, executor::Executor::Create(program, EngineOps()));
  const executor::TensorMap leaves = LeavesOf(one, program);
  AMPD_RETURN_IF_ERROR(run->Bind(leaves));
  std::vector<at::Tensor> inputs;
  for (const graph::ValueId input : program.inputs()) {
    inputs.push_back(leaves.at(program.value(input).name));
  }
  OpRun ran;
  std::vector<at::Tensor> led, gradients;
  const std::vector<at::Tensor> results = run->Run(std::move(inputs));
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Output& output = program.outputs()[i];
    if (results[i].scalar_type() != executor::ToScalarType(program.type(output.value).dtype)) {
      return absl::InternalError(absl::StrCat(output.name, " is ", c10::toString(results[i].scalar_type()),
                                              ", the program says ",
                                              std::string(graph::DtypeName(program.type(output.value).dtype))));
    }
    ran.results[output.name] = results[i].detach();
    if (results[i].requires_grad()) {
      led.push_back(results[i]);
      gradients.push_back(GradientFor(results[i]));
    }
  }
  if (!led.empty()) {
    torch::autograd::backward(led, gradients);
  }
  for (const auto& [name, leaf] : leaves) {
    if (leaf.grad().defined()) {
      ran.gradients[name] = leaf.grad();
    }
  }
  return ran;
}

}  // namespace

absl::StatusOr<graph::Graph> UnderPreset(const OpCase& one, const std::string& preset, const v1::Device& device) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  AMPD_ASSIGN_OR_RETURN(const graph::Graph model, graph::WithoutEinsums(one.graph));
  AMPD_ASSIGN_OR_RETURN(const auto resolved,
                        precision::ResolvePolicy(policy, model, device, precision::OptimizerKind::kAdam));
  return precision::ApplyPrecision(model, resolved);
}

absl::StatusOr<OpRun> RunProgram(const OpCase& one, const graph::Graph& program) {
  try {
    return Run(one, program);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return absl::InternalError(text.substr(0, text.find('\n')));
  }
}

}  // namespace ampd::parity
