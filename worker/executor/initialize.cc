#include "worker/executor/initialize.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "worker/executor/dtype.h"

namespace ampd::executor {
namespace {

using graph::Initializer;

void Fill(at::Tensor& tensor, const Initializer& initializer, const at::Generator& generator) {
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      tensor.fill_(initializer.value);
      return;
    case Initializer::Kind::kUniform:
    case Initializer::Kind::kKaimingUniform:
      tensor.uniform_(-initializer.UniformBound(), initializer.UniformBound(), generator);
      return;
    case Initializer::Kind::kNormal:
      tensor.normal_(initializer.value, initializer.bound, generator);
      return;
  }
}

at::Tensor Initial(const graph::TensorType& type, const Initializer& initializer, const at::Generator& generator) {
  std::vector<int64_t> sizes;
  for (const graph::Dim& dim : type.shape) {
    sizes.push_back(dim.factor());
  }
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  Fill(tensor, initializer, generator);
  return tensor.to(ToScalarType(type.dtype));
}

}  // namespace

TensorMap InitialState(const graph::Graph& graph, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  TensorMap state;
  for (const auto* states : {&graph.parameters(), &graph.buffers()}) {
    for (const graph::State& wanted : *states) {
      state[wanted.name] = Initial(graph.type(wanted.value), wanted.initializer, generator);
    }
  }
  for (const graph::BatchCounter& counter : graph.batch_counters()) {
    state[counter.name] = at::zeros({}, at::kLong);
  }
  return state;
}

}  // namespace ampd::executor
