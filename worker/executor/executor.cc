#include "worker/executor/executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/print.h"
#include "worker/executor/dtype.h"
#include "worker/executor/interpret.h"
#include "worker/executor/program.h"

namespace ampd::executor {
namespace {

using graph::Graph;
using graph::State;
using graph::TensorType;
using graph::ValueId;

size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

absl::Status BadState(std::string_view name, std::string_view why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_STATE", absl::StrCat(std::string(name), " ", std::string(why)));
}

std::string Describe(const at::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()), "[", absl::StrJoin(tensor.sizes(), ", "), "]");
}

absl::StatusOr<at::Tensor> TakeState(const TensorMap& from, const State& state, const TensorType& type) {
  const auto it = from.find(state.name);
  if (it == from.end() || !it->second.defined()) {
    return BadState(state.name, "is missing");
  }
  const at::Tensor& tensor = it->second;
  if (tensor.scalar_type() != ToScalarType(type.dtype) || tensor.sizes() != at::IntArrayRef(SizesAt(type.shape, 0))) {
    return BadState(state.name, absl::StrCat("is ", Describe(tensor), "; the graph wants ", graph::ToText(type)));
  }
  return tensor;
}

// Returns an input of a run in its declared shape. Checks that all inputs have the same batch size; the first input
// with a batch dimension determines that size.
at::Tensor AsDeclared(at::Tensor input, const graph::Value& value, std::optional<int64_t>& batch_size) {
  const TensorType& type = value.type;
  TORCH_CHECK(input.defined(), "input ", value.name, " is undefined");
  TORCH_CHECK(input.scalar_type() == ToScalarType(type.dtype), "input ", value.name, " is ", Describe(input),
              "; the graph wants ", graph::ToText(type));
  int64_t sample_elements = 1;
  bool has_batch = false;
  for (const graph::Dim& dim : type.shape) {
    sample_elements *= dim.factor();
    has_batch = has_batch || dim.is_batch();
  }
  if (has_batch && !batch_size.has_value()) {
    batch_size = input.numel() / sample_elements;
  }
  const std::vector<int64_t> sizes = SizesAt(type.shape, batch_size.value_or(0));
  if (input.sizes() == at::IntArrayRef(sizes)) {
    return input;
  }
  TORCH_CHECK(input.numel() == c10::multiply_integers(sizes), "input ", value.name, " is ", Describe(input),
              "; the graph wants ", graph::ToText(type));
  return input.reshape(sizes);
}

class DispatcherExecutor final : public Executor {
 public:
  DispatcherExecutor(Graph graph, std::vector<Instruction> program)
      : graph_(std::move(graph)), program_(std::move(program)), state_(static_cast<size_t>(graph_.num_values())) {}

  const Graph& graph() const override { return graph_; }

  absl::Status Bind(const TensorMap& state) override {
    std::vector<at::Tensor> bound(state_.size());
    for (const auto* states : {&graph_.parameters(), &graph_.buffers()}) {
      for (const State& wanted : *states) {
        AMPD_ASSIGN_OR_RETURN(bound[Index(wanted.value)], TakeState(state, wanted, graph_.type(wanted.value)));
      }
    }
    state_ = std::move(bound);
    return absl::OkStatus();
  }

  std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs, RunObserver* observer) override {
    return RunAs(std::move(inputs), observer, /*calls=*/nullptr);
  }

  std::vector<at::Tensor> RunTraced(std::vector<at::Tensor> inputs, std::vector<TracedCall>& calls) override {
    return RunAs(std::move(inputs), /*observer=*/nullptr, &calls);
  }

 private:
  std::vector<at::Tensor> RunAs(std::vector<at::Tensor> inputs, RunObserver* observer, std::vector<TracedCall>* calls) {
    std::vector<at::Tensor> values = state_;
    RunConditions conditions = PlaceInputs(std::move(inputs), values);
    conditions.calls = calls;
    conditions.observer = observer;
    for (size_t i = 0; observer != nullptr && i < values.size(); ++i) {
      if (values[i].defined()) {
        observer->Observe({static_cast<int>(i)}, values[i]);
      }
    }
    Interpret(program_, conditions, values);
    std::vector<at::Tensor> outputs;
    for (const graph::Output& output : graph_.outputs()) {
      outputs.push_back(values[Index(output.value)]);
    }
    return outputs;
  }

  RunConditions PlaceInputs(std::vector<at::Tensor> inputs, std::vector<at::Tensor>& values) const {
    TORCH_CHECK(inputs.size() == graph_.inputs().size(), "graph ", graph_.name(), " takes ", graph_.inputs().size(),
                " inputs and got ", inputs.size());
    std::optional<int64_t> batch_size;
    RunConditions conditions;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      values[Index(id)] = AsDeclared(std::move(inputs[i]), graph_.value(id), batch_size);
      conditions.device = values[Index(id)].device();
    }
    conditions.batch_size = batch_size.value_or(0);
    return conditions;
  }

  const Graph graph_;
  const std::vector<Instruction> program_;
  std::vector<at::Tensor>
      state_;  // Parameters and buffers, indexed by value; undefined for values that a run computes.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Graph& graph, const OpRegistry& registry) {
  AMPD_ASSIGN_OR_RETURN(std::vector<Instruction> program, Compile(graph, registry));
  return std::make_unique<DispatcherExecutor>(graph, std::move(program));
}

}  // namespace ampd::executor
