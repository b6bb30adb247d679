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

// Included only by engine*.cc.
namespace ampd::amp {

struct Engine::Programs {
  c10::intrusive_ptr<Fp8Layers> fp8;  // Null: no layer computes in FP8.
  executor::OpRegistry registry;
  std::unique_ptr<executor::Executor> eval;       // Null without a head.
  std::unique_ptr<executor::Executor> generator;  // Null without a generator.
  std::unique_ptr<executor::Executor> predictor;  // Null unless the engine predicts.
  graph::Head head = {};                          // Head of the evaluated model.
  int64_t num_classes = 0;                        // Number of classes, if the head predicts classes.
  std::optional<LabelCounter> label_counter;
};

}  // namespace ampd::amp
