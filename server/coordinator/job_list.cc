// Lists jobs from memory (the hot state) and from the history table.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/api/page_budget.h"
#include "base/api/page_size.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/coordinator/answer_limits.h"
#include "server/coordinator/job_filter.h"
#include "server/coordinator/job_queries.h"
#include "server/state/placement.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

// The most bytes of history records that are read for one page, and the most that are read to count matches. The
// records are read in parts of some megabytes, so slightly more may be read.
constexpr size_t kMaxReadBytes = size_t{128} << 20;
// The most comparisons of queued jobs with devices for one page. This many take a few hundred milliseconds.
constexpr int64_t kMaxExamined = 200'000;

// The condition that decides which jobs a listing shows.
struct Wanted {
  const JobFilter& filter;
  const Tenants& tenants;

  bool Has(const Job& job) const { return tenants.Has(job.tenant()) && filter.Matches(job); }
  bool has_all() const { return tenants.all() && filter.matches_all(); }
};

// Returns the newest `limit` jobs in memory that meet the condition and have a submit order below `before`.
std::map<int64_t, JobRecordPtr> CollectHot(const ClusterState& state, int64_t before, const Wanted& wanted,
                                           size_t limit) {
  std::map<int64_t, JobRecordPtr> jobs;
  const auto end = std::make_reverse_iterator(state.jobs().lower_bound(before));
  for (auto entry = end; entry != state.jobs().rend() && jobs.size() < limit; ++entry) {
    if (wanted.Has(entry->second->job())) {
      jobs[entry->first] = entry->second;
    }
  }
  return jobs;
}

// Reads records of the history table, newest first, from one submit order on. Reads at most `max_records` records, and
// at most kMaxReadBytes.
class HistoryScan {
 public:
  HistoryScan(Journal& history, int64_t before, int64_t max_records)
      : history_(history), before_(before), num_left_(max_records) {}

  // Returns the next records. Returns none if the table has no more, or if the scan has read as much as it may.
  absl::StatusOr<std::vector<JobRecordPtr>> Next() {
    std::vector<JobRecordPtr> parsed;
    if (has_stopped()) {
      return parsed;
    }
    const auto limit = static_cast<int>(std::min<int64_t>(num_left_, kMaxPage));
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> records, history_.ListArchived(before_, limit));
    for (const std::string& bytes : records) {
      AMPD_ASSIGN_OR_RETURN(JobRecordPtr record, ParseJobRecord(bytes));
      before_ = record->job().submit_order();
      num_bytes_ += bytes.size();
      parsed.push_back(std::move(record));
    }
    num_left_ -= static_cast<int64_t>(records.size());
    return parsed;
  }

  // Whether the scan has read as much as it may. The table may then have more records.
  bool has_stopped() const { return num_left_ <= 0 || num_bytes_ >= kMaxReadBytes; }
  // The submit order of the last record that was read.
  int64_t position() const { return before_; }

 private:
  Journal& history_;
  int64_t before_;
  int64_t num_left_;
  size_t num_bytes_ = 0;
};

// Adds matching jobs of the history table, newest first, until `limit` jobs were added. If the scan stops before that,
// returns the submit order of the last job that was read; the jobs before it were not looked at. Otherwise returns
// nullopt.
absl::StatusOr<std::optional<int64_t>> CollectArchived(HistoryScan scan, const Wanted& wanted, size_t limit,
                                                       std::map<int64_t, JobRecordPtr>* jobs) {
  size_t num_added = 0;
  PageBudget budget;  // The page has the same budget, so no job that is left out here would fit on it.
  while (num_added < limit) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<JobRecordPtr> records, scan.Next());
    if (records.empty()) {
      return scan.has_stopped() ? std::optional(scan.position()) : std::nullopt;
    }
    for (const JobRecordPtr& record : records) {
      const Job& job = record->job();
      if (num_added < limit && wanted.Has(job) && jobs->emplace(job.submit_order(), record).second) {
        ++num_added;
        if (!budget.Take(job.ByteSizeLong())) {
          return std::nullopt;
        }
      }
    }
  }
  return std::nullopt;
}

