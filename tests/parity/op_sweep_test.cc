// Runs every op of the engine's table forward and backward under every preset, in each form of its arguments, with all
// inputs in one dtype and with inputs in different dtypes. If the op can't be computed under a policy, the policy must
// be refused with a typed reason before anything runs. If the policy is accepted, the op must not throw, and its
// results must have the dtypes that the program states.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "ampd/v1/worker.pb.h"
#include "base/error.h"
#include "precision/preset.h"
#include "tests/parity/op_cases.h"
#include "tests/parity/op_run.h"

namespace ampd::parity {
namespace {

using graph::Dtype;

const std::vector<OpCase>& CasesIn(Dtype low) {
  static auto* const cases = new std::map<Dtype, std::vector<OpCase>>;
  const auto [found, is_new] = cases->try_emplace(low);
  if (is_new) {
    auto run = RunOpCases("none", low);
    EXPECT_TRUE(run.ok()) << run.status();
    found->second = run.ok() ? *std::move(run) : std::vector<OpCase>();
  }
  return found->second;
}

std::vector<std::string> Presets() {
  std::vector<std::string> names;
  for (const precision::Preset& preset : precision::AllPresets()) {
    if (preset.name != "tf32") {  // A CPU does not have tf32.
      names.emplace_back(preset.name);
    }
  }
  return names;
}

class OpSweep : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Presets, OpSweep, testing::ValuesIn(Presets()));

TEST_P(OpSweep, EveryFormRunsForwardAndBackwardOrIsRefusedByATypedReason) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.set_id("cpu");
  const Dtype compute = precision::FindPreset(GetParam())->formats.compute;
  int num_run = 0, num_refused = 0;
  for (const OpCase& one : CasesIn(compute == Dtype::kFloat16 ? Dtype::kFloat16 : Dtype::kBFloat16)) {
    const auto program = UnderPreset(one, GetParam(), cpu);
    if (!program.ok()) {
      EXPECT_EQ(ReasonOf(program.status()), "BANNED_OP") << one.Text() << ": " << program.status();
      EXPECT_EQ(one.op(), "aten.binary_cross_entropy.default");
      ++num_refused;
      continue;
    }
    const auto ran = RunProgram(one, *program);
    EXPECT_TRUE(ran.ok()) << one.Text() << ": " << ran.status().message();
    ++num_run;
  }
  EXPECT_GT(num_run, 650);
  EXPECT_LE(num_refused, 8);
}

}  // namespace
}  // namespace ampd::parity
