#include "server/rpc/worker_service.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "points/telemetry_batch.h"
#include "server/artifacts/telemetry_samples.h"
#include "server/rpc/bidi.h"

namespace ampd::server {
namespace {

constexpr std::string_view kAttach = "ampd.v1.WorkerService/Attach";
constexpr std::string_view kReportTelemetry = "ampd.v1.WorkerService/ReportTelemetry";
// The most uploads of a stream that wait for the disk. The next upload is read when one of them is durable.
constexpr int kMaxUploads = 16;

// One worker's Attach stream. Every report is answered by a directive, and a directive is also sent when one is due.
class AttachReactor final : public BidiReactor<v1::WorkerReport, v1::WorkerDirective> {
 public:
  AttachReactor(const WorkerService::Options& options, std::string peer)
      : BidiReactor(*options.environment, kAttach, std::move(peer)), options_(options) {}

  void DirectiveDue() override {
    {
      absl::MutexLock lock(&due_mutex_);
      if (std::exchange(due_, true)) {
        return;
      }
    }
    // Runs on the pool because the coordinator may be the caller. If the pool is full, the answer to the next report
    // contains the directive.
    if (!options_.environment->pool->TryPost([this, keep = self()] { SendDue(); })) {
      absl::MutexLock lock(&due_mutex_);
      due_ = false;
    }
  }

 private:
  void OnMessage(v1::WorkerReport report) override {
    const bool is_first = worker_.empty();
    if (!is_first && (report.worker() != worker_ || report.incarnation() != incarnation_)) {
      EndWith(InvalidFields({{"worker", "or its incarnation is not the one that this stream began with"}}));
      return;
    }
    {
      // Directives are sent in the order in which they were built.
      absl::MutexLock lock(&order_mutex_);
      absl::StatusOr<v1::WorkerDirective> directive = options_.sessions->HandleReport(report);
      if (!directive.ok()) {
        EndWith(directive.status());
        return;
      }
      if (is_first) {
        // Attach not before now: a report that was refused must not end the stream of the agent that has the name.
        // Attach before the answer is sent, so that this stream is the worker's when the worker has the answer.
        worker_ = report.worker();
        incarnation_ = report.incarnation();
        options_.streams->Attach(worker_, self());
        options_.environment->observer->WorkerAttached(worker_, peer());
      }
      Send(*std::move(directive));
    }
    if (is_first) {
      DirectiveDue();  // A directive may have become due before the stream was attached.
    }
    Read();
  }

  void SendDue() {
    absl::MutexLock lock(&order_mutex_);
    {
      absl::MutexLock due_lock(&due_mutex_);
      due_ = false;
    }
    absl::StatusOr<v1::WorkerDirective> directive = options_.sessions->CurrentDirective(worker_, incarnation_);
    if (directive.ok()) {
      Send(*std::move(directive));
    }
  }

  const WorkerService::Options& options_;
  // Set by the first accepted report, before anybody can call DirectiveDue.
  std::string worker_;
  std::string incarnation_;
  absl::Mutex order_mutex_;
  absl::Mutex due_mutex_;
  bool due_ ABSL_GUARDED_BY(due_mutex_) = false;
};

// One telemetry stream. Every upload is checked against the owner of its attempt, stored, and acknowledged when it is
// durable.
class TelemetryReactor final : public BidiReactor<v1::TelemetryUpload, v1::TelemetryAck> {
 public:
  TelemetryReactor(const WorkerService::Options& options, std::string peer)
      : BidiReactor(*options.environment, kReportTelemetry, std::move(peer)), options_(options) {}

  void DirectiveDue() override {}

 private:
  void OnMessage(v1::TelemetryUpload upload) override {
    absl::StatusOr<JobQueries::AttemptPlace> place = options_.queries->FindAttempt(upload.key());
    if (!place.ok()) {
      Refuse(upload.key());
      Read();
      return;
    }
    {
      absl::MutexLock lock(&uploads_mutex_);
      ++num_uploads_;
    }
    if (upload.batch().samples().empty()) {
      StoreAndRead(std::move(upload), place->from_step);
      return;
    }
    // Samples are written before the batch is queued, on a thread that may wait for the disk. The next upload is read
    // afterwards, to keep the order.
    auto shared = std::make_shared<v1::TelemetryUpload>(std::move(upload));
    if (!options_.environment->pool->TryPost([this, shared, from_step = place->from_step, keep = self()] {
          TakeSamples(std::move(*shared), from_step);
        })) {
      EndWith(WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY",
                                   "too many calls wait already; send it again later"),
                             absl::Seconds(1)));
    }
  }

