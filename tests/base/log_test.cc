#include "base/log.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/grpc/grpc_log.h"
#include "base/random.h"
#include "base/trace_context.h"

namespace ampd {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Returns the lines logged while `log` runs.
std::vector<std::string> LinesOf(LogFormat format, const std::function<void()>& log,
                                 spdlog::level::level_enum level = spdlog::level::info) {
  testing::internal::CaptureStderr();
  StartLogging(format, level);
  log();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.empty() || text.back() == '\n') << text;
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(Log, TextHasTimeLevelMessageAndFields) {
  const auto lines = LinesOf(LogFormat::kText, [] {
    Log(spdlog::level::warn, "job changed state",
        {{"job_id", "j-a"}, {"detail", "it \"broke\""}, {"empty", ""}, {"attempt", int64_t{2}}});
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], MatchesRegex("20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z warning job changed state job_id=j-a "
                                     "detail=\"it .\"broke.\"\" attempt=2"));
}

TEST(Log, JsonIsOneObjectALineInAscii) {
  const auto lines = LinesOf(LogFormat::kJson, [] {
    Log(spdlog::level::err, "b\u00f6se", {{"job_id", "j-a"}, {"attempt", int64_t{2}}, {"level", "of a field"}});
  });
  ASSERT_EQ(lines.size(), 1u);
  const auto line = nlohmann::json::parse(lines[0]);
  EXPECT_THAT(line["time"].get<std::string>(), MatchesRegex("20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z"));
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "b\u00f6se");
  EXPECT_EQ(line["job_id"], "j-a");
  EXPECT_EQ(line["attempt"], 2);
  EXPECT_EQ(line["field_level"], "of a field");
}

TEST(Log, TheIdsOfATraceAreFields) {
  const auto lines = LinesOf(LogFormat::kText, [] {
    LogFields fields = {{"job_id", "j-a"}};
    SeededRandom random(1);
    TraceContext trace = *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    AddTrace(trace, &fields);
    Log(spdlog::level::info, "first", fields);
    trace = ChildSpan(trace, random);
    LogFields of_child;
    AddTrace(trace, &of_child);
    Log(spdlog::level::info, "second", of_child);
    LogFields none;
    AddTrace("trace_id=forged", &none);
    Log(spdlog::level::info, "third", none);
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], testing::EndsWith(" info first job_id=j-a trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
                                          "span_id=00f067aa0ba902b7"));
  EXPECT_THAT(lines[1], MatchesRegex(".* info second trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=[0-9a-f]{16} "
                                     "parent_span_id=00f067aa0ba902b7"));
  EXPECT_THAT(lines[2], testing::EndsWith(" info third"));
}

TEST(Log, NothingThatIsLoggedBreaksALine) {
  const std::string hostile = std::string("a\nb\r\x1b[31mc\xff") + '\0' + "d\u2028e\u0085f\" g";
  const auto log = [&] {
    Log(spdlog::level::info, hostile, {{"name", hostile}});
    spdlog::info("{}", hostile);
  };
  for (const std::string& line : LinesOf(LogFormat::kText, log)) {
    EXPECT_THAT(line, HasSubstr("a\\nb\\r\\x1b[31mc\\xff\\x00d\\u2028e\\u0085f"));
  }
  const auto lines = LinesOf(LogFormat::kJson, log);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c <= 0x7E; })) << line;
    EXPECT_THAT(nlohmann::json::parse(line)["message"].get<std::string>(), HasSubstr("a\nb\r\x1b[31mc"));
  }
}

TEST(Log, LevelsBelowTheOneAskedForAreLeftOut) {
  EXPECT_TRUE(LinesOf(
                  LogFormat::kText, [] { Log(spdlog::level::info, "x"); }, spdlog::level::warn)
                  .empty());
  EXPECT_EQ(LinesOf(
                LogFormat::kText, [] { Log(spdlog::level::debug, "x"); }, spdlog::level::debug)
                .size(),
            1u);
}

TEST(Log, LinesOfGrpcAndProtobufHaveTheSameForm) {
  const auto lines = LinesOf(LogFormat::kJson, [] {
    LogLinesOfGrpcAndProtobuf();
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // As gRPC itself does when it starts.
    gpr_log(GPR_ERROR, "socket %d\nfailed", 7);
    GOOGLE_LOG(ERROR) << "no UTF-8";
  });
  ASSERT_EQ(lines.size(), 2u) << absl::StrJoin(lines, "\n");
  const auto grpc = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(grpc["source"], "grpc");
  EXPECT_EQ(grpc["message"], "socket 7\nfailed");
  EXPECT_THAT(grpc["place"].get<std::string>(), testing::StartsWith("log_test.cc:"));
  const auto protobuf = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(protobuf["source"], "protobuf");
  EXPECT_EQ(protobuf["level"], "error");
  EXPECT_EQ(protobuf["message"], "no UTF-8");
}

}  // namespace
}  // namespace ampd
