#include "worker/executor/interpret.h"

#include <ATen/Context.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <optional>
#include <utility>

#include "worker/executor/op_error.h"

namespace ampd::executor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Stack = std::vector<c10::IValue>;

c10::IValue ListOf(const ListUse& use, const std::vector<at::Tensor>& values) {
  if (!use.of_optionals) {
    c10::List<at::Tensor> list;
    for (const auto& value : use.values) {
      list.push_back(value.has_value() ? values[*value] : at::Tensor());
    }
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& value : use.values) {
    list.push_back(value.has_value() ? std::optional(values[*value]) : std::nullopt);
  }
  return list;
}

void Call(const Instruction& instruction, const RunConditions& conditions, std::vector<at::Tensor>& values) {
  Stack stack = instruction.stack;
  for (const SizesUse& use : instruction.sizes) {
    stack[use.argument] = SizesAt(use.sizes, conditions.batch_size);
  }
  if (instruction.device.has_value()) {
    stack[*instruction.device] = conditions.device;
  }
  for (const ListUse& use : instruction.lists) {
    stack[use.argument] = ListOf(use, values);
  }
  for (const ValueUse& use : instruction.values) {
    stack[use.argument] = use.last ? std::move(values[use.value]) : values[use.value];
  }
  const at::AutoGradMode records(at::GradMode::is_enabled() && !instruction.no_gradient);
  if (instruction.handle.has_value()) {
    instruction.handle->callBoxed(stack);
  } else {
    instruction.custom(stack);
  }
  if (instruction.returns_list) {
    const std::vector<at::Tensor> list = stack[0].toTensorVector();
    stack.assign(list.begin(), list.end());
  }
  TORCH_CHECK(stack.size() == instruction.results.size(), "an op returned ", stack.size(), " results instead of ",
              instruction.results.size());
  for (size_t i = 0; i < stack.size(); ++i) {
    values[instruction.results[i]] = std::move(stack[i]).toTensor();
  }
  if (conditions.observer != nullptr) {
    for (const size_t result : instruction.results) {
      conditions.observer->Observe({static_cast<int>(result)}, values[result]);
    }
  }
  for (size_t value : instruction.drop) {
    values[value] = at::Tensor();
  }
}

variable_list Gather(const std::vector<size_t>& indices, const std::vector<at::Tensor>& values) {
  variable_list tensors;
  for (size_t index : indices) {
    tensors.push_back(values[index]);
  }
  return tensors;
}

// Access to the state of a device's default generator, from which random ops draw.
class RandomState {
 public:
  explicit RandomState(c10::Device device) : generator_(at::globalContext().defaultGenerator(device)) {}

  at::Tensor Get() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    return generator_.get_state();
  }
  void Set(const at::Tensor& state) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state);
  }

 private:
  at::Generator generator_;
};

// Sets a device's generator to `state` while this object lives, and then restores the earlier state. Does nothing if
// `state` is empty.
class RandomStateGuard {
 public:
  RandomStateGuard(c10::Device device, const std::optional<at::Tensor>& state) : random_(device) {
    if (state.has_value()) {
      before_ = random_.Get();
      random_.Set(*state);
    }
  }
  ~RandomStateGuard() {
    if (before_.has_value()) {
      random_.Set(*before_);
    }
  }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;

 private:
  RandomState random_;
  std::optional<at::Tensor> before_;
};