  void TakeSamples(v1::TelemetryUpload upload, int64_t from_step) {
    const absl::Status stored =
        StoreSamples(upload.key(), options_.clock->Now(), options_.artifacts, upload.mutable_batch());
    if (stored.ok()) {
      StoreAndRead(std::move(upload), from_step);
    } else {
      EndWith(stored);
    }
  }

  void StoreAndRead(v1::TelemetryUpload upload, int64_t from_step) {
    const v1::AttemptKey key = upload.key();
    if (absl::Status stored = Store(std::move(upload), from_step); !stored.ok()) {
      Acknowledge(key, stored);
      if (!absl::IsInvalidArgument(stored)) {
        return;
      }
    }
    absl::MutexLock lock(&uploads_mutex_);
    reading_ = num_uploads_ < kMaxUploads;
    if (reading_) {
      Read();
    }
  }

  void OnHalfClose() override {
    absl::MutexLock lock(&uploads_mutex_);
    half_closed_ = true;
    if (num_uploads_ == 0) {
      EndWhenSent();
    }
  }

  // Appends the log before the telemetry. The store keeps the order, so the telemetry's acknowledgement covers the log.
  absl::Status Store(v1::TelemetryUpload upload, int64_t from_step) {
    const v1::AttemptKey key = upload.key();
    if (upload.has_log()) {
      absl::Status queued = options_.store->AppendLog(key.job_id(), key.attempt(), std::move(*upload.mutable_log()),
                                                      [this, keep = self()](absl::StatusOr<AttemptExtent> extent) {
                                                        if (!extent.ok()) {
                                                          EndWith(extent.status());
                                                        }
                                                      });
      if (!queued.ok()) {
        return queued;
      }
    }
    const auto done = [this, key, keep = self()](const absl::StatusOr<AttemptExtent>& extent) {
      Acknowledge(key, extent);
    };
    const auto [first, last] = points::SequenceRange(upload.batch());
    TelemetryAppend append{key.job_id(), key.attempt(), from_step, std::move(*upload.mutable_batch())};
    const absl::Status queued = options_.store->AppendTelemetry(std::move(append), done);
    // A retry would be malformed again, so the batch is skipped and an event of the job reports it.
    return absl::IsInvalidArgument(queued)
               ? options_.store->SkipTelemetry(
                     {key.job_id(), key.attempt(), from_step, first, last, std::string(queued.message())}, done)
               : queued;
  }

  // Orders the sender to drop all telemetry of the attempt and to send no more of it.
  void Refuse(const v1::AttemptKey& key) {
    v1::TelemetryAck ack;
    *ack.mutable_key() = key;
    ack.set_refused(true);
    Send(std::move(ack));
  }

  void Acknowledge(const v1::AttemptKey& key, const absl::StatusOr<AttemptExtent>& extent) {
    if (absl::IsInvalidArgument(extent.status())) {
      Refuse(key);
    } else if (!extent.ok()) {
      EndWith(extent.status());
      return;
    } else {
      v1::TelemetryAck ack;
      *ack.mutable_key() = key;
      ack.set_stored_sequence(extent->stored_sequence);
      ack.set_stored_log_bytes(extent->log_end_bytes);
      Send(std::move(ack));
    }
    absl::MutexLock lock(&uploads_mutex_);
    --num_uploads_;
    if (half_closed_ && num_uploads_ == 0) {
      EndWhenSent();
    } else if (!std::exchange(reading_, true)) {
      Read();
    }
  }

  const WorkerService::Options& options_;
  absl::Mutex uploads_mutex_;
  int num_uploads_ ABSL_GUARDED_BY(uploads_mutex_) = 0;
  bool half_closed_ ABSL_GUARDED_BY(uploads_mutex_) = false;
  // Whether a read is in flight, or OnMessage is running, which decides at its end whether to read next.
  bool reading_ ABSL_GUARDED_BY(uploads_mutex_) = true;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerReport, v1::WorkerDirective>* WorkerService::Attach(
    grpc::CallbackServerContext* context) {
  auto reactor = std::make_shared<AttachReactor>(options_, context->peer());
  reactor->Run(reactor, options_.environment->guard->Check(*context, kAttach));
  return reactor.get();
}

grpc::ServerBidiReactor<v1::TelemetryUpload, v1::TelemetryAck>* WorkerService::ReportTelemetry(
    grpc::CallbackServerContext* context) {
  auto reactor = std::make_shared<TelemetryReactor>(options_, context->peer());
  options_.streams->AddTelemetry(reactor);
  reactor->Run(reactor, options_.environment->guard->Check(*context, kReportTelemetry));
  return reactor.get();
}

}  // namespace ampd::server
