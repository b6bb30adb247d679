#include "worker/train/plan/labels.h"

#include <gtest/gtest.h>

#include <optional>

#include "ATen/ops/tensor.h"

namespace ampd::train {
namespace {

// Two micro-batches of two samples. The label of the samples in one of them is the ignored one, -100.
at::Tensor HalfIgnored() { return at::tensor({-100, -100, 1, 2}, at::kLong); }
at::Tensor AllIgnored() { return at::tensor({-100, -100, -100, -100}, at::kLong); }

TEST(IsMeanOfNoLabels, WithoutALabelCountOneMicroBatchWithoutLabelsIsEnough) {
  EXPECT_TRUE(IsMeanOfNoLabels(HalfIgnored(), 2, -100, /*has_label_count=*/false));
  EXPECT_FALSE(IsMeanOfNoLabels(HalfIgnored(), 1, -100, /*has_label_count=*/false));
  EXPECT_TRUE(IsMeanOfNoLabels(AllIgnored(), 1, -100, /*has_label_count=*/false));
}

TEST(IsMeanOfNoLabels, WithALabelCountAllMicroBatchesMustBeWithoutLabels) {
  EXPECT_FALSE(IsMeanOfNoLabels(HalfIgnored(), 2, -100, /*has_label_count=*/true));
  EXPECT_TRUE(IsMeanOfNoLabels(AllIgnored(), 2, -100, /*has_label_count=*/true));
}

TEST(IsMeanOfNoLabels, ALossThatIgnoresNoLabelIsNone) {
  EXPECT_FALSE(IsMeanOfNoLabels(AllIgnored(), 2, std::nullopt, /*has_label_count=*/false));
  EXPECT_FALSE(IsMeanOfNoLabels(AllIgnored(), 2, std::nullopt, /*has_label_count=*/true));
}

}  // namespace
}  // namespace ampd::train
