#include "worker/amp/eval_sums.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "worker/executor/executor.h"

namespace ampd::amp {
namespace {

constexpr int64_t kEvalClasses = 5;

// Returns an evaluation program: one linear layer, and then this loss head. The layer's output has the name that the
// head expects. The tests do not use the values that the program computes.
graph::Graph EvalProgramOf(graph::Head head) {
  graph::GraphBuilder b("layer");
  b.Output(std::string(graph::OutputNamesOf(head).front()),
           b.Linear("fc", b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 4}}), kEvalClasses));
  return graph::WithEvalHead(std::move(b).Build().value()).value();
}

// Returns the F1 of a class by its definition, from precision and recall. `wanted`: the samples of the class; `given`:
// the samples for which the class was predicted.
double F1Of(const std::set<size_t>& wanted, const std::set<size_t>& given) {
  std::vector<size_t> both;
  std::set_intersection(wanted.begin(), wanted.end(), given.begin(), given.end(), std::back_inserter(both));
  if (both.empty()) {
    return 0;
  }
  const double precision = static_cast<double>(both.size()) / static_cast<double>(given.size());
  const double recall = static_cast<double>(both.size()) / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

// Returns the number of labels that are not ignored.
double CountOf(const at::Tensor& labels) { return labels.ne(graph::kIgnoredLabel).sum().item<double>(); }

EvalSums Classified(const std::vector<int64_t>& predicted, const std::vector<int64_t>& labels) {
  const at::Tensor given = at::tensor(predicted);
  const at::Tensor wanted = at::tensor(labels);
  return SumsOf(graph::Head::kClassification, kEvalClasses, EvalProgramOf(graph::Head::kClassification),
                {at::tensor(2.5f), given.eq(wanted).sum(), given, at::one_hot(given, kEvalClasses).to(at::kFloat)},
                wanted, CountOf(wanted));
}

TEST(SumsOf, ClassesAreCountedExactlyOverBatchesOfAnySize) {
  std::mt19937 random(4);
  std::vector<int64_t> labels(101), predicted(101);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] =
        static_cast<int64_t>(random() % (kEvalClasses - 1));  // The last class is neither present nor predicted.
    predicted[i] = random() % 3 == 0 ? static_cast<int64_t>(random() % (kEvalClasses - 1)) : labels[i];
  }
  double expected = 0;
  for (int64_t one = 0; one < kEvalClasses; ++one) {
    std::set<size_t> wanted, given;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == one) wanted.insert(i);
      if (predicted[i] == one) given.insert(i);
    }
    expected += F1Of(wanted, given) / kEvalClasses;
  }
  for (const size_t batch : {1, 7, 50, 101}) {
    EvalSums sums;
    for (size_t begin = 0; begin < labels.size(); begin += batch) {
      const auto end = static_cast<int64_t>(std::min(begin + batch, labels.size()));
      const auto part = [&](const std::vector<int64_t>& all) {
        return std::vector<int64_t>(all.begin() + static_cast<int64_t>(begin), all.begin() + end);
      };
      sums.Add(Classified(part(predicted), part(labels)));
    }
    EXPECT_EQ(sums.num_samples, 101);
    EXPECT_DOUBLE_EQ(MacroF1(sums.classes), expected) << "batches of " << batch;
  }
}

TEST(MacroF1, IsScikitLearnsOnItsOwnExample) {
  // The example in the documentation of sklearn.metrics.f1_score: for y_true [0, 1, 2, 0, 1, 2] and y_pred [0, 2, 1, 0,
  // 0, 1], the macro F1 is 0.8 / 3.
  EvalSums sums = Classified({0, 2, 1, 0, 0, 1}, {0, 1, 2, 0, 1, 2});
  sums.classes.resize(3);
  EXPECT_DOUBLE_EQ(MacroF1(sums.classes), 0.8 / 3);
}

