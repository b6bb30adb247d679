#include "worker/train/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace ampd::train {
namespace {

v1::Checkpoint At(int64_t step) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  return checkpoint;
}

// A disk on which a write ends only when the test calls Finish.
class SlowDisk {
 public:
  // Returns a function for CheckpointWriter::Begin that makes the checkpoint of `step`, but only after Finish is
  // called.
  CheckpointWriter::Write Writing(int64_t step) {
    return [this, step]() -> absl::StatusOr<v1::Checkpoint> {
      begun_.Notify();
      may_end_.WaitForNotification();
      return At(step);
    };
  }
  void AwaitBegin() { begun_.WaitForNotification(); }
  void Finish() { may_end_.Notify(); }

 private:
  absl::Notification begun_;
  absl::Notification may_end_;
};

CheckpointWriter::Write Written(int64_t step) {
  return [step] { return At(step); };
}

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriter::Announce Announcing() {
    return [this](const v1::Checkpoint& checkpoint, uint64_t after_sequence) {
      absl::MutexLock lock(&mutex_);
      absl::StrAppend(&announced_, announced_.empty() ? "" : " ", "step", checkpoint.step(), "@", after_sequence);
    };
  }
  std::string Announced() {
    absl::MutexLock lock(&mutex_);
    return announced_;
  }

  // mutex_ and announced_ are declared before the writer, because they must outlive it: the writer's destructor may
  // still announce a checkpoint.
  absl::Mutex mutex_;
  std::string announced_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<CheckpointWriter> writer_ = std::make_unique<CheckpointWriter>(Announcing());
};

TEST_F(CheckpointWriterTest, Begin_ComesBackWhileItIsWrittenAndNothingIsAnnouncedYet) {
  SlowDisk disk;
  ASSERT_TRUE(writer_->Begin(41, disk.Writing(7)).ok());
  disk.AwaitBegin();
  EXPECT_TRUE(writer_->Check().ok());
  EXPECT_EQ(Announced(), "");
  EXPECT_FALSE(writer_->newest().has_value());
  disk.Finish();
  EXPECT_TRUE(writer_->Wait().ok());
  EXPECT_EQ(Announced(), "step7@41");
  EXPECT_EQ(writer_->newest()->step(), 7);
}

TEST_F(CheckpointWriterTest, ASecondOne_WaitsForTheFirst) {
  SlowDisk disk;
  ASSERT_TRUE(writer_->Begin(1, disk.Writing(7)).ok());
  disk.AwaitBegin();
  std::string announced_before_second;
  std::thread training([&] {
    ASSERT_TRUE(writer_
                    ->Begin(2,
                            [&] {
                              announced_before_second = Announced();
                              return At(14);
                            })
                    .ok());
  });
  disk.Finish();
  training.join();
  ASSERT_TRUE(writer_->Wait().ok());
  EXPECT_EQ(announced_before_second, "step7@1");
  EXPECT_EQ(Announced(), "step7@1 step14@2");
}

TEST_F(CheckpointWriterTest, AFailedWrite_IsReportedAndNotAnnouncedAndTheOneBeforeStaysTheNewest) {
  ASSERT_TRUE(writer_->Begin(1, Written(7)).ok());
  ASSERT_TRUE(writer_->Begin(2, [] { return absl::ResourceExhaustedError("no room"); }).ok());
  EXPECT_EQ(writer_->Wait(), absl::ResourceExhaustedError("no room"));
  EXPECT_EQ(writer_->Check(), absl::ResourceExhaustedError("no room"));
  EXPECT_EQ(Announced(), "step7@1");
  EXPECT_EQ(writer_->newest()->step(), 7);
}

TEST_F(CheckpointWriterTest, AfterAFailedWrite_NoneIsBegun) {
  ASSERT_TRUE(writer_->Begin(1, [] { return absl::InternalError("EIO"); }).ok());
  bool begun = false;
  EXPECT_EQ(writer_->Begin(2,
                           [&begun] {
                             begun = true;
                             return At(14);
                           }),
            absl::InternalError("EIO"));
  EXPECT_EQ(writer_->Wait(), absl::InternalError("EIO"));
  EXPECT_FALSE(begun);
  EXPECT_EQ(Announced(), "");
}

TEST_F(CheckpointWriterTest, WhatAWriteThrows_IsThrownToWhoAsksAndNotByJoin) {
  ASSERT_TRUE(writer_->Begin(1, []() -> absl::StatusOr<v1::Checkpoint> { throw std::bad_alloc(); }).ok());
  writer_->Join();
  EXPECT_THROW((void)writer_->Check(), std::bad_alloc);
  EXPECT_THROW((void)writer_->Wait(), std::bad_alloc);
  EXPECT_THROW((void)writer_->Begin(2, Written(14)), std::bad_alloc);
  EXPECT_EQ(Announced(), "");
}

TEST_F(CheckpointWriterTest, DestroyedWhileWriting_TheWriteEndsAndIsAnnounced) {
  SlowDisk disk;
  ASSERT_TRUE(writer_->Begin(3, disk.Writing(7)).ok());
  disk.AwaitBegin();
  std::thread training([&] { writer_.reset(); });
  EXPECT_EQ(Announced(), "");
  disk.Finish();
  training.join();
  EXPECT_EQ(Announced(), "step7@3");
}

TEST_F(CheckpointWriterTest, ManyInARow_AreAnnouncedInTheirOrder) {
  std::string expected;
  for (int64_t step = 1; step <= 100; ++step) {
    ASSERT_TRUE(writer_->Begin(static_cast<uint64_t>(10 * step), Written(step)).ok());
    absl::StrAppend(&expected, step == 1 ? "" : " ", "step", step, "@", 10 * step);
  }
  ASSERT_TRUE(writer_->Wait().ok());
  EXPECT_EQ(Announced(), expected);
}

}  // namespace
}  // namespace ampd::train
