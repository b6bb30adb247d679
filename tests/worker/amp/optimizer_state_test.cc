// Tests the state that an engine keeps besides its weights, for each policy and optimizer: fp32 master weights, moments
// in bf16, averaged weights and parameter groups. Depending on the policy, the engine keeps each master in one tensor,
// in two 16-bit halves, or not at all.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "ATen/ops/allclose.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

using P = v1::PrecisionPolicy;

P Preset(const std::string& name) {
  P policy = PresetNamed(name);
  policy.set_allow_unsafe(true);
  return policy;
}

P InHalves() {
  P policy = Preset("bf16");
  policy.set_master(P::bf16_remainder16);
  return policy;
}

P Stochastic() {
  P policy = Preset("bf16");
  policy.set_master(P::none);
  policy.set_stochastic_rounding(true);
  policy.set_optimizer_state(P::bf16);
  return policy;
}

// Stochastic rounding of the bf16 parameters, beside parameters that a rule stores in fp16.
P StochasticBesideFp16() {
  P policy = Stochastic();
  v1::ModuleRule* rule = policy.add_module_rules();
  rule->set_match("classifier*");
  rule->set_compute(P::fp16);
  return policy;
}

P WithoutMasters(const std::string& preset) {
  P policy = Preset(preset);
  policy.set_master(P::none);
  return policy;
}

OptimizerConfig AdamW(double learning_rate = 1e-2) {
  return {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = learning_rate, .weight_decay = 0.01};
}

std::unique_ptr<Engine> MakeEngine(const P& policy, const OptimizerConfig& optimizer, bool with_cuda = false) {
  EngineOptions options{.optimizer = optimizer, .seed = 3};
  if (with_cuda) {
    std::string why;
    options.device.cuda_kernels = kernels::KernelsUnderTest(&why);
  }
  return CpuEngine(SmallLenet({4}), policy, options);
}

// Returns a batch that can be learned: the brightest quarter of an image gives its class.
Batch MakeBatch() {
  const at::Tensor labels = at::randint(0, 4, {32}, at::kLong);
  at::Tensor images = at::rand({32, 1, 8, 8});
  for (int64_t i = 0; i < 32; ++i) {
    images[i].narrow(1, 2 * labels[i].item<int64_t>(), 2).add_(1);
  }
  return {images, labels};
}

bool SameBits(const at::Tensor& left, const at::Tensor& right) {
  return left.nbytes() == right.nbytes() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

void ExpectSameState(const Engine& expected, const Engine& actual) {
  const EngineState left = expected.ExportState();
  const EngineState right = actual.ExportState();
  ASSERT_EQ(left.optimizer.size(), right.optimizer.size());
  for (const auto& [ours, theirs] : {std::pair(&left.model, &right.model), {&left.optimizer, &right.optimizer}}) {
    for (const auto& [name, tensor] : *ours) {
      EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
      ASSERT_TRUE(SameBits(tensor, theirs->at(name))) << name;
    }
  }
}

struct Case {
  const char* name;
  P policy;
  OptimizerConfig optimizer;
};

std::vector<Case> Cases() {
  OptimizerConfig with_average = AdamW();
  with_average.ema_decay = 0.9;
  OptimizerConfig sgd{.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0.05, .momentum = 0.9, .ema_decay = 0.5};
  return {{"halves", InHalves(), AdamW()},
          {"stochastic", Stochastic(), with_average},
          {"stochastic beside fp16", StochasticBesideFp16(), with_average},
          {"bf16 without masters", WithoutMasters("bf16"), sgd},
          {"fp16 without masters", WithoutMasters("fp16"), AdamW()},
          {"bf16 with averages", Preset("bf16"), with_average},
          {"fp32 with averages", Preset("fp32"), sgd}};
}

TEST(OptimizerState, TrainingGoesOnBitForBitFromAnExportedState) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    const auto whole = MakeEngine(one.policy, one.optimizer);
    for (int step = 0; step < 5; ++step) {
      whole->Step({MakeBatch()});
    }
    const auto resumed = MakeEngine(one.policy, one.optimizer);
    ASSERT_TRUE(resumed->ImportState(whole->ExportState()).ok());
    ExpectSameState(*whole, *resumed);
    for (int step = 0; step < 5; ++step) {
      const Batch batch = MakeBatch();
      EXPECT_EQ(whole->Step({batch}).loss, resumed->Step({batch}).loss);
      EXPECT_EQ(whole->Evaluate(batch).loss, resumed->Evaluate(batch).loss);
    }
    ExpectSameState(*whole, *resumed);
  }
}

