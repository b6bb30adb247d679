#include <utility>

#include "graph/builder/builder.h"
#include "tests/worker/amp/two_branches.h"

namespace ampd::amp {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

TwoBranches TwoBranchesOf(int64_t size, const std::array<double, 2>& probabilities) {
  GraphBuilder b("two_branches");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), size}});
  const ValueId first = b.Mul("first", x, b.Parameter("first.weight", {size}, Initializer::Constant(0)));
  const ValueId second = b.Mul("second", x, b.Parameter("second.weight", {size}, Initializer::Constant(0)));
  b.Output("predictions", b.Add("", b.StochasticDepth("first", first, probabilities[0]),
                                b.StochasticDepth("second", second, probabilities[1])));
  return {std::move(b).Build().value(), std::nullopt};
}

}  // namespace ampd::amp
