// Compares the torch-amp presets with PyTorch's own autocast, for CPUs and for GPUs. Every op of the engine's table
// runs under torch.autocast in each form of its arguments, with all inputs in one dtype and with inputs in different
// dtypes. The graph under the preset must have the same dtypes. On a CPU the engine's executor must also give the same
// results and gradients.

#include <ATen/ops/norm.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/error.h"
#include "graph/modes.h"
#include "graph/op_table.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "tests/parity/op_cases.h"
#include "tests/parity/op_run.h"

namespace ampd::parity {
namespace {

using graph::Dtype;

constexpr Dtype kLow[] = {Dtype::kBFloat16, Dtype::kFloat16};

v1::Device DeviceNamed(const std::string& name) {
  v1::Device device;
  device.set_id(name);
  device.set_kind(name == "cuda" ? v1::Device::GPU : v1::Device::CPU);
  device.set_capability_major(9);
  return device;
}

std::string PresetOf(Dtype low) { return low == Dtype::kBFloat16 ? "torch-amp-bf16" : "torch-amp-fp16"; }

// Returns whether the results of the case may have other dtypes under PyTorch's CPU autocast than in the engine. In the
// engine, a GRU is one op that computes in its input's dtype. In PyTorch, autocast casts only the matrix products
// inside the GRU, so the result may have another dtype if the states' dtype differs from the input's. The same holds
// for PyTorch's LSTM in fp16, because oneDNN has no fp16 LSTM.
bool ComputesOtherwise(const OpCase& one, Dtype low) {
  return one.op() == "aten.gru.input" || (one.op() == "aten.lstm.input" && low == Dtype::kFloat16);
}

// Returns whether the case's gradients are too inexact to compare. In bf16, oneDNN's gradients of an LSTM differ from
// the fp32 gradients by 2%. The gradients of a second layer's weights differ by 70%.
bool HasRoughGradients(const OpCase& one) { return one.op() == "aten.lstm.input"; }

class AutocastParity : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, AutocastParity, testing::Values("cpu", "cuda"));

TEST_P(AutocastParity, EveryOpHasArguments) {
  const auto cases = RunOpCases("none", Dtype::kBFloat16);
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::set<std::string> tried;
  for (const OpCase& one : *cases) {
    tried.insert(one.op());
  }
  for (const graph::OpRow& row : graph::AllOps()) {
    // op_forms.py need not list arguments for two kinds of ops: the cast, which states its dtype itself, and ops that
    // write in place, which are removed before a policy is applied.
    const bool is_tried = row.op == "aten.to.dtype" || !row.in_place_of.empty() || tried.contains(std::string(row.op));
    EXPECT_TRUE(is_tried) << row.op << " has no arguments in op_forms.py";
  }
}

TEST_P(AutocastParity, EveryFormReturnsTheDtypeThatTorchAutocastReturns) {
  for (const Dtype low : kLow) {
    const auto cases = RunOpCases(GetParam(), low);
    ASSERT_TRUE(cases.ok()) << cases.status();
    int num_compared = 0, num_refused = 0, num_untried = 0;
    for (const OpCase& one : *cases) {
      const auto program = UnderPreset(one, PresetOf(low), DeviceNamed(GetParam()));
      if (one.fails.find("unsafe to autocast") != std::string::npos) {
        EXPECT_EQ(ReasonOf(program.status()), "BANNED_OP") << one.Text();
        ++num_refused;
        continue;
      }
      ASSERT_TRUE(program.ok()) << one.Text() << ": " << program.status();
      if (one.gives.empty() || ComputesOtherwise(one, low)) {
        ++num_untried;
        continue;
      }
      for (size_t i = 0; i < one.gives.size(); ++i) {
        const Dtype ours = program->type(program->outputs()[i].value).dtype;
        EXPECT_EQ(graph::DtypeName(ours), graph::DtypeName(one.gives[i]))
            << one.Text() << " under " << PresetOf(low) << " on " << GetParam();
      }
      ++num_compared;
    }
    EXPECT_GT(num_compared, 600);
    EXPECT_LE(num_untried, 30) << "only recurrent layers, and convolutions that PyTorch itself refuses";
    EXPECT_EQ(num_refused, GetParam() == std::string("cuda") ? 8 : 0) << "only binary_cross_entropy";
  }
}

// Returns the norm of the difference, relative to the norm of `theirs`.
double RelativeError(const at::Tensor& ours, const at::Tensor& theirs) {
  const double difference = ours.to(at::kDouble).sub(theirs.to(at::kDouble)).norm().item<double>();
  return difference == 0 ? 0 : difference / std::max(theirs.to(at::kDouble).norm().item<double>(), 1e-6);
}

void ExpectNear(const executor::TensorMap& ours, const executor::TensorMap& theirs, double bound,
                const std::string& where) {
  for (const auto& [name, tensor] : theirs) {
    const auto found = ours.find(name);
    ASSERT_TRUE(found != ours.end() && found->second.defined()) << where << " has no " << name;
    EXPECT_EQ(found->second.sizes(), tensor.sizes()) << where << ", " << name;
    EXPECT_LE(RelativeError(found->second, tensor), bound) << where << ", " << name;
  }
}

TEST(AutocastNumbers, EveryFormGivesWhatTorchAutocastGivesOnACpu) {
  for (const Dtype low : kLow) {
    const double bound = low == Dtype::kBFloat16 ? 0x1p-6 : 0x1p-9;
    const auto cases = RunOpCases("cpu", low);
    ASSERT_TRUE(cases.ok()) << cases.status();
    int num_compared = 0;
    for (const OpCase& one : *cases) {
      if (one.gives.empty() || ComputesOtherwise(one, low) || graph::DrawsRandomNumbers(one.graph.nodes().front()) ||
          one.op() == "aten.empty.memory_format") {
        continue;
      }
      const auto program = UnderPreset(one, PresetOf(low), DeviceNamed("cpu"));
      ASSERT_TRUE(program.ok()) << one.Text() << ": " << program.status();
      const auto ran = RunProgram(one, *program);
      ASSERT_TRUE(ran.ok()) << one.Text() << ": " << ran.status();
      ExpectNear(ran->results, one.results, bound, one.Text());
      if (!HasRoughGradients(one)) {
        ExpectNear(ran->gradients, one.gradients, bound, one.Text() + ", gradients");
      }
      ++num_compared;
    }
    EXPECT_GT(num_compared, 600);
  }
}

}  // namespace
}  // namespace ampd::parity
