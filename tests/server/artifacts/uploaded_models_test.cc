#include "server/artifacts/uploaded_models.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "tests/graph/exported/exported_net.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using graph::Net;
using graph::WriteArchive;
using testing::HasSubstr;

// In these tests, artifacts are files in a folder. An artifact's name is the name of its file.
class UploadedModelsTest : public testing::Test {
 protected:
  UploadedModels::Options Options() {
    UploadedModels::Options options;
    options.open = [this](const std::string& artifact) -> absl::StatusOr<UniqueFd> {
      ++num_opened;
      if (on_open) {
        on_open(artifact);
      }
      UniqueFd file(open(folder.Path(artifact).c_str(), O_RDONLY | O_CLOEXEC));
      return file.ok() ? absl::StatusOr<UniqueFd>(std::move(file)) : ErrnoError(errno, "open");
    };
    return options;
  }
  void Write(const std::string& artifact, const nlohmann::json& model = Net()) {
    WriteArchive(folder.Path(artifact), model);
  }

  TemporaryFolder folder;
  std::atomic<int> num_opened = 0;
  std::function<void(const std::string&)> on_open;
};

TEST_F(UploadedModelsTest, AModelIsReadOnceHoweverManyAskForIt) {
  Write("a");
  UploadedModels models(Options());
  std::vector<std::shared_ptr<const graph::ExportedModel>> read(8);
  std::vector<std::thread> threads;
  for (auto& one : read) {
    threads.emplace_back([&models, &one] { one = models.Read("a").value(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(num_opened, 1);
  for (const auto& one : read) {
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one, read[0]) << "they share it";
  }
  EXPECT_EQ(read[0]->train.graph.nodes.size(), 11u);
  EXPECT_TRUE(read[0]->json.empty());
}

TEST_F(UploadedModelsTest, OneFileIsReadAtATimeAndNobodyWaitsForItWhoseModelIsKept) {
  Write("a");
  Write("b");
  Write("c");
  UploadedModels models(Options());
  ASSERT_TRUE(models.Read("a").ok());
  absl::Notification b_is_open;
  absl::Notification go_on;
  on_open = [&](const std::string& artifact) {
    EXPECT_TRUE(artifact == "b" || go_on.HasBeenNotified()) << artifact << " is read beside b";
    if (artifact == "b") {
      b_is_open.Notify();
      go_on.WaitForNotification();
    }
  };
  std::thread reads_b([&] { EXPECT_TRUE(models.Read("b").ok()); });
  b_is_open.WaitForNotification();
  std::thread reads_c([&] { EXPECT_TRUE(models.Read("c").ok()); });
  EXPECT_TRUE(models.Read("a").ok());
  go_on.Notify();
  reads_b.join();
  reads_c.join();
  EXPECT_EQ(num_opened, 3);
}

TEST_F(UploadedModelsTest, ThoseUsedLongestAgoGoFirst) {
  for (const char* artifact : {"a", "b", "c"}) {
    Write(artifact);
  }
  UploadedModels::Options options = Options();
  options.kept_json_bytes = 150'000;  // Enough for two small models.
  UploadedModels models(options);
  for (const char* artifact : {"a", "b", "a", "c", "a"}) {
    ASSERT_TRUE(models.Read(artifact).ok());
  }
  EXPECT_EQ(num_opened, 3);
  ASSERT_TRUE(models.Read("b").ok());
  EXPECT_EQ(num_opened, 4);
}

TEST_F(UploadedModelsTest, WhatIsLargerThanModelsAreIsLeftToTheWorker) {
  nlohmann::json many = Net();
  nlohmann::json& nodes = graph::GraphOf(many)["nodes"];
  const nlohmann::json last = nodes.back();
  while (nodes.size() <= 16'384) {
    nodes.push_back(last);
  }
  Write("many", many);
  Write("a");
  UploadedModels::Options options = Options();
  EXPECT_EQ(UploadedModels(options).Read("many").value(), nullptr);
  options.max_json_bytes = 1000;
  UploadedModels models(options);
  EXPECT_EQ(models.Read("a").value(), nullptr);
  EXPECT_EQ(models.Read("a").value(), nullptr);
  EXPECT_EQ(num_opened, 2) << "it is known from then on";
}

TEST_F(UploadedModelsTest, AFileThatIsNoModelIsRefusedInOneLineAndReadAnew) {
  UploadedModels models(Options());
  std::ofstream(folder.Path("a")) << "This is no archive.";
  const absl::Status no_archive = models.Read("a").status();
  ASSERT_EQ(ViolationsOf(no_archive).size(), 1u) << no_archive;
  EXPECT_EQ(ViolationsOf(no_archive)[0].field, "model.exported.artifact");
  EXPECT_THAT(ViolationsOf(no_archive)[0].description, HasSubstr("not a sound ZIP archive"));
  nlohmann::json wrong = Net();
  graph::GraphOf(wrong)["outputs"] = graph::Named("head");
  std::filesystem::remove(folder.Path("a"));
  Write("a", wrong);
  EXPECT_EQ(ViolationsOf(models.Read("a").status()).size(), 1u);
  std::filesystem::remove(folder.Path("a"));
  EXPECT_EQ(models.Read("a").status().code(), absl::StatusCode::kNotFound);
  Write("a");
  EXPECT_TRUE(models.Read("a").ok());
}

TEST_F(UploadedModelsTest, AModelWithoutAllOfItsWeightsIsRefusedAndTheyAreNamed) {
  Write("a");
  zip_t* const archive = zip_open(folder.Path("a").c_str(), 0, nullptr);
  ASSERT_NE(archive, nullptr);
  const int64_t index = zip_name_locate(archive, "net/data/weights/weight_of_p_conv", 0);
  ASSERT_EQ(zip_delete(archive, static_cast<uint64_t>(index)), 0);
  ASSERT_EQ(zip_close(archive), 0);
  UploadedModels models(Options());
  const absl::Status status = models.Read("a").status();
  ASSERT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(ViolationsOf(status)[0].description,
              HasSubstr("the archive has no data/weights/weight_of_p_conv, the content of stem.0.weight"));
}

TEST_F(UploadedModelsTest, WhatTheHostCantOpenNowIsAskedForAgain) {
  Write("a");
  UploadedModels::Options options = Options();
  bool breaks = true;
  options.open = [&breaks, open = options.open](const std::string& artifact) -> absl::StatusOr<UniqueFd> {
    return breaks ? absl::UnavailableError("Input/output error") : open(artifact);
  };
  UploadedModels models(options);
  EXPECT_EQ(models.Read("a").status(), absl::UnavailableError("Input/output error"));
  breaks = false;
  EXPECT_TRUE(models.Read("a").ok());
}

}  // namespace
}  // namespace ampd::server