// When the trainer saves a checkpoint, it exports the state into the memory of the state that it exported before.
TEST(OptimizerState, ExportedIntoAnEarlierState_ItIsThatOfNowInTheSameMemory) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    const auto engine = MakeEngine(one.policy, one.optimizer);
    engine->Step({MakeBatch()});
    EngineState early = engine->ExportState();
    early.model["classifier.0.weight"] = at::ones({2, 3});  // No tensor of this model has this shape.
    early.model["of another model"] = at::ones({2, 3});
    std::map<std::string, const void*> places;
    for (const TensorMap* map : {&early.model, &early.optimizer}) {
      for (const auto& [name, tensor] : *map) {
        places[name] = tensor.const_data_ptr();
      }
    }
    engine->Step({MakeBatch()});
    const EngineState fresh = engine->ExportState();
    const EngineState again = engine->ExportState(std::move(early));
    EXPECT_EQ(again.applied_steps, 2);
    for (const auto& [expected, actual] :
         {std::pair(&fresh.model, &again.model), {&fresh.optimizer, &again.optimizer}}) {
      ASSERT_EQ(actual->size(), expected->size());
      for (const auto& [name, tensor] : *expected) {
        EXPECT_TRUE(SameBits(tensor, actual->at(name))) << name;
        EXPECT_EQ(actual->at(name).const_data_ptr() == places.at(name), name != "classifier.0.weight") << name;
      }
    }
  }
}

TEST(OptimizerState, CudaKernelsGiveTheCpuEnginesBits) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    const auto cpu = MakeEngine(one.policy, one.optimizer);
    const auto cuda = MakeEngine(one.policy, one.optimizer, /*with_cuda=*/true);
    for (int step = 0; step < 3; ++step) {
      const Batch batch = MakeBatch();
      EXPECT_EQ(cpu->Step({batch}).loss, cuda->Step({batch}).loss);
    }
    ExpectSameState(*cpu, *cuda);
  }
}

TEST(OptimizerState, EveryWayToStoreWeightsLearns) {
  for (const P& policy : {Preset("bf16"), InHalves(), Stochastic()}) {
    const auto engine = MakeEngine(policy, AdamW());
    const Batch test = MakeBatch();
    const double before = engine->Evaluate(test).loss;
    for (int step = 0; step < 60; ++step) {
      engine->Step({MakeBatch()});
    }
    EXPECT_LT(engine->Evaluate(test).loss, 0.3 * before) << policy.ShortDebugString();
  }
}

// An fp32 master that is split in two halves and joined again has the same bits. Without the lower half, the master is
// rounded to bf16.
TEST(OptimizerState, HalvesKeepEveryBitOfImportedMasters) {
  const auto fp32 = MakeEngine(Preset("fp32"), AdamW());
  fp32->Step({MakeBatch()});
  const auto halves = MakeEngine(InHalves(), AdamW());
  const auto stochastic = MakeEngine(Stochastic(), AdamW());
  ASSERT_TRUE(halves->ImportState(fp32->ExportState()).ok());
  ASSERT_TRUE(stochastic->ImportState(fp32->ExportState()).ok());
  for (const auto& [name, tensor] : fp32->ExportState().model) {
    EXPECT_TRUE(SameBits(halves->ExportState().model.at(name), tensor)) << name;
  }
  const at::Tensor rounded = stochastic->ExportState().model.at("classifier.0.weight");
  EXPECT_TRUE(SameBits(rounded, fp32->ExportState().model.at("classifier.0.weight").to(at::kBFloat16).to(at::kFloat)));
}

