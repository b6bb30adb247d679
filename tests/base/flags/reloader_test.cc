#include "base/flags/reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "base/log.h"

namespace ampd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Settings WithLevelAndLease(const std::string& level, const std::string& lease) {
  return {{.key = "log-level", .type = "LEVEL", .is_set = true, .values = {level}},
          {.key = "lease", .type = "DURATION", .is_set = true, .values = {lease}},
          {.key = "grant", .type = "GRANT", .is_list = true, .is_set = true, .values = {lease}}};
}

// Reloads the configuration, and returns what the program logs meanwhile.
std::string LogOf(Reloader* reloader) {
  testing::internal::CaptureStderr();
  reloader->Reload();
  return testing::internal::GetCapturedStderr();
}

class ReloaderTest : public testing::Test {
 protected:
  ReloaderTest() { StartLogging(LogFormat::kText, spdlog::level::info); }

  Reloader::Options Options() {
    return {.config_file = "c.yaml", .running = WithLevelAndLease("info", "1s"), .read = [this] { return next_; }};
  }

  absl::StatusOr<ReadConfig> next_ = absl::InvalidArgumentError("c.yaml:1:1: there is no key 'x'");
  int num_applied_ = 0;
};

TEST_F(ReloaderTest, WithoutAFileNothingIsRead) {
  Reloader::Options options = Options();
  options.config_file.clear();
  options.read = []() -> absl::StatusOr<ReadConfig> {
    ADD_FAILURE() << "read";
    return absl::UnknownError("");
  };
  Reloader reloader(options);
  EXPECT_THAT(LogOf(&reloader), HasSubstr("SIGHUP is ignored"));
}

TEST_F(ReloaderTest, AnInvalidConfigurationIsLoggedAndChangesNothing) {
  Reloader reloader(Options());
  EXPECT_THAT(LogOf(&reloader),
              AllOf(HasSubstr(" error configuration not reloaded"), HasSubstr("there is no key 'x'")));
}

TEST_F(ReloaderTest, NamesForEachKeyWhetherItWasApplied) {
  Reloader reloader(Options());
  next_ = ReadConfig{
      .settings = WithLevelAndLease("info", "2s"), .log_level = "info", .reloadable = {"grant"}, .apply = [this] {
        ++num_applied_;
      }};
  EXPECT_THAT(
      LogOf(&reloader),
      AllOf(HasSubstr(" info configuration changed key=grant from=\"[\\\"1s\\\"]\" to=\"[\\\"2s\\\"]\" effect=applied"),
            HasSubstr(" warning configuration changed key=lease"), HasSubstr("effect=\"needs a restart\""),
            HasSubstr("configuration reloaded file=c.yaml applied=1 needs_restart=1")));
  EXPECT_EQ(num_applied_, 1);
}

TEST_F(ReloaderTest, TheLogLevelChangesAtOnce) {
  Reloader reloader(Options());
  next_ = ReadConfig{.settings = WithLevelAndLease("error", "1s"), .log_level = "error"};
  EXPECT_THAT(LogOf(&reloader), HasSubstr("key=log-level from=info to=error effect=applied"));
  testing::internal::CaptureStderr();
  Log(spdlog::level::info, "hidden");
  Log(spdlog::level::err, "shown");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("shown"), Not(HasSubstr("hidden"))));
}

}  // namespace
}  // namespace ampd
