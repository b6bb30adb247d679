#pragma once

#include <memory>
#include <string>

#include "ampd/v1/precision.pb.h"
#include "graph/graph.h"
#include "precision/policy.h"
#include "worker/amp/engine.h"

// Engines for tests, on a CPU with native bf16.
namespace ampd::amp {

v1::PrecisionPolicy PresetNamed(const std::string& name);

// Resolves the policy for `program`, a graph that includes its losses. Throws if the policy cannot be resolved.
precision::ResolvedPolicy Resolved(const v1::PrecisionPolicy& policy, const graph::Graph& program);

// Returns an engine that trains `model`, which outputs logits, under the policy. Throws if the engine cannot be made.
std::unique_ptr<Engine> CpuEngine(const graph::Graph& model, const v1::PrecisionPolicy& policy,
                                  const EngineOptions& options);

}  // namespace ampd::amp
