#include "tests/worker/amp/cpu_engine.h"

#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "precision/policy.h"

namespace ampd::amp {

v1::PrecisionPolicy PresetNamed(const std::string& name) {
  v1::PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

std::unique_ptr<Engine> CpuEngine(const graph::Graph& model, const v1::PrecisionPolicy& policy,
                                  const EngineOptions& options) {
  v1::Device cpu;
  cpu.set_id("cpu");
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  const auto resolved =
      precision::ResolvePolicy(policy, graph::WithLossHead(model).value(), cpu, precision::OptimizerKind::kAdam);
  return Engine::Create(model, resolved.value(), options).value();
}

}  // namespace ampd::amp