// A code of bf16 means another number in fp16. So fp16 weights that were rounded to bf16 would be wrong by orders of
// magnitude.
TEST(OptimizerState, WeightsThatARuleStoresInFp16AreRoundedToTheNearestFp16Number) {
  const OptimizerConfig sgd = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0.05, .momentum = 0.9};
  P nearest = StochasticBesideFp16();
  nearest.set_stochastic_rounding(false);
  const Batch batch = MakeBatch();
  const auto weights_of = [&](const P& policy) {
    const auto engine = MakeEngine(policy, sgd);
    engine->Step({batch});
    return engine->ExportState().model;
  };
  const TensorMap stochastic = weights_of(StochasticBesideFp16()), rounded = weights_of(nearest),
                  exact = weights_of(Preset("fp32"));
  for (const auto& [name, weights] : stochastic) {
    if (name.starts_with("classifier")) {
      EXPECT_TRUE(SameBits(weights, rounded.at(name))) << name;
      EXPECT_TRUE(at::allclose(weights, exact.at(name), 0, 5e-3)) << name;
    }
  }
  EXPECT_FALSE(SameBits(stochastic.at("features.0.weight"), rounded.at("features.0.weight")))
      << "weights in bf16 are still rounded stochastically";
}

// The textbook case for master weights: updates far below the weights' spacing are lost without a master, and kept with
// one.
TEST(OptimizerState, SmallUpdatesMoveMastersAndNotFp16Weights) {
  const OptimizerConfig tiny = AdamW(1e-7);
  const auto with = MakeEngine(Preset("fp16"), tiny);
  const auto without = MakeEngine(WithoutMasters("fp16"), tiny);
  ASSERT_TRUE(with->ImportState(without->ExportState()).ok()) << "both begin with what fp16 holds";
  const at::Tensor start = without->ExportState().model.at("classifier.0.weight");
  for (int step = 0; step < 10; ++step) {
    const Batch batch = MakeBatch();
    with->Step({batch});
    without->Step({batch});
  }
  // With masters, only weights of inactive units stay: their gradient is 0. Without masters, only few weights move:
  // those near zero, where the spacing of fp16 is as small as the updates.
  const auto moved = [&](const Engine& engine) {
    return engine.ExportState().model.at("classifier.0.weight").ne(start).to(at::kFloat).mean().item<float>();
  };
  EXPECT_GT(moved(*with), 0.5);
  EXPECT_LT(moved(*without), 0.05);
}

TEST(OptimizerState, EvaluationRunsOnTheAverages) {
  OptimizerConfig config = AdamW();
  config.ema_decay = 0.8;
  for (const char* preset : {"fp32", "bf16"}) {
    const auto engine = MakeEngine(Preset(preset), config);
    const auto plain = MakeEngine(Preset(preset), AdamW());
    const Batch test = MakeBatch();
    EXPECT_EQ(engine->Evaluate(test).loss, plain->Evaluate(test).loss) << "averages begin as the weights";
    for (int step = 0; step < 8; ++step) {
      engine->Step({MakeBatch()});
      EngineState state = engine->ExportState();
      for (auto& [name, tensor] : state.model) {
        const auto average = state.optimizer.find(name + ".average");
        tensor = average != state.optimizer.end() ? average->second : tensor;
      }
      ASSERT_TRUE(plain->ImportState(state).ok());
      EXPECT_EQ(engine->Evaluate(test).loss, plain->Evaluate(test).loss) << preset << " step " << step;
    }
    ASSERT_TRUE(plain->ImportState(engine->ExportState()).ok());
    EXPECT_NE(engine->Evaluate(test).loss, plain->Evaluate(test).loss) << "the weights are elsewhere by now";
  }
}

TEST(OptimizerState, ImportedFirstWeightsAreWhereAveragesBegin) {
  OptimizerConfig config = AdamW();
  config.ema_decay = 0.8;
  const auto engine = MakeEngine(Preset("bf16"), config);
  EngineState state = engine->ExportState();
  state.model.at("classifier.0.weight").fill_(0.125);
  ASSERT_TRUE(engine->ImportState(state).ok());
  EXPECT_EQ(engine->ExportState().optimizer.at("classifier.0.weight.average").mean().item<float>(), 0.125f);
}

