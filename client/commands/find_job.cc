#include "client/commands/find_job.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/commands/checks.h"
#include "client/render/format.h"
#include "client/render/table.h"
#include "client/terminal/session.h"

namespace ampd::client {
namespace {

using Match = v1::FindJobsResponse::Match;

constexpr size_t kIdBytes = 18;
constexpr size_t kMinPrefixBytes = 5;  // The server's limit, in server/coordinator/job_find.cc.
constexpr size_t kMaxShownBytes = 80;

bool IsWholeId(const std::string& text) {
  return text.size() == kIdBytes && text.starts_with("j-") && std::all_of(text.begin() + 2, text.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c);
         });
}

// Returns whether the text may be the beginning of an id that is too short for the server to search for.
bool IsShortPrefix(const std::string& text) { return text.starts_with("j-") && text.size() < kMinPrefixBytes; }

// Returns a table of the jobs, one per line.
std::string CandidatesText(const v1::FindJobsResponse& found) {
  std::vector<std::vector<std::string>> rows;
  for (const Match& match : found.matches()) {
    const absl::Time created =
        absl::FromUnixSeconds(match.create_time().seconds()) + absl::Nanoseconds(match.create_time().nanos());
    rows.push_back({Printable(match.id()), Printable(match.name()), v1::Job::State_Name(match.state()),
                    FormatSpan(absl::Now() - created) + " ago"});
  }
  return RenderTable(std::vector<std::string>(4), rows, /*headings=*/false);
}

absl::Status Ambiguous(const std::string& text, const v1::FindJobsResponse& found) {
  const std::string shown = Shortened(text, kMaxShownBytes);
  const std::string count =
      found.more() ? absl::StrCat("more than ", found.matches_size()) : absl::StrCat(found.matches_size());
  return ErrorWithMetadata(
      absl::StatusCode::kInvalidArgument, "JOB_AMBIGUOUS",
      absl::StrCat("\"", shown, "\" matches ", count, " jobs; repeat the command with the id of one"),
      {{kCandidates, CandidatesText(found)}});
}

// Returns the beginning of a job's id in lower case, as ids have it, if `text` has it in capital letters and there is
// such a job. Empty otherwise.
std::string InLowerCase(JobClient* client, const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == text || !lower.starts_with("j-")) {
    return "";
  }
  const auto found = client->FindJobs(lower);
  return found.ok() && !found->matches().empty() ? lower : "";
}

// Returns the error that `text` names no job. The error suggests the most similar name of a job.
absl::Status NoJob(JobClient* client, const std::string& text) {
  constexpr int kMostExamined = 500;
  const std::string lower = InLowerCase(client, text);
  const bool is_job_file = text.ends_with(".yaml") || text.ends_with(".yml");
  const absl::Status status = Error(
      absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
      absl::StrCat(
          "there is no job with the id or the name \"", Shortened(text, kMaxShownBytes), "\"",
          IsShortPrefix(text) ? "; to name a job by the beginning of its id, give \"j-\" and at least 3 more characters"
                              : "",
          lower.empty() ? "" : absl::StrCat("; did you mean '", lower, "'?"),
          text.find(',') != std::string::npos ? absl::StrCat("; separate the names of jobs by blanks, without commas: ",
                                                             absl::StrReplaceAll(text, {{", ", " "}, {",", " "}}))
                                              : "",
          is_job_file ? "; to check a job file: ampctl job submit --dry-run -f FILE" : ""));
  std::vector<std::string> names;
  if (const auto jobs = client->ListJobs("", kMostExamined);
      jobs.ok() && lower.empty() && !text.starts_with("j-") && text.find(',') == std::string::npos) {
    for (const v1::Job& job : jobs->jobs) {
      names.push_back(job.spec().name());
    }
  }
  return WithMeantName(status, text.substr(text.find('/') + 1), names);  // kubectl writes job/NAME
}

}  // namespace

absl::StatusOr<std::string> FindJobId(JobClient* client, const std::string& text) {
  if (IsWholeId(text)) {
    return text;
  }
  AMPD_ASSIGN_OR_RETURN(const v1::FindJobsResponse found, client->FindJobs(text));
  if (found.matches().empty()) {
    return NoJob(client, text);
  }
  return found.matches_size() == 1 && !found.more() ? absl::StatusOr<std::string>(found.matches(0).id())
                                                    : Ambiguous(text, found);
}

}  // namespace ampd::client