TEST(SumsOf, EveryDecisionCountsForItsClass) {
  const at::Tensor labels = at::tensor({1.f, 0.f, 0.f, 1.f, 0.f, 1.f, 1.f, 0.f, 0.f, 0.f}).view({2, kEvalClasses});
  const at::Tensor predicted =
      at::tensor({1.f, 1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, kEvalClasses}).gt(0);
  const EvalSums sums = SumsOf(graph::Head::kMultiLabel, kEvalClasses, EvalProgramOf(graph::Head::kMultiLabel),
                               {at::tensor(7.f), predicted.eq(labels).sum(), predicted}, labels, 10);
  EXPECT_EQ(sums.loss, 7);
  EXPECT_EQ(sums.num_correct, 7);
  EXPECT_EQ(sums.num_labels, 10);
  EXPECT_EQ(sums.num_samples, 2);
  EXPECT_DOUBLE_EQ(MacroF1(sums.classes), 1.0 / kEvalClasses)
      << "of class 0 all right, of 1 and 3 nothing, of others none";
  EXPECT_EQ(sums.classes[1].false_positives, 1);
  EXPECT_EQ(sums.classes[1].false_negatives, 1);
  EXPECT_EQ(sums.classes[3].false_negatives, 1);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns the evaluation program of a model that outputs its input.
graph::Graph OfGivenLogits(graph::Shape shape) {
  graph::Graph model("given");
  model.AddOutput("logits", model.AddInput("images", {graph::Dtype::kFloat32, std::move(shape)}));
  return graph::WithEvalHead(model).value();
}

// Returns the sums that SumsOf computes from the results of the evaluation program. `logits`: (B, classes); `labels`:
// (B).
EvalSums Evaluated(const at::Tensor& logits, const at::Tensor& labels) {
  const graph::Graph program = OfGivenLogits({graph::Dim::Batch(), graph::Dim(logits.size(1))});
  const auto executor = executor::Executor::Create(program, executor::OpRegistry()).value();
  EXPECT_TRUE(executor->Bind({}).ok());
  const std::vector<at::Tensor> outputs = executor->Run({logits, labels});
  return SumsOf(graph::Head::kClassification, logits.size(1), program, outputs, labels, CountOf(labels));
}

TEST(SumsOf, LabelsThatAreLeftOutCountNowhere) {
  const at::Tensor logits = at::rand({12, 8});
  at::Tensor labels = at::randint(0, 8, {12}, at::kLong);
  const at::Tensor left = at::tensor({0, 3, 4, 7, 8, 11}, at::kLong);
  const EvalSums expected = Evaluated(logits.index_select(0, left), labels.index_select(0, left));
  for (int64_t i = 0; i < 12; ++i) {
    if (left.ne(i).all().item<bool>()) {
      labels[i] = graph::kIgnoredLabel;
    }
  }
  const EvalSums sums = Evaluated(logits, labels);
  EXPECT_NEAR(sums.loss, expected.loss, 1e-5);
  EXPECT_EQ(sums.num_counted, 6);
  EXPECT_EQ(sums.num_labels, 6);
  EXPECT_EQ(sums.num_correct, expected.num_correct);
  EXPECT_EQ(sums.num_top5, expected.num_top5);
  EXPECT_EQ(MacroF1(sums.classes), MacroF1(expected.classes));
}

TEST(SumsOf, AModelsOwnLossWeighsWhatItCounts) {
  graph::Graph model("own");
  model.AddOutput("loss", model.AddInput("images", {graph::Dtype::kFloat32, {}}));
  const graph::Graph program = graph::WithEvalHead(model).value();
  EvalSums sums;
  for (const auto& [loss, count] : {std::pair(2.0f, 3.0), {kNan, 0.0}, {8.0f, 0.5}}) {
    sums.Add(SumsOf(graph::Head::kOwnLoss, 0, program, {at::tensor(loss)}, at::zeros({4}), count));
  }
  EXPECT_DOUBLE_EQ(sums.loss / sums.num_counted, (2 * 3 + 8 * 0.5) / 3.5) << "the mean of nothing is left out";
  EXPECT_EQ(sums.num_samples, 12);
}

// Computes EvalSums::num_top5 by its definition, sample by sample. A sample counts if at most four other classes have a
// larger logit than the sample's own class. A comparison with a NaN counts as larger.
int64_t NumTop5(const at::Tensor& logits, const at::Tensor& labels) {
  int64_t num_right = 0;
  for (int64_t i = 0; i < labels.numel(); ++i) {
    const auto label = labels.select(0, i).item<int64_t>();
    const auto own = logits.select(0, i).select(0, label).item<float>();
    int num_larger = 0;
    for (int64_t one = 0; one < logits.size(1); ++one) {
      const auto other = logits.select(0, i).select(0, one).item<float>();
      num_larger += one != label && !(other <= own) ? 1 : 0;
    }
    num_right += num_larger < 5 ? 1 : 0;
  }
  return num_right;
}

TEST(SumsOf, TheFirstFiveAreCountedByTheirDefinition) {
  constexpr int64_t kSamples = 60;
  std::mt19937 random(7);
  for (const size_t num_classes : {6, 9, 1000}) {
    std::vector<float> numbers(kSamples * num_classes);
    std::vector<int64_t> labels(kSamples);
    for (float& number : numbers) {  // Few distinct numbers, so that many tie, and a NaN or an infinity in most rows.
      number = static_cast<float>(random() % (num_classes / 2));
      number = random() % (4 * num_classes) != 0 ? number : random() % 2 == 0 ? kNan : kInfinity;
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto row = numbers.begin() + static_cast<std::ptrdiff_t>(i * num_classes);
      const auto largest = std::max_element(row, row + static_cast<std::ptrdiff_t>(num_classes));
      labels[i] = i % 2 == 0 ? largest - row : static_cast<int64_t>(random() % num_classes);
    }
    const at::Tensor logits = at::tensor(numbers).view({kSamples, -1});
    const at::Tensor wanted = at::tensor(labels);
    const int64_t expected = NumTop5(logits, wanted);
    EXPECT_GT(expected, 0) << num_classes;
    EXPECT_LT(expected, kSamples) << num_classes;
    for (const int64_t batch : {int64_t{1}, int64_t{7}, int64_t{50}, kSamples}) {
      EvalSums sums;
      for (int64_t begin = 0; begin < kSamples; begin += batch) {
        const int64_t size = std::min(batch, kSamples - begin);
        sums.Add(Evaluated(logits.narrow(0, begin, size), wanted.narrow(0, begin, size)));
      }
      EXPECT_EQ(sums.num_top5, expected) << num_classes << " classes in batches of " << batch;
      EXPECT_EQ(sums.num_samples, kSamples);
    }
  }
}

TEST(SumsOf, TiesAreAmongTheFirstFiveAndNansNever) {
  const auto is_right = [](const std::vector<float>& logits, int64_t label) {
    return Evaluated(at::tensor(logits).view({1, -1}), at::tensor(std::vector<int64_t>{label})).num_top5 == 1;
  };
  EXPECT_TRUE(is_right({9, 8, 7, 6, 5, 4}, 4));
  EXPECT_FALSE(is_right({9, 8, 7, 6, 5, 4}, 5));
  EXPECT_TRUE(is_right({9, 8, 7, 6, 5, 5}, 5)) << "it ties with the fifth";
  EXPECT_TRUE(is_right({1, 1, 1, 1, 1, 1, 1, 1}, 7)) << "nothing is larger";
  EXPECT_TRUE(is_right({kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, kInfinity}, 5));
  EXPECT_TRUE(is_right({-kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, 5));
  EXPECT_FALSE(is_right({1, 1, 1, 1, 1, kNan}, 5)) << "its own";
  EXPECT_FALSE(is_right({kNan, kNan, kNan, kNan, kNan, kNan}, 0)) << "of all alike";
  EXPECT_TRUE(is_right({1, kNan, 1, kNan, kNan, kNan, 9}, 6)) << "four are before it";
  EXPECT_FALSE(is_right({kNan, kNan, 1, kNan, kNan, kNan, kInfinity}, 6)) << "five are before it";
}

TEST(SumsOf, LogitsOfAnyFormatAreCompared) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = at::tensor({9.f, 8.f, 7.f, 6.f, 5.f, 4.f, 9.f, 8.f, 7.f, 6.f, 4.f, 4.f}).view({2, 6});
    const at::Tensor labels = at::tensor(std::vector<int64_t>{5, 5});
    const at::Tensor predicted = logits.argmax(1);
    const EvalSums sums =
        SumsOf(graph::Head::kClassification, 6, OfGivenLogits({graph::Dim::Batch(), graph::Dim(6)}),
               {at::tensor(1.f), predicted.eq(labels).sum(), predicted, logits.to(dtype)}, labels, CountOf(labels));
    EXPECT_EQ(sums.num_top5, 1) << c10::toString(dtype);
  }
}