// Returns the number of all jobs that match, or 0 if counting would take too long: if it had to read more than
// `max_records` records of the history table. `page`: the first page of these jobs.
absl::StatusOr<int64_t> CountJobs(const Ledger& ledger, const Wanted& wanted, int64_t max_records,
                                  const v1::ListJobsResponse& page) {
  if (page.next_page_token().empty()) {
    return page.jobs_size();
  }
  const int64_t num_hot = ledger.Read([&](const ClusterState& state) {
    return std::count_if(state.jobs().begin(), state.jobs().end(),
                         [&](const auto& entry) { return wanted.Has(entry.second->job()); });
  });
  AMPD_ASSIGN_OR_RETURN(const int64_t num_archived, ledger.history().CountArchived());
  if (wanted.has_all()) {
    return num_hot + num_archived;
  }
  if (num_archived > max_records) {
    return 0;
  }
  int64_t num_matching = 0;
  // One record more than there are, so the scan does not stop at the last one.
  HistoryScan scan(ledger.history(), std::numeric_limits<int64_t>::max(), max_records + 1);
  while (true) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<JobRecordPtr> records, scan.Next());
    if (records.empty()) {
      return scan.has_stopped() ? 0 : num_hot + num_matching;
    }
    num_matching += std::count_if(records.begin(), records.end(),
                                  [&](const JobRecordPtr& record) { return wanted.Has(record->job()); });
  }
}

}  // namespace

void JobQueries::AddPending(const std::map<int64_t, JobRecordPtr>& records, v1::ListJobsResponse* page) const {
  const auto is_queued = [](const Job& job) { return job.state() == Job::QUEUED; };
  if (std::none_of(page->jobs().begin(), page->jobs().end(), is_queued)) {
    return;
  }
  const Place place = FindPlace(nullptr);
  PendingReasons reasons({&place.fleet, place.first_queued, absl::ToUnixMicros(options_.clock->Now()), kMaxExamined});
  for (Job& job : *page->mutable_jobs()) {
    if (std::optional<v1::Pending> pending = reasons.Find(*records.at(job.submit_order())); pending.has_value()) {
      *job.mutable_pending() = *std::move(pending);
    }
  }
}

absl::StatusOr<v1::ListJobsResponse> JobQueries::ListJobs(const v1::ListJobsRequest& request,
                                                          const Tenants& visible) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size(), kDefaultPage, kMaxPage));
  AMPD_ASSIGN_OR_RETURN(const JobFilter filter, JobFilter::Parse(request.filter()));
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &before)) {
    return UnknownPageToken(request.page_token());
  }
  const Wanted wanted{filter, visible};
  const size_t limit = static_cast<size_t>(page_size) + 1;  // One more job shows whether there is a next page.
  // The hot state is read before the history table. If a job moves to the history table in between, it is found twice;
  // in the other order it could be missed.
  std::map<int64_t, JobRecordPtr> jobs =
      options_.ledger->Read([&](const ClusterState& state) { return CollectHot(state, before, wanted, limit); });
  AMPD_ASSIGN_OR_RETURN(const std::optional<int64_t> stop,
                        CollectArchived(HistoryScan(options_.ledger->history(), before, options_.max_history_records),
                                        wanted, limit, &jobs));
  v1::ListJobsResponse response;
  if (stop.has_value()) {
    // The next page begins here. Jobs in memory that were submitted earlier belong to later pages.
    jobs.erase(jobs.begin(), jobs.lower_bound(*stop));
    response.set_next_page_token(absl::StrCat(*stop));
  }
  PageBudget budget;
  for (auto entry = jobs.rbegin(); entry != jobs.rend(); ++entry) {
    if (response.jobs_size() == page_size || !budget.Take(entry->second->job().ByteSizeLong())) {
      response.set_next_page_token(absl::StrCat(response.jobs().rbegin()->submit_order()));
      break;
    }
    *response.add_jobs() = entry->second->job();
  }
  AddPending(jobs, &response);
  if (request.page_token().empty()) {
    AMPD_ASSIGN_OR_RETURN(const int64_t total,
                          CountJobs(*options_.ledger, wanted, options_.max_history_records, response));
    response.set_total_size(total);
  }
  return response;
}

}  // namespace ampd::server
