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
#include "base/grpc/server_connection.h"
#include "client/api/cancellation.h"

namespace ampd::client {

struct JobClientStubs;

// Makes the calls to one ampd-server. Every call has a deadline. Errors have the server's details (reason, field
// violations, retry delay). The first call opens the connection. The streaming calls are in client/api/job_watch.h.
// Thread-safe.
//
// Every call may return the server's errors, UNAVAILABLE if the server cannot be reached, and DEADLINE_EXCEEDED.
class JobClient {
 public:
  struct Options {
    ServerConnection server;
    // The tenant of the jobs to create and to list. If empty, the server chooses the tenant of a new job, and lists
    // show the jobs of all tenants.
    std::string tenant;
    absl::Duration call_deadline = absl::Seconds(10);  // deadline of each unary call
  };

  explicit JobClient(const Options& options);
  ~JobClient();
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  // How to retry a call that creates a job. The call is retried after UNAVAILABLE, with the same request id. It returns
  // CANCELLED if the cancellation ends the retries.
  struct Retry {
    absl::Duration retry_for;              // retry for this long; zero: never retry
    Cancellation* cancellation = nullptr;  // may be null
    // Called before the first retry, with the error.
    std::function<void(const absl::Status&)> on_retry;
  };
  // CreateJob and CloneJob create a job. They do not retry a request that has no request id.
  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request, const Retry& retry);
  absl::StatusOr<v1::Job> CloneJob(const v1::CloneJobRequest& request, const Retry& retry);

  absl::StatusOr<v1::Job> GetJob(const std::string& id);
  // Some of the jobs that match a filter, the newest job first.
  struct JobList {
    std::vector<v1::Job> jobs;
    int64_t total_size = 0;       // number of all matching jobs; 0: the server does not report it
    std::string next_page_token;  // where the next call continues the list; empty: the list is complete
  };
  // Lists at most `limit` (0: all) jobs of the client's tenant that match `filter`, the newest first. `page_token` is
  // the place to start at (empty: the newest job). Reads as many of the server's pages as needed.
  absl::StatusOr<JobList> ListJobs(const std::string& filter, int limit, const std::string& page_token = "");
  // Reads the jobs that ListJobs would return, and passes them to `on_page` page by page.
  absl::Status ForEachJobPage(const std::string& filter, int limit, const std::string& page_token,
                              const std::function<void(const v1::ListJobsResponse&)>& on_page);
  // Finds the jobs of the client's tenant whose id or name is `text`, or whose id begins with `text`.
  absl::StatusOr<v1::FindJobsResponse> FindJobs(const std::string& text);
  absl::StatusOr<v1::Job> CancelJob(const std::string& id);
  absl::StatusOr<v1::Job> PauseJob(const std::string& id);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& id);
  absl::Status DeleteJob(const std::string& id);
  absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request);
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& id);
  absl::StatusOr<v1::EstimateJobResponse> EstimateJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::PolicyTable> ResolvePolicy(const v1::ResolvePolicyRequest& request);
  // Lists the job's metric points, at most `downsample_to` of them (0: all). Joins all of the server's pages into one
  // response.
  absl::StatusOr<v1::ListMetricPointsResponse> ListMetricPoints(const std::string& id, int downsample_to);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const std::string& id);
  // Lists the job's checkpoints, the oldest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(const std::string& id);
  absl::Status DeleteCheckpoint(const std::string& id, int attempt, int64_t step);

  // Lists artifacts, the newest first: those of one job or, if `job` is empty, all uploads and the artifacts of all
  // jobs. Uploads and downloads are in client/api/artifact_transfer.h.
  absl::StatusOr<std::vector<v1::Artifact>> ListArtifacts(const std::string& job);
  absl::Status DeleteArtifact(const std::string& name);

  absl::StatusOr<std::vector<v1::Worker>> ListWorkers();
  absl::StatusOr<v1::Worker> DrainWorker(const std::string& name);
  absl::StatusOr<v1::Worker> UndrainWorker(const std::string& name);
  // Removes a worker from the server's list. The server removes only a worker that is lost.
  absl::Status RemoveWorker(const std::string& name);

  // Returns whether the server reports SERVING for `service`: one of kHealthChecks, or empty for the server as a
  // whole. NOT_FOUND if the server does not know the service.
  absl::StatusOr<bool> IsServing(const std::string& service);

  absl::StatusOr<v1::ServerInfo> GetServerInfo();

  const std::string& address() const { return options_.server.address; }
  const std::string& tenant() const { return options_.tenant; }
  absl::Duration call_deadline() const { return options_.call_deadline; }
  JobClientStubs& stubs() { return *stubs_; }

 private:
  // Does the work of FindJobs. REQUIRES: the client has a tenant.
  absl::StatusOr<v1::FindJobsResponse> FindJobsOfTenant(const std::string& text);

  const Options options_;
  const std::unique_ptr<JobClientStubs> stubs_;
};

// Returns a random UUID, version 4.
std::string NewRequestId();

}  // namespace ampd::client