TEST(OptimizerState, SkippedStepLeavesAveragesAndTheStreamOfRandomBitsAlone) {
  OptimizerConfig config = AdamW();
  config.ema_decay = 0.8;
  const auto clean = MakeEngine(Stochastic(), config);
  const auto skipping = MakeEngine(Stochastic(), config);
  Batch bad = MakeBatch();
  bad.images.fill_(std::numeric_limits<float>::infinity());
  for (int step = 0; step < 4; ++step) {
    const Batch batch = MakeBatch();
    clean->Step({batch});
    ASSERT_TRUE(skipping->Step({bad}).skipped);
    skipping->Step({batch});
  }
  ExpectSameState(*clean, *skipping);
}

// Each update is 1/128 of the distance between neighbouring bf16 numbers, and is rounded stochastically. So in each
// step, about one element in 128 changes.
TEST(OptimizerState, RandomBitsDifferFromStepToStepAndFromTensorToTensor) {
  const auto kernels = StepKernels::Make({});
  std::vector<Parameter> parameters;
  for (const char* name : {"a", "b"}) {
    parameters.push_back(MakeParameter(name, at::ones({20'000}), at::kBFloat16, precision::Masters::kNone, *kernels));
    parameters.back().stochastic = true;
  }
  Optimizer optimizer({.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0x1p-14}, parameters, *kernels);
  kernels::PhaseBlock phase;
  phase.rule = optimizer.rule();
  for (int step = 0; step < 64; ++step) {
    kernels::FinalizeDecision(/*step=*/{}, phase);
    optimizer.Step({at::ones({20'000}).neg(), at::ones({20'000}).neg()}, &phase.decision);
  }
  const at::Tensor first = MasterOf(parameters[0]);
  // The expected share of moved elements, 1 - (127/128)^64, is 0.395. With the same random bits in each step it would
  // be 1/128.
  EXPECT_NEAR(first.gt(1).to(at::kFloat).mean().item<float>(), 0.395, 0.02);
  EXPECT_FALSE(SameBits(first, MasterOf(parameters[1])));
}

TEST(OptimizerState, TheFirstGroupThatMatchesHasTheNumbers) {
  OptimizerConfig config{.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0.1, .weight_decay = 0.5};
  config.groups = {{.match = "classifier.0.*", .learning_rate = 0.0, .weight_decay = {}},
                   {.match = "*.bias", .learning_rate = {}, .weight_decay = 0.0}};
  OptimizerConfig plain = config;
  plain.groups.clear();
  const auto grouped = MakeEngine(Preset("fp32"), config);
  const auto engine = MakeEngine(Preset("fp32"), plain);
  const TensorMap start = grouped->ExportState().model;
  const Batch batch = MakeBatch();
  grouped->Step({batch});
  engine->Step({batch});
  const TensorMap with = grouped->ExportState().model;
  const TensorMap without = engine->ExportState().model;
  EXPECT_TRUE(SameBits(with.at("classifier.0.weight"), start.at("classifier.0.weight")));
  EXPECT_TRUE(SameBits(with.at("classifier.0.bias"), start.at("classifier.0.bias"))) << "the first group wins";
  EXPECT_TRUE(SameBits(with.at("classifier.2.weight"), without.at("classifier.2.weight"))) << "no group matches";
  // The engine `grouped` has a parameter group without weight decay for this bias. In the other engine, weight decay
  // removes 0.1 * 0.5 of the bias's initial value.
  EXPECT_TRUE(at::allclose(with.at("classifier.2.bias"),
                           without.at("classifier.2.bias").add(start.at("classifier.2.bias"), 0.05), 1e-5, 1e-7));
  EXPECT_FALSE(SameBits(with.at("classifier.2.bias"), without.at("classifier.2.bias")));
}

}  // namespace
}  // namespace ampd::amp
