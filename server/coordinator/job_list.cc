// The list of jobs, over the hot state and the history table.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/page_budget.h"
#include "base/page_size.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/coordinator/job_queries.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 500;
constexpr int64_t kMaxCounted = 20'000;  // The most records of the history table that are read to count matches.
constexpr size_t kMaxShownBytes = 80;
constexpr char kTermForms[] = "terms are state=, name=, queue=, id= or labels.KEY=, joined by AND";

// One term of a filter, KEY=VALUE.
struct Term {
  std::string key;
  std::string value;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int state = Job::STATE_UNSPECIFIED + 1; state <= Job::State_MAX; ++state) {
    names.push_back(Job::State_Name(state));
  }
  return names;
}

absl::StatusOr<std::vector<Term>> ParseFilter(const std::string& filter) {
  std::vector<Term> terms;
  if (filter.empty()) {
    return terms;
  }
  if (filter.size() > 4096) {
    return InvalidFields({{"filter", "is longer than 4096 bytes"}});
  }
  // The added spaces make an AND at either end of the filter produce an empty term.
  const std::string padded = absl::StrCat(" ", filter, " ");
  for (const absl::string_view piece : absl::StrSplit(padded, " AND ")) {
    const absl::string_view text = absl::StripAsciiWhitespace(piece);
    if (text.empty()) {
      return InvalidFields({{"filter", absl::StrCat("has no term where one is wanted; ", kTermForms)}});
    }
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    const std::string& key = parts[0];
    const bool known = key == "state" || key == "name" || key == "queue" || key == "id" ||
                       (absl::StartsWith(key, "labels.") && key.size() > 7);
    if (parts.size() != 2 || !known) {
      return InvalidFields({{"filter", absl::StrCat("has \"", Shortened({text.data(), text.size()}, kMaxShownBytes),
                                                    "\"; ", kTermForms)}});
    }
    Job::State state = Job::STATE_UNSPECIFIED;
    if (key == "state" && !Job::State_Parse(parts[1], &state)) {
      return InvalidFields({{"filter", absl::StrCat("has the state \"", Shortened(parts[1], kMaxShownBytes),
                                                    "\"; states are ", absl::StrJoin(StateNames(), ", "))}});
    }
    terms.push_back({key, parts[1]});
  }
  return terms;
}

bool Matches(const Job& job, const Term& term) {
  if (term.key == "state") {
    return Job::State_Name(job.state()) == term.value;
  }
  if (term.key == "name") {
    return job.spec().name() == term.value;
  }
  if (term.key == "queue") {
    return job.spec().queue() == term.value;
  }
  if (term.key == "id") {
    return job.id() == term.value;
  }
  const auto label = job.spec().labels().find(term.key.substr(7));
  return label != job.spec().labels().end() && label->second == term.value;
}

bool Matches(const Job& job, const std::vector<Term>& terms) {
  return std::all_of(terms.begin(), terms.end(), [&](const Term& term) { return Matches(job, term); });
}

absl::StatusOr<JobRecordPtr> ParseJobRecord(const std::string& bytes) {
  auto record = std::make_shared<internal::JobRecord>();
  if (!record->ParseFromString(bytes)) {
    return Error(StatusCode::kDataLoss, "STORE_CORRUPT", "a record of the history table is damaged");
  }
  return record;
}

// Returns the newest `limit` jobs in memory that match the terms and have a submit order below `before`.
std::map<int64_t, JobPtr> CollectHot(const ClusterState& state, int64_t before, const std::vector<Term>& terms,
                                     size_t limit) {
  std::map<int64_t, JobPtr> jobs;
  const auto end = std::make_reverse_iterator(state.jobs().lower_bound(before));
  for (auto entry = end; entry != state.jobs().rend() && jobs.size() < limit; ++entry) {
    if (Matches(entry->second->job(), terms)) {
      jobs[entry->first] = JobOf(entry->second);
    }
  }
  return jobs;
}

// Adds matching jobs of the history table, newest first, until `limit` jobs were added.
absl::Status CollectArchived(Journal& history, int64_t before, const std::vector<Term>& terms, size_t limit,
                             std::map<int64_t, JobPtr>* jobs) {
  size_t num_added = 0;
  PageBudget budget;  // The same budget as the page's, so the page ends before any job that is not collected here.
  while (num_added < limit) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> records, history.ListArchived(before, kMaxPage));
    if (records.empty()) {
      return absl::OkStatus();
    }
    for (const std::string& bytes : records) {
      AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, ParseJobRecord(bytes));
      before = record->job().submit_order();
      if (num_added < limit && Matches(record->job(), terms) && jobs->emplace(before, JobOf(record)).second) {
        ++num_added;
        if (!budget.Take(record->job().ByteSizeLong())) {
          return absl::OkStatus();
        }
      }
    }
  }
  return absl::OkStatus();
}

// Returns the number of all jobs that match; 0 if counting would take too long. `page`: the first page of them.
absl::StatusOr<int64_t> CountJobs(const Ledger& ledger, const std::vector<Term>& terms,
                                  const v1::ListJobsResponse& page) {
  if (page.next_page_token().empty()) {
    return page.jobs_size();
  }
  const int64_t num_hot = ledger.Read([&](const ClusterState& state) {
    return std::count_if(state.jobs().begin(), state.jobs().end(),
                         [&](const auto& entry) { return Matches(entry.second->job(), terms); });
  });
  AMPD_ASSIGN_OR_RETURN(const int64_t num_archived, ledger.history().CountArchived());
  if (terms.empty()) {
    return num_hot + num_archived;
  }
  if (num_archived > kMaxCounted) {
    return 0;
  }
  int64_t num_matching = 0;
  for (int64_t before = std::numeric_limits<int64_t>::max();;) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> records, ledger.history().ListArchived(before, kMaxPage));
    if (records.empty()) {
      return num_hot + num_matching;
    }
    for (const std::string& bytes : records) {
      AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, ParseJobRecord(bytes));
      before = record->job().submit_order();
      num_matching += Matches(record->job(), terms) ? 1 : 0;
    }
  }
}

}  // namespace

absl::StatusOr<v1::ListJobsResponse> JobQueries::ListJobs(const v1::ListJobsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size(), kDefaultPage, kMaxPage));
  AMPD_ASSIGN_OR_RETURN(const std::vector<Term> terms, ParseFilter(request.filter()));
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &before)) {
    return InvalidFields({{"page_token", "is not one that this server gave"}});
  }
  const size_t limit = static_cast<size_t>(page_size) + 1;  // One more shows whether there is a next page.
  // Reads the hot state first, so that a job on its way to the history table is found in at least one of them.
  std::map<int64_t, JobPtr> jobs =
      options_.ledger->Read([&](const ClusterState& state) { return CollectHot(state, before, terms, limit); });
  AMPD_RETURN_IF_ERROR(CollectArchived(options_.ledger->history(), before, terms, limit, &jobs));
  v1::ListJobsResponse response;
  PageBudget budget;
  for (auto entry = jobs.rbegin(); entry != jobs.rend(); ++entry) {
    if (response.jobs_size() == page_size || !budget.Take(entry->second->ByteSizeLong())) {
      response.set_next_page_token(absl::StrCat(response.jobs().rbegin()->submit_order()));
      break;
    }
    *response.add_jobs() = *entry->second;
  }
  if (request.page_token().empty()) {
    AMPD_ASSIGN_OR_RETURN(const int64_t total, CountJobs(*options_.ledger, terms, response));
    response.set_total_size(total);
  }
  return response;
}

}  // namespace ampd::server
