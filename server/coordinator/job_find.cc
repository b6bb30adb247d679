// Finds the jobs that a user may mean by a text: a name, an id, or the beginning of an id. Searches the jobs in memory
// (the hot state) and the history table.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/coordinator/job_queries.h"

namespace ampd::server {
namespace {

constexpr int kMaxMatches = 20;
// The most records of the history table that are read for one name or for one prefix of an id. Records of tenants that
// the caller may not see count too.
constexpr int kMaxRead = 500;
constexpr size_t kMinPrefixBytes = 5;  // "j-" and three characters. client/commands/find_job.cc relies on this number.

void AddMatch(const v1::Job& job, v1::FindJobsResponse* response) {
  v1::FindJobsResponse::Match* match = response->add_matches();
  match->set_id(job.id());
  match->set_name(job.spec().name());
  match->set_state(job.state());
  *match->mutable_create_time() = job.create_time();
}

}  // namespace

absl::StatusOr<std::vector<JobRecordPtr>> JobQueries::RecordsLike(const std::string& text, int limit,
                                                                  const Tenants& visible) const {
  const auto hot_limit = static_cast<size_t>(limit);
  const bool may_be_prefix = text.size() >= kMinPrefixBytes && text.starts_with("j-");
  // The hot state is read before the history table. If a job moves to the history table in between, it is found twice;
  // in the other order it could be missed.
  std::vector<JobRecordPtr> records = options_.ledger->Read([&](const ClusterState& state) {
    std::vector<JobRecordPtr> found = state.JobsNamed(text, hot_limit, visible);
    if (may_be_prefix) {
      const std::vector<JobRecordPtr> more = state.JobsWithPrefix(text, hot_limit, visible);
      found.insert(found.end(), more.begin(), more.end());
    }
    return found;
  });
  const int num_read = visible.all() ? limit : kMaxRead;
  AMPD_ASSIGN_OR_RETURN(std::vector<std::string> archived,
                        options_.ledger->history().FindArchivedNamed(text, num_read));
  if (may_be_prefix) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> more,
                          options_.ledger->history().FindArchivedWithPrefix(text, num_read));
    archived.insert(archived.end(), more.begin(), more.end());
  }
  for (const std::string& bytes : archived) {
    AMPD_ASSIGN_OR_RETURN(JobRecordPtr record, ParseJobRecord(bytes));
    if (visible.Has(record->job().tenant())) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

absl::StatusOr<v1::FindJobsResponse> JobQueries::FindJobs(const v1::FindJobsRequest& request,
                                                          const Tenants& visible) const {
  if (request.text().empty()) {
    return InvalidFields({{"text", "must be set"}});
  }
  v1::FindJobsResponse response;
  const absl::StatusOr<JobRecordPtr> exact = FindRecord(request.text());
  if (exact.ok() && visible.Has((*exact)->job().tenant())) {
    AddMatch((*exact)->job(), &response);
    return response;
  }
  if (!exact.ok() && !absl::IsNotFound(exact.status())) {
    return exact.status();
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<JobRecordPtr> records, RecordsLike(request.text(), kMaxMatches + 1, visible));
  std::map<int64_t, JobRecordPtr> by_order;
  for (const JobRecordPtr& record : records) {
    by_order.emplace(record->job().submit_order(), record);
  }
  for (auto entry = by_order.rbegin(); entry != by_order.rend() && response.matches_size() < kMaxMatches; ++entry) {
    AddMatch(entry->second->job(), &response);
  }
  response.set_more(by_order.size() > kMaxMatches);
  return response;
}

}  // namespace ampd::server
