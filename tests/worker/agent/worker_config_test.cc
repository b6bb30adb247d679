#include "worker/agent/worker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/flags/settings.h"
#include "tests/base/flags/config_folder.h"

namespace ampd::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ParsedWorkerConfig> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "ampd-worker");
  std::vector<const char*> argv;
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  return ParseWorkerConfig(static_cast<int>(argv.size()), argv.data());
}

// All flags, each with a value that differs from its default.
std::vector<std::string> AllFlags() {
  return absl::StrSplit(
      "--server unix:/run/ampd.sock --token-file /etc/t --ca /etc/ca --cert /etc/c --key /etc/k "
      "--name w-1 --tenant nlp --tenant vision --state-dir /var/s --checkpoint-root /var/c "
      "--checkpoint-root-shared --data-root a@nlp,vision=/data/a --data-root b=/data/b "
      "--data-group users --shim /bin/shim --trainer /bin/trainer --device cpu --device gpu0 "
      "--threads 3 --metrics-listen [::1]:0 --metrics-tls-cert /etc/mc --metrics-tls-key /etc/mk "
      "--metrics-tls-client-ca /etc/ma --no-gpu-metrics --ready-file /run/ready "
      "--artifact-cache-bytes 5GiB --no-warm --stop-trainers-on-exit --exit-grace 2.5 "
      "--log-format json --log-level debug",
      ' ');
}

void ExpectIsAllFlags(const WorkerConfig& config) {
  EXPECT_EQ(config.server, "unix:/run/ampd.sock");
  EXPECT_EQ(config.token_file, "/etc/t");
  EXPECT_EQ(config.tls.ca + config.tls.certificate + config.tls.key, "/etc/ca/etc/c/etc/k");
  EXPECT_EQ(config.name, "w-1");
  EXPECT_THAT(config.tenants, ElementsAre("nlp", "vision"));
  EXPECT_EQ(config.state_folder + config.checkpoint_root, "/var/s/var/c");
  EXPECT_THAT(config.data_roots, ElementsAre("a@nlp,vision=/data/a", "b=/data/b"));
  EXPECT_EQ(config.data_group, "users");
  EXPECT_EQ(config.shim + config.trainer, "/bin/shim/bin/trainer");
  EXPECT_THAT(config.devices, ElementsAre("cpu", "gpu0"));
  EXPECT_EQ(config.num_threads, 3);
  EXPECT_EQ(config.metrics_listen, "[::1]:0");
  EXPECT_EQ(config.metrics_tls.ca + config.metrics_tls.certificate + config.metrics_tls.key, "/etc/ma/etc/mc/etc/mk");
  EXPECT_EQ(config.ready_file, "/run/ready");
  EXPECT_EQ(config.artifact_cache_bytes, int64_t{5} << 30);
  EXPECT_TRUE(config.checkpoint_root_shared && config.no_gpu_metrics && config.no_warm && config.stop_trainers_on_exit);
  EXPECT_EQ(config.exit_grace, absl::Seconds(2.5));
  EXPECT_EQ(config.log_format + config.log_level, "jsondebug");
}

TEST(WorkerConfig, EveryFlagIsPrintedSoThatItIsReadBack) {
  const ConfigFolder folder;
  const auto before = Parse(AllFlags());
  ASSERT_TRUE(before.ok()) << before.status();
  ExpectIsAllFlags(before->config);
  for (const Setting& setting : before->settings) {
    EXPECT_TRUE(setting.is_set) << "AllFlags lacks --" << setting.key;
  }
  const std::string printed = WriteSettings(before->settings, "ampd-worker").value();
  const auto after = Parse({"--config", folder.Write("worker.yaml", printed)});
  ASSERT_TRUE(after.ok()) << after.status();
  ExpectIsAllFlags(after->config);
  EXPECT_EQ(after->settings, before->settings);
}

TEST(WorkerConfig, DefaultsDependOnTheHostAndTheStateFolder) {
  const ConfigFolder folder;
  const auto parsed =
      Parse({"--config", folder.Write("worker.yaml", "server: ampd.example.com:7443\nstate-dir: state\n")});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.name, HostName());
  EXPECT_EQ(parsed->config.state_folder, folder.Path("state"));
  EXPECT_EQ(parsed->config.checkpoint_root, folder.Path("state/checkpoints"));
  EXPECT_THAT(parsed->config.shim, testing::EndsWith("/ampd-shim"));
  EXPECT_EQ(parsed->config.ready_file, "");
}

TEST(WorkerConfig, PathsThatTrainersCouldNotRead_AreRefused) {
  EXPECT_EQ(std::string(Parse({"--server", "s:1", "--state-dir", "/caf\xe9"}).status().message()),
            "--state-dir /caf\\xe9: the byte 0xe9 at offset 4 is not UTF-8; choose a folder whose path is UTF-8");
  EXPECT_THAT(
      std::string(Parse({"--server", "s:1", "--state-dir", "/s", "--checkpoint-root", "/caf\xe9"}).status().message()),
      testing::StartsWith("--checkpoint-root /caf\\xe9: the byte 0xe9"));
}

TEST(WorkerConfig, ServerAndStateFolderAreRequired) {
  EXPECT_THAT(std::string(Parse({"--state-dir", "s"}).status().message()), HasSubstr("--server is required"));
  EXPECT_THAT(std::string(Parse({"--server", "s:1"}).status().message()), HasSubstr("--state-dir is required"));
}

}  // namespace
}  // namespace ampd::agent
