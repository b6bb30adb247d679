#include "worker/amp/eval_sums.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "graph/builder.h"
#include "graph/passes.h"

namespace ampd::amp {
namespace {

constexpr int64_t kClasses = 5;

// The evaluation program of a layer whose output has the head's name; what it computes does not matter here.
graph::Graph EvalProgramOf(graph::Head head) {
  graph::GraphBuilder b("layer");
  b.Output(std::string(graph::OutputNamesOf(head).front()),
           b.Linear("fc", b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 4}}), kClasses));
  return graph::WithEvalHead(std::move(b).Build().value()).value();
}

// F1 by its definition, from precision and recall of sets of samples.
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

EvalSums Classified(const std::vector<int64_t>& predicted, const std::vector<int64_t>& labels) {
  const at::Tensor given = at::tensor(predicted);
  const at::Tensor wanted = at::tensor(labels);
  return SumsOf(graph::Head::kClassification, kClasses, EvalProgramOf(graph::Head::kClassification),
                {at::tensor(2.5f), given.eq(wanted).sum(), given}, wanted);
}

TEST(SumsOf, ClassesAreCountedExactlyOverBatchesOfAnySize) {
  std::mt19937 random(4);
  std::vector<int64_t> labels(101), predicted(101);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int64_t>(random() % (kClasses - 1));  // the last class is neither there nor told
    predicted[i] = random() % 3 == 0 ? static_cast<int64_t>(random() % (kClasses - 1)) : labels[i];
  }
  double expected = 0;
  for (int64_t one = 0; one < kClasses; ++one) {
    std::set<size_t> wanted, given;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == one) wanted.insert(i);
      if (predicted[i] == one) given.insert(i);
    }
    expected += F1Of(wanted, given) / kClasses;
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
  // sklearn.metrics.f1_score: y_true [0, 1, 2, 0, 1, 2], y_pred [0, 2, 1, 0, 0, 1], macro: 0.8 / 3.
  EvalSums sums = Classified({0, 2, 1, 0, 0, 1}, {0, 1, 2, 0, 1, 2});
  sums.classes.resize(3);
  EXPECT_DOUBLE_EQ(MacroF1(sums.classes), 0.8 / 3);
}

TEST(SumsOf, EveryDecisionCountsForItsClass) {
  const at::Tensor labels = at::tensor({1.f, 0.f, 0.f, 1.f, 0.f, 1.f, 1.f, 0.f, 0.f, 0.f}).view({2, kClasses});
  const at::Tensor predicted = at::tensor({1.f, 1.f, 0.f, 0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 0.f}).view({2, kClasses}).gt(0);
  const EvalSums sums = SumsOf(graph::Head::kMultiLabel, kClasses, EvalProgramOf(graph::Head::kMultiLabel),
                               {at::tensor(7.f), predicted.eq(labels).sum(), predicted}, labels);
  EXPECT_EQ(sums.loss, 7);
  EXPECT_EQ(sums.num_correct, 7);
  EXPECT_EQ(sums.num_labels, 10);
  EXPECT_EQ(sums.num_samples, 2);
  EXPECT_DOUBLE_EQ(MacroF1(sums.classes), 1.0 / kClasses) << "of class 0 all right, of 1 and 3 nothing, of others none";
  EXPECT_EQ(sums.classes[1].false_positives, 1);
  EXPECT_EQ(sums.classes[1].false_negatives, 1);
  EXPECT_EQ(sums.classes[3].false_negatives, 1);
}

}  // namespace
}  // namespace ampd::amp
