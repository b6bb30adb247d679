#include "worker/train/report/torch_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ampd::train {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(TorchWarnings, EachTextIsOneLineOfTheLog) {
  testing::internal::CaptureStderr();
  {
    const TorchWarnings warnings;
    for (int i = 0; i < 3; ++i) {
      TORCH_WARN("weights are\nnot contiguous");
    }
    TORCH_WARN("slow");
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              ContainsRegex("^[-0-9T:]+Z LibTorch warns: weights are not contiguous\n"
                            "[-0-9T:]+Z LibTorch warns: slow\n$"));
}

TEST(TorchWarnings, GoWhereTheyWentBeforeOnceTheObjectIsGone) {
  { const TorchWarnings warnings; }
  testing::internal::CaptureStderr();
  TORCH_WARN("again");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("LibTorch warns")));
}

}  // namespace
}  // namespace ampd::train
