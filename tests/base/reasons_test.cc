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
     "A call of the API can fail with one of the following errors. `ampctl` prints the reason in brackets after\n"
     "the message."},
    {MetBy::kModel,
     "## Models and policies\n\n"
     "If a model or a precision policy cannot be used, `ampctl policy show` fails with one of the following errors.\n"
     "A submit then fails with INVALID_FIELDS, and its list of violations contains the message that `policy show`\n"
     "prints. If only the worker can find the problem, the job ends with SPEC_ERROR or DATA_ERROR."},
    {MetBy::kOutcome,
     "## Why an attempt or a job ended\n\n"
     "`ampctl job show` prints why an attempt or a job ended, as one of the following reasons (`v1.Reason`). If a job\n"
     "is retried, it continues from its newest checkpoint; this happens up to `max_retries` times. Clients treat a\n"
     "reason that they do not know as INTERNAL."},
    {MetBy::kCommandLine,
     "## ampctl by itself\n\n"
     "`ampctl` finds the following errors itself, without asking a server."},
    {MetBy::kOperator,
     "## Starting a server or a worker\n\n"
     "If `ampd-server` or `ampd-worker` cannot start, or cannot continue, it prints the message of one of the\n"
     "following errors and ends with an exit code ([exit-codes.md](exit-codes.md))."},
    {MetBy::kWorker,
     "## Answers to workers\n\n"
     "The server sends the following errors to workers. The worker's agent logs the message and connects again. You\n"
     "need to know these errors if you write a worker of your own."},
    {MetBy::kDeveloper,
     "## Inside one program\n\n"
     "The following errors stay inside ampd: users see them only in log lines, and in the messages that\n"
     "say why a job or an attempt ended."},
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
