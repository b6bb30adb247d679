#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "c10/util/intrusive_ptr.h"
#include "graph/heads.h"
#include "worker/amp/engine.h"
#include "worker/amp/fp8/fp8_layers.h"
#include "worker/amp/label_counter.h"
#include "worker/executor/executor.h"
#include "worker/executor/op_registry.h"

// Only engine*.cc include it.
namespace ampd::amp {

struct Engine::Programs {
  c10::intrusive_ptr<Fp8Layers> fp8;  // null: no layer computes in FP8
  executor::OpRegistry registry;
  std::unique_ptr<executor::Executor> eval;       // null without a head
  std::unique_ptr<executor::Executor> generator;  // null where nothing is generated
  graph::Head head = {};                          // of the model that is evaluated
  int64_t num_classes = 0;                        // that it predicts, where it does
  std::optional<LabelCounter> label_counter;
};

}  // namespace ampd::amp
