// The op lists of the torch-amp presets against PyTorch's own: every op of the engine's table is run under
// torch.autocast of the wheel, for CPUs and for GPUs, and must return the dtype that the resolved policy says.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/graph.h"
#include "graph/op_table.h"
#include "precision/policy.h"
#include "tests/parity/oracle.h"

namespace ampd::parity {
namespace {

using graph::OpClass;

// As oracle_autocast.py writes them.
constexpr int64_t kFloat32 = 0;
constexpr int64_t kLow = 1;
constexpr int64_t kNotFloating = 2;
constexpr int64_t kRefused = -1;
constexpr int64_t kNeedsItsDevice = -2;

v1::Device DeviceNamed(const std::string& name) {
  v1::Device device;
  device.set_id(name);
  device.set_kind(name == "cuda" ? v1::Device::GPU : v1::Device::CPU);
  device.set_capability_major(9);
  return device;
}

precision::ResolvedPolicy PolicyOf(const std::string& preset, const std::string& device) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  return *precision::ResolvePolicy(policy, graph::Graph("none"), DeviceNamed(device), precision::OptimizerKind::kAdam);
}

template <size_t kSize>
bool IsOneOf(const graph::OpRow& row, const std::string_view (&ops)[kSize]) {
  return std::find(std::begin(ops), std::end(ops), row.op) != std::end(ops);
}

// Indices and truth values; the other ops without a gradient give constants in their input's dtype.
bool GivesFloats(const graph::OpRow& row) {
  constexpr std::string_view kOthers[] = {
      "aten.argmax.default", "aten.arange.default", "aten.arange.start",        "aten.bitwise_not.default",
      "aten.eq.Scalar",      "aten.eq.Tensor",      "aten.gt.Scalar",           "aten.gt.Tensor",
      "aten.le.Scalar",      "aten.le.Tensor",      "aten.logical_not.default", "aten.lt.Scalar",
      "aten.ne.Scalar"};
  return !IsOneOf(row, kOthers);
}

// What has no input, and the dtype that it is told.
bool MakesFromNothing(const graph::OpRow& row) {
  constexpr std::string_view kOps[] = {"aten.empty.memory_format", "aten.full.default", "aten.ones.default",
                                       "aten.zeros.default"};
  return IsOneOf(row, kOps);
}

// What the decision gives for a float32 input, or for one of the autocast dtype (the other arm of kPromote is float32).
int64_t CodeFor(OpClass op_class, const graph::OpRow& row, bool low_input) {
  if (op_class == OpClass::kBanned) {
    return kRefused;
  }
  if (!GivesFloats(row)) {
    return kNotFloating;
  }
  if (MakesFromNothing(row)) {
    return kFloat32;
  }
  switch (op_class) {
    case OpClass::kLower:
      return kLow;
    case OpClass::kAsInput:
      return low_input ? kLow : kFloat32;
    default:
      return kFloat32;
  }
}

class AutocastParity : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, AutocastParity, testing::Values("cpu", "cuda"));

TEST_P(AutocastParity, EveryOpReturnsTheDtypeThatTorchAutocastReturns) {
  const std::string device = GetParam();
  for (const auto& [preset, dtype] : {std::pair("torch-amp-bf16", "bfloat16"), {"torch-amp-fp16", "float16"}}) {
    const auto oracle = RunOracle("oracle_autocast", {device, dtype});
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    const precision::ResolvedPolicy policy = PolicyOf(preset, device);
    int num_compared = 0;
    int num_untried = 0;
    for (const graph::OpRow& row : graph::AllOps()) {
      if (row.op == "aten.to.dtype" || !row.in_place_of.empty()) {
        continue;  // says its dtype itself, or is gone before a policy is applied
      }
      const auto codes = oracle->find(std::string(row.op));
      ASSERT_NE(codes, oracle->end()) << row.op << " has no arguments in oracle_autocast.py";
      const OpClass op_class =
          precision::DecideOp(policy, graph::Graph("none"),
                              {.op = std::string(row.op), .arguments = {}, .outputs = {}, .module_path = {}})
              .op_class;
      for (const bool low_input : {false, true}) {
        const int64_t code = codes->second.const_data_ptr<int64_t>()[low_input ? 1 : 0];
        if (code == kNeedsItsDevice) {
          ++num_untried;
          continue;
        }
        EXPECT_EQ(CodeFor(op_class, row, low_input), code)
            << row.op << " under " << preset << " on " << device << " with " << (low_input ? dtype : "float32");
      }
      ++num_compared;
    }
    EXPECT_GT(num_compared, 30);
    EXPECT_LE(num_untried, device == "cuda" ? 4 : 1) << "only recurrent layers need their device";
  }
}

}  // namespace
}  // namespace ampd::parity
