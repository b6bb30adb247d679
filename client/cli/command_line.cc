#include "client/cli/command_line.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::client {

FormatSet Text() { return {OutputFormat::kTable}; }
FormatSet All() { return AllFormats(); }
FormatSet AllBut(const FormatSet& left_out) { return AllFormatsBut(left_out); }

absl::Duration DurationOf(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  return absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration()
             ? ""
             : absl::StrCat("'", text, "' is not a duration such as 90s or 1h30m");
}

std::string CheckCount(const std::string& text) {
  int64_t count = 0;
  return absl::SimpleAtoi(text, &count) && count >= 0 ? "" : absl::StrCat("'", text, "' is no whole number from 0 up");
}

std::string CheckPositiveCount(const std::string& text) {
  int count = 0;
  return absl::SimpleAtoi(text, &count) && count >= 1 ? "" : absl::StrCat("'", text, "' is no whole number from 1 up");
}

std::string CheckPositive(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number) && number > 0
             ? ""
             : absl::StrCat("'", text, "' is no number above 0");
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help, CommandLine* line,
                     std::function<int(Session*)> command, FormatSet formats) {
  CLI::App* app = parent->add_subcommand(name, help);
  line->formats[app] = std::move(formats);
  app->callback([line, app, command = std::move(command)] {
    line->app = app;
    line->command = command;
  });
  app->fallthrough();
  return app;
}

void AddId(CLI::App* app, CommandLine* line) {
  app->add_option("id", line->id, "Job id")->required()->check(CheckNotEmpty)->option_text("ID");
}

std::function<std::string(const std::string&)> OneOf(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& text) {
    const bool known = std::find(words.begin(), words.end(), text) != words.end();
    return known ? std::string() : absl::StrCat("'", text, "' is none of ", absl::StrJoin(words, ", "));
  };
}

}  // namespace ampd::client
