#include "server/audit/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/file.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(int64_t max_bytes = 1 << 20, int num_old_files = 2) {
    absl::StatusOr<std::unique_ptr<AuditLog>> log =
        AuditLog::Open({.path = path_, .max_bytes = max_bytes, .num_old_files = num_old_files});
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  static v1::AuditEntry Entry(const std::string& object, const std::string& caller = "user:alice",
                              int64_t seconds = 1) {
    v1::AuditEntry entry;
    entry.set_object(object);
    entry.set_caller(caller);
    entry.mutable_time()->set_seconds(seconds);
    return entry;
  }

  static std::vector<std::string> Objects(AuditLog& log, const v1::ListAuditEntriesRequest& request = {}) {
    std::vector<std::string> objects;
    const auto response = log.List(request);
    EXPECT_TRUE(response.ok()) << response.status();
    for (const v1::AuditEntry& entry : response->entries()) {
      objects.push_back(entry.object());
    }
    return objects;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.Path("audit.log");
};

TEST_F(AuditLogTest, EntriesAreListedInOrder_AndOutliveTheServer) {
  {
    const auto log = Open();
    for (const char* const object : {"a", "b", "c"}) {
      log->Add(Entry(object));
    }
    EXPECT_THAT(Objects(*log), ElementsAre("a", "b", "c"));
  }
  const auto log = Open();
  log->Add(Entry("d"));
  EXPECT_THAT(Objects(*log), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
}

TEST_F(AuditLogTest, TheNewestThatAreAskedForAreListed) {
  const auto log = Open();
  for (int i = 0; i < 5; ++i) {
    log->Add(Entry(absl::StrCat(i), i % 2 == 0 ? "token:even" : "user:odd", i));
  }
  v1::ListAuditEntriesRequest request;
  request.set_limit(2);
  EXPECT_THAT(Objects(*log, request), ElementsAre("3", "4"));
  request.set_caller("token:*");
  EXPECT_THAT(Objects(*log, request), ElementsAre("2", "4"));
  request.mutable_since()->set_seconds(3);
  EXPECT_THAT(Objects(*log, request), ElementsAre("4"));
  request.set_limit(-1);
  EXPECT_EQ(ReasonOf(log->List(request).status()), "INVALID_FIELDS");
}

// A server of ampd 0.1 skips lines with unknown fields. It can read the entry, because the trace is in another line.
TEST_F(AuditLogTest, TheTraceOfAnEntry_IsInALineOfItsOwn) {
  {
    const auto log = Open();
    v1::AuditEntry entry = Entry("a");
    entry.set_trace_id("4bf92f3577b34da6a3ce929d0e0e4736");
    entry.set_span_id("00f067aa0ba902b7");
    log->Add(entry);
    log->Add(Entry("b"));
    entry.set_object("c");
    entry.set_parent_span_id("b7ad6b7169203331");
    log->Add(entry);
  }
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(*ReadFile(path_, 1 << 20), '\n')),
              ElementsAre(R"({"time":"1970-01-01T00:00:01Z","caller":"user:alice","object":"a"})",
                          R"({"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"})",
                          R"({"time":"1970-01-01T00:00:01Z","caller":"user:alice","object":"b"})",
                          R"({"time":"1970-01-01T00:00:01Z","caller":"user:alice","object":"c"})",
                          R"({"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7",)"
                          R"("parent_span_id":"b7ad6b7169203331"})",
                          ""));
  const auto log = Open();
  const v1::ListAuditEntriesResponse listed = *log->List({});
  ASSERT_EQ(listed.entries_size(), 3);
  EXPECT_EQ(listed.entries(0).trace_id() + "/" + listed.entries(0).parent_span_id(),
            "4bf92f3577b34da6a3ce929d0e0e4736/");
  EXPECT_EQ(listed.entries(1).trace_id(), "");
  EXPECT_EQ(listed.entries(2).span_id(), "00f067aa0ba902b7");
  EXPECT_EQ(listed.entries(2).parent_span_id(), "b7ad6b7169203331");
}

TEST_F(AuditLogTest, LinesOfNewerServersAreRead_AndLinesThatWereCutOffAreNot) {
  ASSERT_TRUE(WriteFileAtomically(path_, R"({"time":"1970-01-01T00:00:01Z","object":"a","of_the_future":{"x":[1]}})"
                                         "\n"
                                         R"({"time":"1970-01-01T00:00:01Z","object":"b","cal)"
                                         "\n"
                                         R"({"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"})"
                                         "\n")
                  .ok());
  const auto log = Open();
  const v1::ListAuditEntriesResponse listed = *log->List({});
  ASSERT_EQ(listed.entries_size(), 1);
  EXPECT_EQ(listed.entries(0).object(), "a");
  EXPECT_EQ(listed.entries(0).trace_id(), "") << "that of the line that was cut off";
}

TEST_F(AuditLogTest, ANameCannotForgeALine) {
  const auto log = Open();
  log->Add(Entry("x\"}\n{\"object\":\"forged\"}\n"));
  log->Add(Entry("\u2028\x1b[2J"));
  EXPECT_EQ(Objects(*log).size(), 2u);
  const std::string text = *ReadFile(path_, 1 << 20);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(AuditLogTest, FullFilesAreKeptUpToTheirNumber) {
  const auto log = Open(/*max_bytes=*/300, /*num_old_files=*/2);
  for (int i = 0; i < 100; ++i) {
    log->Add(Entry(absl::StrCat("object", i)));
  }
  v1::ListAuditEntriesRequest request;
  request.set_limit(1000);
  const std::vector<std::string> objects = Objects(*log, request);
  EXPECT_LT(objects.size(), 20u);
  EXPECT_EQ(objects.back(), "object99");
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    EXPECT_LE(entry.file_size(), 300u) << entry.path();
    ++num_files;
  }
  EXPECT_EQ(num_files, 3);
}

TEST_F(AuditLogTest, AfterAnotherProgramMovedTheFile_ANewOneBegins) {
  const auto log = Open();
  log->Add(Entry("a"));
  EXPECT_EQ(Objects(*log).size(), 1u);
  std::filesystem::rename(path_, path_ + ".moved");
  log->Add(Entry("b"));
  EXPECT_THAT(Objects(*log), ElementsAre("b"));
}

TEST_F(AuditLogTest, ALineThatACrashCutOffIsLeftOut) {
  Open()->Add(Entry("a"));
  std::string text = *ReadFile(path_, 1 << 20);
  ASSERT_TRUE(WriteFileAtomically(path_, text + text.substr(0, 10)).ok());
  const auto log = Open();
  log->Add(Entry("b"));
  EXPECT_THAT(Objects(*log), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace ampd::server
