#include "worker/train/plan/initial_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FileOf(const executor::TensorMap& tensors) {
  const auto file = TensorFile::Of(tensors);
  std::string bytes;
  for (const std::string_view part : file->parts()) {
    bytes.append(part);
  }
  return bytes;
}

executor::TensorMap Model() {
  return {{"conv.weight", at::zeros({2, 3})},
          {"bn.running_mean", at::zeros({2})},
          {"bn.num_batches_tracked", at::zeros({}, at::kLong)},
          {"head.weight", at::full({4, 2}, 7.0)},
          {"head.bias", at::full({4}, 7.0)}};
}

executor::TensorMap Weights() {
  return {{"conv.weight", at::arange(6).to(at::kFloat).view({2, 3})},
          {"bn.running_mean", at::arange(2).to(at::kFloat)},
          {"bn.num_batches_tracked", at::full({}, 9, at::kLong)},
          {"head.weight", at::arange(8).to(at::kFloat).view({4, 2})},
          {"head.bias", at::arange(4).to(at::kFloat)}};
}

std::string ErrorOf(const executor::TensorMap& weights, const std::vector<std::string>& anew = {}) {
  executor::TensorMap model = Model();
  const absl::Status status = LoadInitialWeights(FileOf(weights), anew, model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

TEST(InitialWeights, EveryTensorOfTheFile_IsTheModels) {
  executor::TensorMap model = Model();
  const auto loaded = LoadInitialWeights(FileOf(Weights()), {}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [name, tensor] : Weights()) {
    EXPECT_TRUE(at::equal(model.at(name), tensor)) << name;
    EXPECT_EQ(model.at(name).scalar_type(), Model().at(name).scalar_type()) << name;
  }
  EXPECT_EQ(loaded->num_tensors, 5);
  EXPECT_EQ(loaded->num_bytes, (6 + 2 + 8 + 4) * 4 + 8);
  EXPECT_EQ(Describe(*loaded, "a file"), "begins with 5 tensors of a file, 88 bytes");
}

TEST(InitialWeights, EveryFloatingPointFormat_IsWidened) {
  for (const at::ScalarType type :
       {at::kHalf, at::kBFloat16, at::kDouble, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat}) {
    executor::TensorMap weights = Weights();
    for (auto& [name, tensor] : weights) {
      tensor = tensor.is_floating_point() ? tensor.to(type) : tensor;
    }
    executor::TensorMap model = Model();
    ASSERT_TRUE(LoadInitialWeights(FileOf(weights), {}, model).ok());
    for (const auto& [name, tensor] : weights) {
      EXPECT_EQ(model.at(name).scalar_type(), Model().at(name).scalar_type());
      EXPECT_TRUE(at::equal(model.at(name), tensor.to(model.at(name).scalar_type()))) << name << " " << type;
    }
  }
}

executor::TensorMap Gpt2(double value) {
  return {{"transformer.wte.weight", at::full({4, 2}, value)}, {"transformer.h.0.ln_1.bias", at::full({2}, value)}};
}

TEST(InitialWeights, AFileOfTheModelWithoutItsHead_LacksTheFirstPartOfEveryName) {
  executor::TensorMap weights;
  for (const auto& [name, tensor] : Gpt2(3)) {
    weights[name.substr(name.find('.') + 1)] = tensor;
  }
  weights["h.0.attn.bias"] = at::zeros({1});
  executor::TensorMap model = Gpt2(0);
  const auto loaded = LoadInitialWeights(FileOf(weights), {}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->num_tensors, 2);
  EXPECT_THAT(loaded->ignored, ElementsAre("h.0.attn.bias"));
  for (const auto& [name, tensor] : Gpt2(3)) {
    EXPECT_TRUE(at::equal(model.at(name), tensor)) << name;
  }
  weights["transformer.wte.weight"] = at::zeros({4, 2});
  EXPECT_THAT(std::string(LoadInitialWeights(FileOf(weights), {}, model).status().message()),
              HasSubstr("1 missing (transformer.h.0.ln_1.bias), 2 extra (h.0.ln_1.bias, wte.weight)"));
}

TEST(InitialWeights, ATiedHeadThatIsTheEmbeddingOnceMore_IsNotNeeded) {
  executor::TensorMap weights = Gpt2(3);
  weights["lm_head.weight"] = weights.at("transformer.wte.weight").clone();
  executor::TensorMap model = Gpt2(0);
  const auto loaded = LoadInitialWeights(FileOf(weights), {}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->ignored, ElementsAre("lm_head.weight"));
  weights["lm_head.weight"].view({-1})[3] = 4;
  EXPECT_THAT(std::string(LoadInitialWeights(FileOf(weights), {}, model).status().message()),
              HasSubstr("1 extra (lm_head.weight)"));
}

graph::SavedNames HeadAndMask() { return {.left_out = {"mask"}, .tied = {{"lm.head", "lm.table"}}}; }

executor::TensorMap TiedModel(double value) {
  return {{"lm.table", at::full({4, 2}, value)}, {"mask", at::full({3}, 1.0)}};
}

TEST(InitialWeights, WhatPythonDoesNotSave_StaysAsTheModelHasIt) {
  executor::TensorMap model = TiedModel(0);
  ASSERT_TRUE(LoadInitialWeights(FileOf({{"lm.table", at::full({4, 2}, 3.0)}}), {}, model, HeadAndMask()).ok());
  EXPECT_TRUE(at::equal(model.at("lm.table"), at::full({4, 2}, 3.0)));
  EXPECT_TRUE(at::equal(model.at("mask"), at::full({3}, 1.0)));
  EXPECT_THAT(
      std::string(LoadInitialWeights(FileOf({{"mask", at::zeros({3})}}), {}, model, HeadAndMask()).status().message()),
      HasSubstr("1 missing (lm.table)"));
  model = TiedModel(0);
  ASSERT_TRUE(LoadInitialWeights(FileOf(TiedModel(3)), {}, model, HeadAndMask()).ok()) << "a file may have it";
}

TEST(InitialWeights, ATiedParameter_IsTakenByAnyOfItsNames) {
  executor::TensorMap model = TiedModel(0);
  executor::TensorMap weights = {{"lm.head", at::full({4, 2}, 3.0)}};
  ASSERT_TRUE(LoadInitialWeights(FileOf(weights), {}, model, HeadAndMask()).ok());
  EXPECT_TRUE(at::equal(model.at("lm.table"), weights.at("lm.head")));
  weights["lm.table"] = at::full({4, 2}, 3.0);
  const auto loaded = LoadInitialWeights(FileOf(weights), {}, model, HeadAndMask());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->ignored, ElementsAre("lm.head"));
  weights["lm.table"] = at::full({4, 2}, 5.0);
  EXPECT_THAT(std::string(LoadInitialWeights(FileOf(weights), {}, model, HeadAndMask()).status().message()),
              HasSubstr("1 extra (lm.head)"));
}

TEST(InitialWeights, WhatDoesNotFit_IsListedByKind) {
  executor::TensorMap weights = Weights();
  weights.erase("conv.weight");
  weights["head.bias"] = at::zeros({5});
  weights["bn.running_mean"] = at::zeros({2}, at::kLong);
  weights["fc.weight"] = at::zeros({1});
  const std::string error = ErrorOf(weights);
  EXPECT_THAT(error, HasSubstr("1 missing (conv.weight)"));
  EXPECT_THAT(error, HasSubstr("1 of another shape (head.bias: [5] instead of [4])"));
  EXPECT_THAT(error, HasSubstr("1 of another dtype (bn.running_mean: I64)"));
  EXPECT_THAT(error, HasSubstr("1 extra (fc.weight)"));
  EXPECT_THAT(error, HasSubstr("model.initialize_anew"));
}

TEST(InitialWeights, ALongList_IsCutToACount) {
  executor::TensorMap weights = Weights();
  for (int i = 0; i < 1000; ++i) {
    weights["extra." + std::to_string(i)] = at::zeros({1});
  }
  const std::string error = ErrorOf(weights);
  EXPECT_THAT(error, HasSubstr("1000 extra (extra.0, extra.1, extra.10 and 997 more)"));
  EXPECT_LT(error.size(), 300u);
}

TEST(InitialWeights, ANewHead_KeepsWhatTheModelHas) {
  executor::TensorMap weights = Weights();
  weights["head.weight"] = at::zeros({10, 2});  // A head for another number of classes than the model's.
  weights.erase("head.bias");
  weights["old.scale"] = at::zeros({1});
  executor::TensorMap model = Model();
  const auto loaded = LoadInitialWeights(FileOf(weights), {"head.*", "old.*"}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(at::equal(model.at("head.weight"), Model().at("head.weight")));
  EXPECT_TRUE(at::equal(model.at("head.bias"), Model().at("head.bias")));
  EXPECT_TRUE(at::equal(model.at("conv.weight"), Weights().at("conv.weight")));
  EXPECT_THAT(loaded->anew, ElementsAre("head.bias", "head.weight"));
  EXPECT_EQ(loaded->num_tensors, 3);
  EXPECT_THAT(Describe(*loaded, "a file"), HasSubstr("; 2 begin anew: head.bias, head.weight"));
}

TEST(InitialWeights, WhatIsToBeginAnew_DoesSoThoughTheFileHasIt) {
  executor::TensorMap model = Model();
  ASSERT_TRUE(LoadInitialWeights(FileOf(Weights()), {"head.*"}, model).ok());
  EXPECT_TRUE(at::equal(model.at("head.weight"), Model().at("head.weight")));
}

TEST(InitialWeights, AGlobThatMatchesNothing_IsAnError) {
  EXPECT_THAT(ErrorOf(Weights(), {"head.*", "clasifier.*"}), HasSubstr("matches no tensor: \"clasifier.*\""));
}

TEST(InitialWeights, CountersOfBatches_MayBeMissingOnEitherSide) {
  executor::TensorMap weights = Weights();
  weights.erase("bn.num_batches_tracked");
  executor::TensorMap model = Model();
  EXPECT_TRUE(LoadInitialWeights(FileOf(weights), {}, model).ok());
  EXPECT_TRUE(at::equal(model.at("bn.num_batches_tracked"), Model().at("bn.num_batches_tracked")));
  model.erase("bn.num_batches_tracked");
  const auto loaded = LoadInitialWeights(FileOf(Weights()), {}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->ignored, ElementsAre("bn.num_batches_tracked"));
  EXPECT_THAT(Describe(*loaded, "a file"), HasSubstr("; 1 more are not needed: bn.num_batches_tracked"));
}

TEST(InitialWeights, BuffersThatTransformersComputes_AreNotNeeded) {
  executor::TensorMap weights = Weights();
  weights["h.0.attn.bias"] = at::zeros({1, 1, 4, 4});
  weights["h.0.attn.masked_bias"] = at::zeros({});
  weights["embeddings.position_ids"] = at::zeros({1, 4}, at::kLong);
  executor::TensorMap model = Model();
  const auto loaded = LoadInitialWeights(FileOf(weights), {}, model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->ignored.size(), 3u);
}

TEST(InitialWeights, WhatIsNoSafetensorsFile_IsAnError) {
  executor::TensorMap model = Model();
  EXPECT_THAT(std::string(LoadInitialWeights("PK\3\4 a zip archive", {}, model).status().message()),
              HasSubstr("safetensors: a header of"));
}

}  // namespace
}  // namespace ampd::train
