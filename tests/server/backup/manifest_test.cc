#include "server/backup/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

BackupManifest Small() {
  BackupManifest manifest;
  manifest.ampd_version = "1.2.3";
  manifest.time = absl::FromUnixMicros(1'700'000'000'123'456);
  manifest.epoch = uint64_t{1} << 53 | 1;  // No double represents this value exactly.
  manifest.last_update = 4711;
  manifest.files = {{"journal.db", 4096, "aa", 0600}, {"tls/ca.pem", 7, "bb", 0644}};
  return manifest;
}

TEST(BackupManifest, IsReadAsItWasWritten) {
  const auto read = ParseManifest(ToJson(Small()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read), ToJson(Small()));
  EXPECT_EQ(read->time, Small().time);
  EXPECT_EQ(read->epoch, Small().epoch);
  EXPECT_EQ(read->files[1].mode, 0644u);
}

TEST(BackupManifest, LaterFormat_IsRefusedWithAdvice) {
  const auto read = ParseManifest(absl::StrReplaceAll(ToJson(Small()), {{"\"format\": 1", "\"format\": 2"}}));
  EXPECT_EQ(ReasonOf(read.status()), "NEWER_BACKUP");
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("has format 2, this ampd-server knows 1"));
}

TEST(BackupManifest, WhatIsNoManifest_IsDamaged) {
  const std::string good = ToJson(Small());
  const std::string bad[] = {
      "",
      "[]",
      "{}",
      good.substr(0, good.size() / 2),
      absl::StrReplaceAll(good, {{"journal.db", "../journal.db"}}),
      absl::StrReplaceAll(good, {{"journal.db", "/etc/passwd"}}),
      absl::StrReplaceAll(good, {{"0644", "4755"}}),
      absl::StrReplaceAll(good, {{"4096", "-1"}}),
      absl::StrReplaceAll(good, {{"4096", "\"4096\""}}),
      absl::StrReplaceAll(good, {{"\"size_bytes\"", "\"size\""}}),
      absl::StrReplaceAll(good, {{"2023-", "soon-"}}),
  };
  for (const std::string& text : bad) {
    EXPECT_EQ(ReasonOf(ParseManifest(text).status()), "BACKUP_DAMAGED") << text;
  }
}

TEST(BackupManifest, FolderWithoutOne_IsNoBackup) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReasonOf(ReadManifest(folder.path()).status()), "NOT_A_BACKUP");
  EXPECT_EQ(ReasonOf(ReadManifest(folder.Path("none")).status()), "NOT_A_BACKUP");
}

}  // namespace
}  // namespace ampd::server
