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

// One server's API in C++. Every call has a deadline and returns an absl::Status with its details (reason, field
// violations, retry delay). The connection is opened by the first call. The streams are in client/api/job_watch.h.
// Thread-safe.
//
// Errors are the server's, plus UNAVAILABLE when it cannot be reached and DEADLINE_EXCEEDED.
class JobClient {
 public:
  struct Options {
    std::string address;                               // host:port
    absl::Duration call_deadline = absl::Seconds(10);  // deadline of each unary call
  };

  explicit JobClient(const Options& options);
  ~JobClient();
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  // How a call that creates a job is retried on UNAVAILABLE, with the same request id. CANCELLED after the
  // cancellation.
  struct Retry {
    absl::Duration retry_for;              // zero: never
    Cancellation* cancellation = nullptr;  // may be null
    // Called before the first retry, with the error.
    std::function<void(const absl::Status&)> on_retry;
  };
  // Calls with an empty request id are not retried.
  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request, const Retry& retry);
  absl::StatusOr<v1::Job> CloneJob(const v1::CloneJobRequest& request, const Retry& retry);

  absl::StatusOr<v1::Job> GetJob(const std::string& id);
  // Some of the matching jobs, the newest first.
  struct JobList {
    std::vector<v1::Job> jobs;
    int64_t total_size = 0;       // number of matching jobs; 0: the server does not report it
    std::string next_page_token;  // token of the next page; empty: there is none
  };
  // Lists at most `limit` jobs (0: all), starting at `page_token` (empty: at the newest). Reads as many pages as
  // needed.
  absl::StatusOr<JobList> ListJobs(const std::string& filter, int limit, const std::string& page_token = "");
  absl::StatusOr<v1::Job> CancelJob(const std::string& id);
  absl::StatusOr<v1::Job> PauseJob(const std::string& id);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& id);
  absl::Status DeleteJob(const std::string& id);
  absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request);
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& id);
  absl::StatusOr<v1::EstimateJobResponse> EstimateJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::PolicyTable> ResolvePolicy(const v1::ResolvePolicyRequest& request);
  // Reads all pages into one response.
  absl::StatusOr<v1::ListMetricPointsResponse> ListMetricPoints(const std::string& id, int downsample_to);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const std::string& id);
  // Oldest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(const std::string& id);
  absl::Status DeleteCheckpoint(const std::string& id, int attempt, int64_t step);

  // Newest first: the artifacts of one job or, if `job` is empty, of all jobs and the uploads. Transfers are in
  // client/api/artifact_transfer.h.
  absl::StatusOr<std::vector<v1::Artifact>> ListArtifacts(const std::string& job);
  absl::Status DeleteArtifact(const std::string& name);

  absl::StatusOr<std::vector<v1::Worker>> ListWorkers();
  absl::StatusOr<v1::Worker> DrainWorker(const std::string& name);
  absl::StatusOr<v1::Worker> UndrainWorker(const std::string& name);
  // Only a lost worker can be removed.
  absl::Status RemoveWorker(const std::string& name);

  // Whether the server reports SERVING for `service`: one of kHealthChecks, or empty for the server as a whole.
  // NOT_FOUND if the server does not know the service.
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
