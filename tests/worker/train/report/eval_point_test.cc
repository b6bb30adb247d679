#include "worker/train/report/eval_point.h"

#include <gtest/gtest.h>

namespace ampd::train {
namespace {

// The sums of an evaluation with six classes and eight samples: five samples of class 0 that are classified correctly,
// and three samples of class 2 that are classified as class 1.
amp::EvalSums SixClasses() {
  amp::EvalSums sums;
  sums.loss = 4;
  sums.num_correct = 5;
  sums.num_top5 = 7;
  sums.num_labels = 8;
  sums.num_counted = 8;
  sums.num_samples = 8;
  sums.classes.resize(6);
  sums.classes[0].true_positives = 5;
  sums.classes[1].false_positives = 3;
  sums.classes[2].false_negatives = 3;
  return sums;
}

TEST(EvalPointOf, GivesSharesOfTheSamples) {
  const v1::EvalPoint point = EvalPointOf(graph::Head::kClassification, SixClasses());
  EXPECT_EQ(point.loss(), 0.5);
  EXPECT_EQ(point.num_samples(), 8);
  EXPECT_EQ(point.accuracy(), 0.625);
  EXPECT_EQ(point.top5_accuracy(), 0.875);
  EXPECT_EQ(point.f1(), 1.0 / 6);
  EXPECT_EQ(QualityText(point), ", accuracy 0.6250, top-5 0.8750, F1 0.1667");
  v1::FinalMetrics metrics;
  AddEvalPoint(point, &metrics);
  EXPECT_EQ(metrics.eval_loss(), 0.5);
  EXPECT_EQ(metrics.eval_accuracy(), 0.625);
  EXPECT_EQ(metrics.eval_top5_accuracy(), 0.875);
  EXPECT_EQ(metrics.eval_f1(), 1.0 / 6);
}

TEST(EvalPointOf, OfSamplesThatAreNeverRightIsZeroAndNotUnknown) {
  amp::EvalSums sums = SixClasses();
  sums.num_top5 = 0;
  const v1::EvalPoint point = EvalPointOf(graph::Head::kClassification, sums);
  EXPECT_TRUE(point.has_top5_accuracy());
  EXPECT_EQ(point.top5_accuracy(), 0);
}

TEST(EvalPointOf, WhatWasNotCountedIsUnset) {
  amp::EvalSums sums = SixClasses();
  sums.num_top5.reset();
  v1::FinalMetrics metrics;
  for (const graph::Head head : {graph::Head::kClassification, graph::Head::kLanguageModel, graph::Head::kRegression}) {
    const v1::EvalPoint point = EvalPointOf(head, sums);
    EXPECT_FALSE(point.has_top5_accuracy()) << graph::HeadName(head);
    AddEvalPoint(point, &metrics);
    EXPECT_FALSE(metrics.has_eval_top5_accuracy()) << graph::HeadName(head);
  }
}

}  // namespace
}  // namespace ampd::train
