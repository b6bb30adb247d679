#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "client/api/cancellation.h"

namespace ampd::client {

struct JobClientStubs;

// One server's API in C++: every call has a deadline and answers with absl::Status, details (reason, field violations,
// retry delay) included. Opens the connection at the first call. The streams are in client/api/job_watch.h and
// client/log_tail.h. Thread-safe.
//
// Errors are the server's, plus UNAVAILABLE when it cannot be reached and DEADLINE_EXCEEDED.
class JobClient {
 public:
  struct Options {
    std::string address;                               // host:port
    absl::Duration call_deadline = absl::Seconds(10);  // of each unary call
  };

  explicit JobClient(const Options& options);
  ~JobClient();
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  // How a call that makes a job is repeated on UNAVAILABLE, with the same request id. CANCELLED after the cancellation.
  struct Retry {
    absl::Duration retry_for;              // zero: never
    Cancellation* cancellation = nullptr;  // may be null
    // Called before the first repetition, with what went wrong.
    std::function<void(const absl::Status&)> on_retry;
  };
  // With an empty request id they are not repeated.
  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request, const Retry& retry);
  absl::StatusOr<v1::Job> CloneJob(const v1::CloneJobRequest& request, const Retry& retry);

  absl::StatusOr<v1::Job> GetJob(const std::string& id);
  // Some of the jobs that match, the newest first.
  struct JobList {
    std::vector<v1::Job> jobs;
    int64_t total_size = 0;       // how many match; 0: the server does not say
    std::string next_page_token;  // where the list goes on; empty: at its end
  };
  // At most `limit` jobs from `page_token` on (empty: from the newest), over as many pages as it takes; 0: all.
  absl::StatusOr<JobList> ListJobs(const std::string& filter, int limit, const std::string& page_token = "");
  absl::StatusOr<v1::Job> CancelJob(const std::string& id);
  absl::StatusOr<v1::Job> PauseJob(const std::string& id);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& id);
  absl::Status DeleteJob(const std::string& id);
  absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request);
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& id);
  absl::StatusOr<v1::EstimateJobResponse> EstimateJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::PolicyTable> ResolvePolicy(const v1::ResolvePolicyRequest& request);
  // All pages in one answer.
  absl::StatusOr<v1::ListMetricPointsResponse> ListMetricPoints(const std::string& id, int downsample_to);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const std::string& id);
  // Oldest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(const std::string& id);
  absl::Status DeleteCheckpoint(const std::string& id, int attempt, int64_t step);

  // Newest first; of one job, or of all and of uploads where `job` is empty. client/api/artifact_transfer.h has the
  // rest.
  absl::StatusOr<std::vector<v1::Artifact>> ListArtifacts(const std::string& job);
  absl::Status DeleteArtifact(const std::string& name);

  absl::StatusOr<std::vector<v1::Worker>> ListWorkers();
  absl::StatusOr<v1::Worker> DrainWorker(const std::string& name);
  absl::StatusOr<v1::Worker> UndrainWorker(const std::string& name);
  // Only a lost one.
  absl::Status RemoveWorker(const std::string& name);

  // Whether the server says SERVING for `service`: one of kHealthChecks, or empty for the server as a whole. NOT_FOUND
  // when it knows no such service.
  absl::StatusOr<bool> IsServing(const std::string& service);

  const std::string& address() const { return options_.address; }
  JobClientStubs& stubs() { return *stubs_; }

 private:
  const Options options_;
  const std::unique_ptr<JobClientStubs> stubs_;
};

// A random UUID, version 4.
std::string NewRequestId();

}  // namespace ampd::client
