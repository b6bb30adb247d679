#include "worker/train/profile/step_profiler.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

#include "base/formats/gzip.h"
#include "tests/gunzip.h"

namespace ampd::train {
namespace {

// Counts the trace's complete events by name.
std::map<std::string, int> EventsOf(const std::string& trace) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(trace, &parsed).ok());
  std::map<std::string, int> counts;
  for (const auto& event : parsed.fields().at("traceEvents").list_value().values()) {
    const auto& fields = event.struct_value().fields();
    if (fields.at("ph").string_value() == "X") {
      EXPECT_GE(fields.at("dur").number_value(), 0);
      ++counts[fields.at("name").string_value()];
    }
  }
  return counts;
}

class StepProfilerTest : public testing::Test {
 protected:
  StepProfilerTest() {
    std::string name = testing::TempDir() + "/ampd-profile-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~StepProfilerTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

void Multiply() {
  const at::Tensor a = at::ones({8, 4});
  a.matmul(at::ones({4, 3}));
}

TEST_F(StepProfilerTest, AProfile_HasTheOpsOfItsStepsOnly) {
  StepProfiler profiler(folder_, /*on_gpu=*/false);
  profiler.Run(1, Multiply);  // Runs before the recording, so the profile must not contain it.
  EXPECT_EQ(profiler.num_steps(), 0);
  for (const int64_t first : {2, 7}) {  // The second profile must not contain steps of the first.
    EXPECT_EQ(profiler.Begin(), absl::OkStatus());
    EXPECT_TRUE(profiler.is_recording());
    profiler.Run(first, Multiply);
    profiler.Run(first + 1, Multiply);
    EXPECT_EQ(profiler.num_steps(), 2);
    EXPECT_EQ(profiler.last_step(), first + 1);
    const auto profile = profiler.End();
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_FALSE(profiler.is_recording());
    const std::string trace = Gunzip(*profile);
    EXPECT_THAT(trace, testing::Not(testing::HasSubstr(folder_)));
    const std::map<std::string, int> events = EventsOf(trace);
    EXPECT_EQ(events.at("ProfilerStep#" + std::to_string(first)), 1);
    EXPECT_EQ(events.at("ProfilerStep#" + std::to_string(first + 1)), 1);
    EXPECT_FALSE(events.contains("ProfilerStep#1"));
    EXPECT_EQ(events.at("aten::matmul"), 2);
    EXPECT_EQ(events.at("aten::ones"), 4);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(StepProfilerTest, ADroppedProfile_LeavesNothingAndAnotherCanBegin) {
  {
    StepProfiler profiler(folder_, /*on_gpu=*/false);
    EXPECT_EQ(profiler.Begin(), absl::OkStatus());
    profiler.Run(1, Multiply);
  }
  StepProfiler profiler(folder_, /*on_gpu=*/false);
  EXPECT_EQ(profiler.Begin(), absl::OkStatus());
  profiler.Drop();
  EXPECT_FALSE(profiler.is_recording());
  EXPECT_EQ(profiler.Begin(), absl::OkStatus());
  profiler.Run(5, Multiply);
  const auto profile = profiler.End();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_FALSE(EventsOf(Gunzip(*profile)).contains("ProfilerStep#1"));
}

TEST_F(StepProfilerTest, AStepThatThrows_LeavesNoProfilerThatRecords) {
  {
    StepProfiler profiler(folder_, /*on_gpu=*/false);
    EXPECT_EQ(profiler.Begin(), absl::OkStatus());
    EXPECT_THROW(profiler.Run(1, [] { throw std::runtime_error("out of memory"); }), std::runtime_error);
  }
  StepProfiler profiler(folder_, /*on_gpu=*/false);
  EXPECT_EQ(profiler.Begin(), absl::OkStatus());
  profiler.Run(2, Multiply);
  EXPECT_TRUE(profiler.End().ok());
}

TEST_F(StepProfilerTest, WithoutAFolderForFiles_TheErrorSaysSo) {
  StepProfiler profiler(folder_ + "/none", /*on_gpu=*/false);
  EXPECT_EQ(profiler.Begin(), absl::OkStatus());
  profiler.Run(1, Multiply);
  const auto profile = profiler.End();
  EXPECT_THAT(std::string(profile.status().message()), testing::HasSubstr("make a folder for the profile"));
  EXPECT_FALSE(profiler.is_recording());
}

TEST(ProfileSamplesTest, ALargeProfile_IsCutIntoPartsWhoseNamesSort) {
  std::string content;
  for (int i = 0; i < 3'000'000; ++i) {
    content += static_cast<char>('a' + (i * 7919 + i / 13) % 26);
  }
  const std::string whole(10 * kMaxProfileFileBytes + 5, 'x');
  const std::vector<v1::Sample> samples = ProfileSamples(whole, 42);
  ASSERT_EQ(samples.size(), 11u);
  EXPECT_EQ(samples[0].file_name(), "profile-01.json.gz");
  EXPECT_EQ(samples[10].file_name(), "profile-11.json.gz");
  std::string joined;
  for (const v1::Sample& sample : samples) {
    EXPECT_EQ(sample.step(), 42);
    joined += sample.content();
  }
  EXPECT_EQ(joined, whole);
  EXPECT_EQ(ProfileSamples("small", 1)[0].file_name(), "profile-1.json.gz");
  EXPECT_EQ(Gunzip(Gzip(content)), content);
  EXPECT_EQ(Gunzip(Gzip("")), "");
}

}  // namespace
}  // namespace ampd::train