TEST(SumsOf, TheFirstFiveSayNothingOfFiveClassesNorOfTokensOrDecisions) {
  EXPECT_EQ(Classified({0, 1}, {0, 2}).num_top5, std::nullopt);
  EXPECT_EQ(Evaluated(at::tensor({1.f, 2.f, 3.f, 4.f, 5.f}).view({1, 5}), at::tensor({int64_t{0}})).num_top5,
            std::nullopt);
  const at::Tensor tokens = at::tensor({int64_t{1}, int64_t{2}});
  EXPECT_EQ(SumsOf(graph::Head::kLanguageModel, 1000, OfGivenLogits({graph::Dim::Batch(), 2, 1000}),
                   {at::tensor(1.f), tokens.eq(tokens).sum()}, tokens, CountOf(tokens))
                .num_top5,
            std::nullopt);
  const at::Tensor decisions = at::tensor({1.f, 0.f, 0.f, 1.f, 0.f, 1.f, 1.f, 0.f}).view({1, 8});
  EXPECT_EQ(SumsOf(graph::Head::kMultiLabel, 8, EvalProgramOf(graph::Head::kMultiLabel),
                   {at::tensor(1.f), decisions.eq(decisions).sum(), decisions.gt(0)}, decisions, CountOf(decisions))
                .num_top5,
            std::nullopt);
  EvalSums sums;
  sums.Add(Classified({0, 1}, {0, 2}));
  EXPECT_EQ(sums.num_top5, std::nullopt);
}

}  // namespace
}  // namespace ampd::amp
