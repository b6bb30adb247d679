#include "worker/train/loop/run_attempt.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/text.h"
#include "c10/util/Exception.h"
#include "worker/executor/op_error.h"

namespace ampd::train {
namespace {

const c10::SourceLocation kHere = {"f", "file", 1};

class RunAttemptTest : public testing::Test {
 protected:
  RunAttemptTest() {
    std::string pattern = testing::TempDir() + "/run-attempt-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RunAttemptTest() override { std::filesystem::remove_all(folder_); }

  // Runs an attempt whose device can't be used for this reason, and returns the message of its outcome.
  std::string MessageFor(const std::string& reason) {
    TelemetryOutbox outbox({.spill_path = folder_ + "/telemetry"});
    AgentLink link(folder_, outbox);
    StepLog step_log;
    const ComputeLease lease;
    return RunAttempt({}, absl::FailedPreconditionError(reason), link, outbox,
                      {.step_log = step_log, .lease = lease, .scratch_folder = folder_})
        .message();
  }

  std::string folder_;
};

// A protobuf message with half a character in a text can't be read.
TEST_F(RunAttemptTest, LongMessage_IsCutBetweenCharacters) {
  std::string reason;
  for (int i = 0; i < 400; ++i) {
    reason += "\u4e2d";  // A Chinese character, which has three bytes.
  }
  const std::string message = MessageFor(reason);
  EXPECT_EQ(message, reason.substr(0, 495) + "...");
  EXPECT_EQ(FirstInvalidUtf8(message), std::nullopt);
}

TEST_F(RunAttemptTest, MessageThatIsNotUtf8_HasQuestionMarks) {
  EXPECT_EQ(MessageFor("can't open caf\xe9.bin\nstack trace"), "can't open caf?.bin");
}

TEST(ReasonForException, MemoryThatRunsOutIsReportedOnEveryDevice) {
  EXPECT_EQ(ReasonForException(c10::OutOfMemoryError(kHere, "CUDA out of memory. Tried to allocate 4.00 TiB. GPU 0")),
            v1::Reason::OUT_OF_MEMORY);
  for (const char* text : {"DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
                           "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"}) {
    EXPECT_EQ(ReasonForException(c10::Error(kHere, text)), v1::Reason::OUT_OF_MEMORY) << text;
  }
  EXPECT_EQ(ReasonForException(c10::AcceleratorError(kHere, 2, "CUDA error: out of memory")),
            v1::Reason::OUT_OF_MEMORY);
}

TEST(ReasonForException, AFaultOfTheGpuIsADeviceError) {
  EXPECT_EQ(ReasonForException(c10::AcceleratorError(kHere, 700, "an illegal memory access was encountered")),
            v1::Reason::DEVICE_ERROR);
  for (const char* text : {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"}) {
    EXPECT_EQ(ReasonForException(c10::Error(kHere, text)), v1::Reason::DEVICE_ERROR) << text;
  }
}

TEST(ReasonForException, ANumberByWhichAnOpChoosesBeyondWhatThereIsIsADataError) {
  EXPECT_EQ(ReasonForException(c10::IndexError(kHere, "index out of range in self")), v1::Reason::DATA_ERROR);
  EXPECT_EQ(ReasonForException(c10::Error(kHere, "index 7 is out of bounds for dimension 1 with size 3")),
            v1::Reason::DATA_ERROR);
  const executor::OpError of_op("aten.embedding.default of words", "index out of range in self",
                                /*is_index_error=*/true);
  EXPECT_EQ(ReasonForException(of_op), v1::Reason::DATA_ERROR);
}

TEST(ReasonForException, WhatAnOpCantComputeIsTheModels) {
  const executor::OpError error("aten.mm.default of layer (net.py:3)", "mat1 and mat2 shapes cannot be multiplied");
  EXPECT_EQ(ReasonForException(error), v1::Reason::SPEC_ERROR);
  EXPECT_STREQ(error.what_without_backtrace(),
               "aten.mm.default of layer (net.py:3): mat1 and mat2 shapes cannot be multiplied");
  EXPECT_EQ(ReasonForException(executor::OpError("aten.mm.default", "can't allocate memory")),
            v1::Reason::OUT_OF_MEMORY);
}

TEST(ReasonForException, AnythingElseIsInternal) {
  EXPECT_EQ(ReasonForException(c10::Error(kHere, "mat1 and mat2 shapes cannot be multiplied")), v1::Reason::INTERNAL);
}

}  // namespace
}  // namespace ampd::train
