#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "ampd/v1/worker_service.grpc.pb.h"

namespace ampd::agent {

// A server for one worker, in this process. It answers each report with a directive that names the wanted attempts
// (Want), and stores telemetry as the real server does. Thread-safe.
class FakeServer final : public v1::WorkerService::Service {
 public:
  // Starts the server on `port`, or on a free port if `port` is 0.
  explicit FakeServer(absl::Duration lease, int port = 0);
  ~FakeServer() override;

  std::string address() const;

  // Makes all further directives assign the first attempt of `job` to the worker, until Drop is called or the attempt's
  // outcome arrives. `artifact`: the digest of the model's artifact; empty if the model has none.
  v1::AttemptKey Want(const std::string& job, const std::string& script, v1::Job::Desired desired = v1::Job::RUN,
                      const std::string& artifact = "");
  void Drop(const std::string& job);
  void Delete(const std::string& path);
  // A silent server answers no report, so that the worker's lease expires.
  void SetSilent(bool silent);
  // While the server is busy, it stores and acknowledges no telemetry, so uploads wait.
  void SetBusy(bool busy);
  // AddArtifact makes the server serve an artifact with this content, and returns its digest. While artifacts are
  // hidden, every download of an artifact fails with UNAVAILABLE.
  std::string AddArtifact(const std::string& content);
  void HideArtifacts(bool hidden);
  // Makes each download send the whole content and then stay open until the client ends it.
  void StallArtifacts();
  // From this call on, the server ends every Attach stream with `status`, when it receives the stream's next report.
  // With OK, the server ends no streams any more.
  void EndStreamsWith(const grpc::Status& status);

  // Waits until `condition` holds, which is checked after every report and upload. Returns false after `timeout`.
  bool WaitFor(const std::function<bool(const FakeServer&)>& condition, absl::Duration timeout = absl::Seconds(20));

  // ---- Call the functions below only in a condition of WaitFor, which holds the lock.
  std::string StateOf(const std::string& job) const;  // such as "RUNNING"; "" if the job is not reported
  int64_t StepOf(const std::string& job) const;
  const v1::Outcome* OutcomeOf(const std::string& job) const;
  uint64_t stored(const std::string& job) const;
  std::string log(const std::string& job) const;
  int num_reports() const { return num_reports_; }
  // The state of the worker's only device: "cpu healthy", "cpu unhealthy: why", or "" before the first report.
  std::string DeviceText() const;
  std::string agent_id() const { return report_.agent().id(); }
  const v1::WorkerReport& report() const { return report_; }  // the newest report
  int num_ended_streams() const { return num_ended_streams_; }
  int num_checkpoints() const { return num_checkpoints_; }
  // The number of checkpoints of unfinished attempts that were reported before all telemetry that precedes them was
  // stored.
  int num_early_checkpoints() const { return num_early_checkpoints_; }
  int num_gaps() const { return num_gaps_; }
  std::vector<v1::Sample> samples(const std::string& job) const;  // in the order in which the server stored them
  size_t largest_upload() const { return largest_upload_; }       // in bytes
  int num_downloads() const { return num_downloads_; }
  int num_uploads() const { return num_uploads_; }  // uploads with telemetry; uploads of log text do not count

  grpc::Status Attach(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::WorkerDirective, v1::WorkerReport>* stream) override;
  grpc::Status ReportTelemetry(grpc::ServerContext* context,
                               grpc::ServerReaderWriter<v1::TelemetryAck, v1::TelemetryUpload>* stream) override;

 private:
  class Artifacts final : public v1::ArtifactService::Service {
   public:
    explicit Artifacts(FakeServer* server) : server_(server) {}
    grpc::Status DownloadArtifact(grpc::ServerContext* context, const v1::DownloadArtifactRequest* request,
                                  grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) override;

   private:
    FakeServer* const server_;
  };

  v1::WorkerDirective Answer(const v1::WorkerReport& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::TelemetryAck Store(const v1::TelemetryUpload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration lease_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Artifacts artifact_service_{this};
  absl::Mutex mutex_;
  std::map<std::string, std::string> artifacts_;
  bool artifacts_hidden_ = false;
  bool artifacts_stalled_ = false;
  int num_downloads_ = 0;
  bool silent_ = false;
  bool busy_ = false;
  grpc::Status end_with_;
  int num_ended_streams_ = 0;
  int num_reports_ = 0;
  int num_checkpoints_ = 0;
  int num_early_checkpoints_ = 0;
  int num_gaps_ = 0;
  size_t largest_upload_ = 0;
  int num_uploads_ = 0;
  uint64_t next_directive_ = 1;
  v1::WorkerReport report_;
  std::map<std::string, v1::AttemptDirective> wanted_;
  std::map<std::string, v1::Outcome> outcomes_;
  std::map<std::string, uint64_t> stored_;
  std::map<std::string, std::vector<v1::Sample>> samples_;
  std::map<std::string, std::string> logs_;
  std::vector<std::string> deletions_;
};

}  // namespace ampd::agent
