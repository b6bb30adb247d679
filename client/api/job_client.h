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

// One server's API in C++. Every call has a deadline and returns an absl::Status with its details (reason, field
// violations, retry delay). The connection is opened by the first call. The streaming calls are in
// client/api/job_watch.h. Thread-safe.
//
// Returns the server's errors, UNAVAILABLE when the server cannot be reached, and DEADLINE_EXCEEDED.
class JobClient {
 public:
  struct Options {
    ServerConnection server;
    std::string tenant;  // Of what calls make and list; empty: the server chooses, and lists show all.
    absl::Duration call_deadline = absl::Seconds(10);  // deadline of each unary call
  };

  explicit JobClient(const Options& options);
  ~JobClient();
  JobClient(const JobClient&) = delete;
  JobClient& operator=(const JobClient&) = delete;

  // How to retry a call that creates a job. The call is retried on UNAVAILABLE, with the same request id, and returns
  // CANCELLED if the cancellation ends the retries.
  struct Retry {
    absl::Duration retry_for;              // retry for this long; zero: never retry
    Cancellation* cancellation = nullptr;  // may be null
    // Called before the first retry, with the error.
    std::function<void(const absl::Status&)> on_retry;
  };
  // Creates a job. For CreateJob and CloneJob: a request without a request id is sent once, without retries.
  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request, const Retry& retry);
  absl::StatusOr<v1::Job> CloneJob(const v1::CloneJobRequest& request, const Retry& retry);

  absl::StatusOr<v1::Job> GetJob(const std::string& id);
  // A part of the list of matching jobs, the newest job first.
  struct JobList {
    std::vector<v1::Job> jobs;
    int64_t total_size = 0;       // number of all matching jobs; 0: the server does not report it
    std::string next_page_token;  // where the next call continues the list; empty: the list is complete
  };
  // Lists at most `limit` jobs of the client's tenant that match `filter` (0: all of them). `page_token` is the place
  // to start at (empty: the newest job). Reads as many of the server's pages as needed.
  absl::StatusOr<JobList> ListJobs(const std::string& filter, int limit, const std::string& page_token = "");
  // Reads at most `limit` (0: all) matching jobs page by page, and passes each page to `on_page`.
  absl::Status ForEachJobPage(const std::string& filter, int limit, const std::string& page_token,
                              const std::function<void(const v1::ListJobsResponse&)>& on_page);
  // Finds the jobs of the client's tenant that a user may mean by `text`: by id, name, or the beginning of an id.
  absl::StatusOr<v1::FindJobsResponse> FindJobs(const std::string& text);
  absl::StatusOr<v1::Job> CancelJob(const std::string& id);
  absl::StatusOr<v1::Job> PauseJob(const std::string& id);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& id);
  absl::Status DeleteJob(const std::string& id);
  absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request);
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& id);
  absl::StatusOr<v1::EstimateJobResponse> EstimateJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::PolicyTable> ResolvePolicy(const v1::ResolvePolicyRequest& request);
  // Lists the job's metric points. Reads all pages of the server into one response.
  absl::StatusOr<v1::ListMetricPointsResponse> ListMetricPoints(const std::string& id, int downsample_to);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const std::string& id);
  // Lists the job's checkpoints, the oldest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(const std::string& id);
  absl::Status DeleteCheckpoint(const std::string& id, int attempt, int64_t step);

  // Lists the artifacts of one job or, if `job` is empty, of all jobs together with the uploads; the newest first.
  // Uploads and downloads are in client/api/artifact_transfer.h.
  absl::StatusOr<std::vector<v1::Artifact>> ListArtifacts(const std::string& job);
  absl::Status DeleteArtifact(const std::string& name);

  absl::StatusOr<std::vector<v1::Worker>> ListWorkers();
  absl::StatusOr<v1::Worker> DrainWorker(const std::string& name);
  absl::StatusOr<v1::Worker> UndrainWorker(const std::string& name);
  // Removes a worker from the server's list. The server refuses unless the worker is lost.
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
  // FindJobs among the jobs of the client's tenant only. REQUIRES: the client has a tenant.
  absl::StatusOr<v1::FindJobsResponse> FindJobsOfTenant(const std::string& text);

  const Options options_;
  const std::unique_ptr<JobClientStubs> stubs_;
};

// Returns a random UUID, version 4.
std::string NewRequestId();

}  // namespace ampd::client