struct SegmentFunction : Function<SegmentFunction> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<CompiledSegment>& segment,
                               const RunConditions& conditions, std::vector<at::Tensor>* values,
                               at::TensorList inputs) {
    context->saved_data["segment"] = c10::IValue::make_capsule(segment);
    context->saved_data["batch_size"] = conditions.batch_size;
    context->saved_data["device"] = conditions.device;
    if (segment->random) {
      context->saved_data["random_state"] = RandomState(conditions.device).Get();
    }
    context->set_materialize_grads(false);
    context->save_for_backward(inputs.vec());
    Interpret(segment->first, {conditions.batch_size, conditions.device, /*calls=*/nullptr, conditions.observer},
              *values);
    return Gather(segment->outputs, *values);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto segment =
        c10::static_intrusive_pointer_cast<CompiledSegment>(context->saved_data["segment"].toCapsule());
    variable_list inputs = context->get_saved_variables();
    variable_list trained;
    for (at::Tensor& input : inputs) {
      input = input.detach().requires_grad_(input.requires_grad());
      if (input.requires_grad()) {
        trained.push_back(input);
      }
    }
    const RunConditions conditions = {context->saved_data["batch_size"].toInt(),
                                      context->saved_data["device"].toDevice(), /*calls=*/nullptr,
                                      /*observer=*/nullptr};
    variable_list outputs = SecondRun(*segment, inputs, conditions, RandomStateOf(*context));
    KeepWithGradient(outputs, gradients);
    variable_list found(trained.size());
    if (!outputs.empty()) {
      found = torch::autograd::grad(outputs, trained, gradients, /*retain_graph=*/std::nullopt,
                                    /*create_graph=*/false, /*allow_unused=*/true);
    }
    return Spread(std::move(found), inputs);
  }

 private:
  // Number of arguments of forward() that precede the inputs.
  static constexpr size_t kOtherArguments = 3;

  static std::optional<at::Tensor> RandomStateOf(AutogradContext& context) {
    const auto it = context.saved_data.find("random_state");
    return it == context.saved_data.end() ? std::nullopt : std::optional(it->second.toTensor());
  }

  static variable_list SecondRun(const CompiledSegment& segment, const variable_list& inputs,
                                 const RunConditions& conditions, const std::optional<at::Tensor>& random_state) {
    std::vector<at::Tensor> values(segment.num_values);
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[segment.inputs[i]] = inputs[i];
    }
    const RandomStateGuard random(conditions.device, random_state);
    const at::AutoGradMode record(true);
    Interpret(segment.second, conditions, values);
    return Gather(segment.outputs, values);
  }

  // Removes the outputs that take no part in the backward pass, and their entries in `gradients`.
  static void KeepWithGradient(variable_list& outputs, variable_list& gradients) {
    size_t kept = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].requires_grad() && gradients[i].defined()) {
        outputs[kept] = std::move(outputs[i]);
        gradients[kept++] = std::move(gradients[i]);
      }
    }
    outputs.resize(kept);
    gradients.resize(kept);
  }

  // Returns one gradient for each argument of forward(): those in `found` for the inputs that require gradients, and
  // undefined tensors for all others.
  static variable_list Spread(variable_list found, const variable_list& inputs) {
    variable_list results(kOtherArguments + inputs.size());
    auto next = found.begin();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad()) {
        results[kOtherArguments + i] = std::move(*next++);
      }
    }
    return results;
  }
};

void RunSegment(const c10::intrusive_ptr<CompiledSegment>& segment, const RunConditions& conditions,
                std::vector<at::Tensor>& values) {
  if (!at::GradMode::is_enabled()) {
    return Interpret(segment->first, conditions, values);
  }
  // Pass the inputs as a TensorList, because autograd does not see the elements of other lists as inputs.
  const variable_list inputs = Gather(segment->inputs, values);
  variable_list outputs = SegmentFunction::apply(segment, conditions, &values, at::TensorList(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    values[segment->outputs[i]] = std::move(outputs[i]);
  }
}

}  // namespace

std::vector<int64_t> SizesAt(const graph::Shape& shape, int64_t batch_size) {
  std::vector<int64_t> sizes;
  for (const graph::Dim& dim : shape) {
    sizes.push_back(dim.At(batch_size));
  }
  return sizes;
}

void Interpret(const std::vector<Instruction>& program, const RunConditions& conditions,
               std::vector<at::Tensor>& values) {
  for (const Instruction& instruction : program) {
    const uint64_t first_node = at::sequence_number::peek();
    try {
      if (instruction.segment) {
        RunSegment(instruction.segment, conditions, values);
      } else {
        Call(instruction, conditions, values);
      }
    } catch (...) {
      ThrowAsOpError([&] { return instruction.where; });
    }
    if (conditions.calls != nullptr) {
      conditions.calls->push_back({instruction.where, first_node, at::sequence_number::peek()});
    }
  }
}

}  // namespace ampd::executor
