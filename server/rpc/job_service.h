#pragma once

#include <functional>

#include "ampd/v1/job_service.grpc.pb.h"
#include "graph/work.h"
#include "server/coordinator/job_commands.h"
#include "server/coordinator/job_queries.h"
#include "server/coordinator/uploaded_model.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/ticker.h"
#include "server/rpc/file_relay.h"
#include "server/rpc/peak_memo.h"
#include "server/rpc/worker_streams.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// Implements ampd.v1.JobService with the coordinator, the metric store and the hub. Each method checks its request,
// makes one call and converts one status. Thread-safe.
class JobService final : public v1::JobService::CallbackService {
 public:
  struct Options {
    const CallEnvironment* environment = nullptr;
    JobCommands* commands = nullptr;
    const JobQueries* queries = nullptr;
    const ModelFinder* models = nullptr;
    MetricStore* store = nullptr;
    MetricsHub* hub = nullptr;
    const ProgressBoard* progress = nullptr;
    const Clock* clock = nullptr;
    Ticker* ticker = nullptr;
    FileRelays* relays = nullptr;
    WorkerStreams* streams = nullptr;
  };
  explicit JobService(const Options& options) : options_(options) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext*, const v1::CreateJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext*, const v1::GetServerInfoRequest*,
                                          v1::ServerInfo*) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext*, const v1::ListJobsRequest*,
                                     v1::ListJobsResponse*) override;
  grpc::ServerUnaryReactor* FindJobs(grpc::CallbackServerContext*, const v1::FindJobsRequest*,
                                     v1::FindJobsResponse*) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext*, const v1::PauseJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext*, const v1::ResumeJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext*, const v1::UpdateJobRequest*, v1::Job*) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext*, const v1::DeleteJobRequest*,
                                      google::protobuf::Empty*) override;
  grpc::ServerUnaryReactor* CloneJob(grpc::CallbackServerContext*, const v1::CloneJobRequest*, v1::Job*) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext*,
                                                           const v1::WatchJobRequest*) override;
  grpc::ServerUnaryReactor* ListMetricPoints(grpc::CallbackServerContext*, const v1::ListMetricPointsRequest*,
                                             v1::ListMetricPointsResponse*) override;
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext*, const v1::ListEventsRequest*,
                                       v1::ListEventsResponse*) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext*, const v1::ExplainJobRequest*,
                                       v1::ExplainJobResponse*) override;
  grpc::ServerUnaryReactor* ResolvePolicy(grpc::CallbackServerContext*, const v1::ResolvePolicyRequest*,
                                          v1::PolicyTable*) override;
  grpc::ServerUnaryReactor* EstimateJob(grpc::CallbackServerContext*, const v1::EstimateJobRequest*,
                                        v1::EstimateJobResponse*) override;
  grpc::ServerWriteReactor<v1::TailLogsResponse>* TailLogs(grpc::CallbackServerContext*,
                                                           const v1::TailLogsRequest*) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext*, const v1::ListCheckpointsRequest*,
                                            v1::ListCheckpointsResponse*) override;
  grpc::ServerUnaryReactor* DeleteCheckpoint(grpc::CallbackServerContext*, const v1::DeleteCheckpointRequest*,
                                             google::protobuf::Empty*) override;
  grpc::ServerWriteReactor<v1::DownloadCheckpointFileResponse>* DownloadCheckpointFile(
      grpc::CallbackServerContext*, const v1::DownloadCheckpointFileRequest*) override;

 private:
  JobDone AnswerJob(v1::Job* response, FinishCall finish) const;
  // Adds the fields that the job's record lacks: progress and retention.
  void Complete(v1::Job* job) const;
  // Returns the caller of this call. REQUIRES: the guard admitted the call.
  Identity IdentityOf(const grpc::CallbackServerContext& context) const;
  // Returns the tenants whose jobs this call may see.
  Tenants VisibleTo(const grpc::CallbackServerContext& context) const;
  // Returns the owner and the tenant of a job that this call creates. `wanted`: the tenant that the request names.
  // `trace`: the server's span for the call.
  absl::StatusOr<Submitter> SubmitterFor(const grpc::CallbackServerContext& context, const std::string& wanted,
                                         const TraceContext& trace) const;
  // Returns a function that reads the job for a stream. The function returns NOT_FOUND if the caller may not see the
  // job.
  std::function<absl::StatusOr<v1::Job>()> ReaderFor(const grpc::CallbackServerContext& context,
                                                     std::string_view method, const std::string& id) const;
  // Whether the model is an uploaded file. A call with such a model may have to wait until the file has been read.
  static bool NamesArtifact(const v1::ModelSpec& model) { return !model.exported().artifact().empty(); }
  // Returns the pool that serves calls about this job. Returns null if the job is in memory: such calls read no disk,
  // so gRPC's own thread serves them.
  WorkPool* PoolFor(const std::string& job) const;
  // Returns the pool that serves a call which creates a job with this model. Returns null if the call will not read the
  // disk, so that gRPC's own thread serves it.
  WorkPool* PoolFor(const v1::ModelSpec& model) const;
  absl::StatusOr<v1::Job> JobWithProgress(const std::string& id) const;
  // Computes the answer to a call from the model that a spec names. Runs on a thread for estimates. Counts its effort
  // in `work`, which can stop the computation.
  using Estimate = std::function<absl::Status(const UploadedModel& model, graph::Work& work)>;
  // Finds the model, runs `estimate` on the pool for estimates, and finishes the call with the status that `estimate`
  // returns. Stops the estimate if the client leaves. `tenant`: the tenant whose uploads are searched.
  void PostEstimate(grpc::CallbackServerContext* context, const std::string& tenant, const v1::ModelSpec& model,
                    const Estimate& estimate, const FinishCall& finish);
  // Predicts the memory peak of the job's newest attempt, sets `progress.memory_predicted_bytes`, and finishes the
  // call. Sets nothing if the job has no attempt, or if the prediction is not cached and all threads for estimates are
  // busy.
  void PredictAndFinish(grpc::CallbackServerContext* context, v1::Job* job, const FinishCall& finish);
  // Finds a worker that has the checkpoint, and requests the file from that worker. `on_piece` is passed to FileRelay.
  absl::StatusOr<std::shared_ptr<FileRelay>> OpenRelay(const v1::DownloadCheckpointFileRequest& request,
                                                       std::function<void()> on_piece);
  absl::Status ReadPoints(const v1::ListMetricPointsRequest& request, v1::ListMetricPointsResponse* response) const;
  absl::Status ReadEvents(const v1::ListEventsRequest& request, v1::ListEventsResponse* response) const;

  const Options options_;
  PeakMemo peaks_;
};

}  // namespace ampd::server
