#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/train/trainer/fake_agent.h"

namespace ampd::train {

using internal::StartAttempt;
using v1::Outcome;

inline std::vector<v1::Event> EventsOf(const FakeAgent& agent, v1::Event::Kind kind) {
  std::vector<v1::Event> found;
  std::copy_if(agent.events.begin(), agent.events.end(), std::back_inserter(found),
               [kind](const v1::Event& event) { return event.kind() == kind; });
  return found;
}

inline std::vector<int64_t> StepsOf(const std::vector<v1::Event>& events) {
  std::vector<int64_t> steps;
  std::transform(events.begin(), events.end(), std::back_inserter(steps),
                 [](const v1::Event& event) { return event.step(); });
  return steps;
}

// Makes the folders of a test, and small attempts. A test runs these attempts in the folders, with a FakeAgent.
class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/trainer-XXXXXX";
    root_ = mkdtemp(pattern.data());
    std::filesystem::create_directories(root_ / "checkpoints");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // The value of --steps-ahead for the trainers: set in the ctest entries worker_train_*_ahead, nullopt in all others.
  static std::optional<int> StepsAhead() {
    const char* const ahead = std::getenv("AMPD_TRAINER_STEPS_AHEAD");
    return ahead == nullptr ? std::nullopt : std::optional(std::stoi(ahead));
  }

  // The device of attempts that do not name a device: gpu0 if scripts/gpu-check runs the test, otherwise the CPU.
  static std::string TrainerDevice() {
    const char* const device = std::getenv("AMPD_TRAINER_DEVICE");
    return device == nullptr ? "cpu" : device;
  }

  // Starts another trainer with its own folder.
  FakeAgent Spawn(const std::string& device = TrainerDevice()) { return FakeAgent(Folder(), device, StepsAhead()); }

  std::string Folder() { return (root_ / absl::StrCat("spawn", ++num_folders_)).string(); }

  // Makes the attempt train on images in IDX files. There are three classes. An image has 12 pixels, and four of them
  // are 1; their positions depend on the image's class. The normalization maps the pixels 0 and 1 to 0 and about 392.
  // The image at index `bright`, if there is one, has a pixel of 255, which is mapped to 1e5, beyond fp16's range.
  void UseIdx(StartAttempt& start, int num_samples, int bright) {
    std::ofstream images(root_ / "images", std::ios::binary);
    std::ofstream labels(root_ / "labels", std::ios::binary);
    const auto put = [](std::ofstream& file, uint32_t number) {
      for (int shift = 24; shift >= 0; shift -= 8) {
        file.put(static_cast<char>(number >> shift));
      }
    };
    put(images, 0x803);
    put(images, static_cast<uint32_t>(num_samples));
    put(images, 3);
    put(images, 4);
    put(labels, 0x801);
    put(labels, static_cast<uint32_t>(num_samples));
    for (int sample = 0; sample < num_samples; ++sample) {
      const int label = sample % 3;
      labels.put(static_cast<char>(label));
      for (int pixel = 0; pixel < 12; ++pixel) {
        images.put(sample == bright && pixel == 0 ? '\xff' : static_cast<char>(pixel / 4 == label ? 1 : 0));
      }
    }
    (*start.mutable_data_roots())["root"] = root_.string();
    v1::DataSpec& data = *start.mutable_spec()->mutable_data();
    v1::IdxSource& idx = *data.mutable_train()->mutable_idx();
    idx.set_images("root/images");
    idx.set_labels("root/labels");
    idx.set_std(1e-5);
    data.set_keep_order(true);
    data.clear_eval();
  }

  StartAttempt Mlp(const std::string& precision, int64_t steps, int attempt = 1) {
    StartAttempt start;
    start.mutable_key()->set_job_id("j-abc");
    start.mutable_key()->set_attempt(attempt);
    start.mutable_key()->set_token(absl::StrCat("token", attempt));
    start.set_precision(precision);
    start.set_checkpoint_root((root_ / "checkpoints").string());
    start.mutable_device()->set_id(TrainerDevice());
    start.mutable_device()->set_kind(TrainerDevice() == "cpu" ? v1::Device::CPU : v1::Device::GPU);
    start.mutable_device()->set_capability_major(TrainerDevice() == "cpu" ? 0 : 9);
    start.mutable_device()->add_instruction_sets("avx512_bf16");
    v1::JobSpec& spec = *start.mutable_spec();
    spec.mutable_model()->mutable_mlp()->set_in_features(12);
    spec.mutable_model()->mutable_mlp()->add_hidden(16);
    spec.mutable_model()->mutable_mlp()->set_num_classes(3);
    spec.mutable_precision()->set_preset(precision);
    Synthesise(*spec.mutable_data()->mutable_train()->mutable_synthetic(), {12}, 40);
    Synthesise(*spec.mutable_data()->mutable_eval()->mutable_synthetic(), {12}, 20);
    spec.mutable_data()->set_batch_size(8);
    spec.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
    spec.mutable_train()->set_steps(steps);
    spec.mutable_train()->set_seed(5);
    spec.mutable_train()->set_num_threads(1);
    spec.mutable_checkpoint()->set_every_steps(7);
    return start;
  }

  // Returns the second attempt of the job, which starts from the checkpoint.
  static StartAttempt Resumed(StartAttempt start, const v1::Checkpoint& checkpoint) {
    start.mutable_key()->set_attempt(2);
    start.mutable_key()->set_token("second");
    *start.mutable_start_from() = checkpoint;
    return start;
  }

  static void Synthesise(v1::SyntheticSource& source, const std::vector<int64_t>& shape, int64_t num_samples) {
    source.mutable_shape()->Assign(shape.begin(), shape.end());
    source.set_num_classes(3);
    source.set_num_samples(num_samples);
    source.set_seed(9);
  }

  // Reads until the attempt's outcome and all telemetry before it have arrived, acknowledges them, and waits until the
  // trainer ends.
  void Finish(FakeAgent& agent) {
    agent.ReadUntil([&] {
      return agent.outcome.has_value() && (agent.outcome_after == 0 || agent.sequences.contains(agent.outcome_after));
    });
    agent.Acknowledge(agent.outcome->last_sequence(), true);
    EXPECT_EQ(agent.WaitForExit(), 0);
  }

  // Runs an attempt to its end. Returns the agent, with everything that it received.
  std::unique_ptr<FakeAgent> RunToOutcome(const StartAttempt& start, std::optional<int> steps_ahead = StepsAhead()) {
    auto agent = std::make_unique<FakeAgent>(Folder(), TrainerDevice(), steps_ahead);
    agent->Connect();
    agent->Start(start);
    Finish(*agent);
    return agent;
  }

  Outcome Run(const StartAttempt& start) { return RunToOutcome(start)->outcome.value_or(Outcome()); }

  std::filesystem::path root_;
  int num_folders_ = 0;
};

}  // namespace ampd::train
