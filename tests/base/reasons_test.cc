#include "base/reasons.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>
#include <tuple>

#include "tests/golden_file.h"

namespace ampd {
namespace {

const std::map<MetBy, std::string> kGroups = {
    {MetBy::kCaller,
     "## Answers of calls\n\n"
     "Every client of the API can get these. `ampctl` prints the reason in brackets after the message."},
    {MetBy::kModel,
     "## Models and policies\n\n"
     "`ampctl policy show` can end with one of these. At submit the same message is one of the violations\n"
     "of INVALID_FIELDS. If only the worker can find the problem, the job ends with SPEC_ERROR or\n"
     "DATA_ERROR."},
    {MetBy::kOutcome,
     "## Why an attempt or a job ended\n\n"
     "The reasons of `v1.Reason`, which `ampctl job show` prints. \"Retried\" means: from the newest\n"
     "checkpoint, up to `max_retries` times. Clients treat a reason that they do not know as INTERNAL."},
    {MetBy::kCommandLine,
     "## ampctl by itself\n\n"
     "`ampctl` prints these without asking a server."},
    {MetBy::kOperator,
     "## Starting a server or a worker\n\n"
     "The program prints the message and ends with an exit code ([exit-codes.md](exit-codes.md))."},
    {MetBy::kWorker,
     "## Answers to workers\n\n"
     "The agent logs the message and connects again. You meet these if you write a worker of your own."},
    {MetBy::kDeveloper,
     "## Inside one program\n\n"
     "These stay inside ampd, and show only in a log line or in the message of an outcome."},
};

std::string CodesOf(const ReasonRow& row) { return std::regex_replace(std::string(row.codes), std::regex(" "), ", "); }

std::string WithLinks(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(docs/([\w/-]+\.md))"), "[$1]($1)");
}

std::string Page() {
  std::string page =
      "# Errors\n\n"
      "<!-- Made from base/reasons.h by base_test with AMPD_UPDATE_GOLDEN=1. Do not edit. -->\n\n"
      "Every error of ampd has a status code of gRPC, a message for people, and a *reason* for programs:\n"
      "the `reason` of a `google.rpc.ErrorInfo` with the domain `ampd`. A reason stays the same when its\n"
      "message is reworded. An error may carry metadata (such as the job's id), a list of wrong fields\n"
      "(`BadRequest`) and the delay after which to retry (`RetryInfo`). An error without a reason comes\n"
      "from gRPC or from the operating system; its message says what happened.\n";
  const ReasonRow* before = nullptr;
  for (const ReasonRow& row : kReasons) {
    const bool has_codes = row.met_by != MetBy::kOutcome && row.met_by != MetBy::kDeveloper;
    if (before == nullptr || before->met_by != row.met_by) {
      page += "\n" + kGroups.at(row.met_by) + "\n\n| reason | " + (has_codes ? "status code | " : "") +
              "meaning | what to do |\n| --- | --- | --- |" + (has_codes ? " --- |" : "") + "\n";
    }
    page += std::string("| `") + row.reason + "` | " + (has_codes ? CodesOf(row) + " | " : "") + row.meaning + " | " +
            WithLinks(row.action) + " |\n";
    before = &row;
  }
  return page;
}

TEST(Reasons, ErrorPage_EqualsTheTable) { ExpectGolden("docs/errors.md", Page()); }

TEST(Reasons, Rows_AreSortedUniqueAndWellFormed) {
  const std::regex well_formed("[A-Z][A-Z0-9_]{0,62}");
  std::map<std::string, MetBy> seen;
  const ReasonRow* before = nullptr;
  for (const ReasonRow& row : kReasons) {
    const std::string reason = row.reason;
    EXPECT_TRUE(std::regex_match(reason, well_formed)) << reason;
    EXPECT_TRUE(seen.emplace(reason, row.met_by).second) << reason << " has two rows";
    EXPECT_EQ(std::string(row.meaning).back(), '.') << reason;
    EXPECT_EQ(std::string(row.action).back(), '.') << reason;
    if (before != nullptr) {
      EXPECT_LT(std::tuple(before->met_by, std::string(before->reason)), std::tuple(row.met_by, reason));
    }
    before = &row;
  }
}

}  // namespace
}  // namespace ampd
