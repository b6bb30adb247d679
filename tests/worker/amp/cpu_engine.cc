#include "tests/worker/amp/cpu_engine.h"

#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"

namespace ampd::amp {

v1::PrecisionPolicy PresetNamed(const std::string& name) {
  v1::PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

precision::ResolvedPolicy Resolved(const v1::PrecisionPolicy& policy, const graph::Graph& program) {
  v1::Device cpu;
  cpu.set_id("cpu");
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  return precision::ResolvePolicy(policy, program, cpu, precision::OptimizerKind::kAdam).value();
}

std::unique_ptr<Engine> CpuEngine(const graph::Graph& model, const v1::PrecisionPolicy& policy,
                                  const EngineOptions& options) {
  return Engine::Create(model, Resolved(policy, graph::WithLossHead(model).value()), options).value();
}

}  // namespace ampd::amp
