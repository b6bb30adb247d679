#include "server/rpc/worker_service.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "points/telemetry_batch.h"
#include "server/access/rules.h"
#include "server/artifacts/telemetry_samples.h"
#include "server/rpc/bidi.h"
#include "server/rpc/file_receiver.h"

namespace ampd::server {
namespace {

constexpr std::string_view kAttach = "ampd.v1.WorkerService/Attach";
constexpr std::string_view kReportTelemetry = "ampd.v1.WorkerService/ReportTelemetry";
// The most uploads of one stream that may wait for the disk. If that many wait, the next upload is read when one of
// them is durable.
constexpr int kMaxUploads = 16;

// One worker's Attach stream. It answers every report with a directive, and also sends a directive whenever one is due.
class AttachReactor final : public BidiReactor<v1::WorkerReport, v1::WorkerDirective> {
 public:
  AttachReactor(const WorkerService::Options& options, grpc::CallbackServerContext* context)
      : BidiReactor(*options.environment, context, kAttach), options_(options) {}

  void DirectiveDue() override {
    {
      absl::MutexLock lock(&due_mutex_);
      if (std::exchange(due_, true)) {
        return;
      }
    }
    // The coordinator calls DirectiveDue, so this thread must not call the coordinator. SendDue does, so it runs on the
    // pool. If the pool is full, the answer to the worker's next report contains the directive.
    if (!options_.environment->pool->TryPost([this, keep = self()] { SendDue(); })) {
      absl::MutexLock lock(&due_mutex_);
      due_ = false;
    }
  }

 private:
  void OnAdmitted(const Identity& caller) override { identity_ = caller; }

  void OnMessage(v1::WorkerReport report) override {
    const bool is_first = worker_.empty();
    if (!is_first && (report.worker() != worker_ || report.incarnation() != incarnation_)) {
      EndWith(InvalidFields({{"worker", "or its incarnation is not the one that this stream began with"}}));
      return;
    }
    if (const absl::Status may = CheckWorker(identity_, report.worker()); is_first && !may.ok()) {
      refused_worker_ = report.worker();
      EndWith(may);
      return;
    }
    if (const absl::Status may = ResolveTenants(&report); !may.ok()) {
      EndWith(may);
      return;
    }
    {
      // Holds `order_mutex_` while a directive is built and queued, so that directives are sent in the order in which
      // they were built.
      absl::MutexLock lock(&order_mutex_);
      absl::StatusOr<v1::WorkerDirective> directive = options_.sessions->HandleReport(report);
      if (!directive.ok()) {
        EndWith(directive.status());
        return;
      }
      if (is_first) {
        // Attach ends the worker's previous stream, so the order matters. Attach comes after the report was accepted,
        // because a refused report must not end the stream of the agent that has the name. It comes before the answer,
        // so that this stream already belongs to the worker when the worker has the answer.
        worker_ = report.worker();
        incarnation_ = report.incarnation();
        options_.streams->Attach(worker_, self());
        options_.environment->observer->WorkerAttached(worker_, peer(), trace());
      }
      SendDirective(*std::move(directive));
    }
    if (is_first) {
      DirectiveDue();  // A directive may have become due before the stream was attached.
    }
    Read();
  }

  // Replaces the list of tenants that the worker wants to serve by the list of those that it serves. An empty list
  // stands for all tenants.
  absl::Status ResolveTenants(v1::WorkerReport* report) {
    const Tenants wants(std::set<std::string>(report->tenants().begin(), report->tenants().end()));
    const absl::StatusOr<Tenants> serves = ChooseWorkersTenants(identity_, wants);
    if (!serves.ok()) {
      refused_worker_ = report->worker();
      return serves.status();
    }
    report->mutable_tenants()->Assign(serves->names().begin(), serves->names().end());
    return absl::OkStatus();
  }

  std::string AuditObject() const override { return refused_worker_; }

  void SendDue() {
    absl::MutexLock lock(&order_mutex_);
    {
      absl::MutexLock due_lock(&due_mutex_);
      due_ = false;
    }
    absl::StatusOr<v1::WorkerDirective> directive = options_.sessions->CurrentDirective(worker_, incarnation_);
    if (directive.ok()) {
      SendDirective(*std::move(directive));
    }
  }

  void SendDirective(v1::WorkerDirective directive) {
    options_.relays->AddTo(worker_, &directive);
    Send(std::move(directive));
  }

  const WorkerService::Options& options_;
  Identity identity_;           // Set before the first message.
  std::string refused_worker_;  // Set only before the stream ends.
  // Empty until the first accepted report sets it. DirectiveDue is called only after that.
  std::string worker_;
  std::string incarnation_;
  absl::Mutex order_mutex_;
  absl::Mutex due_mutex_;
  bool due_ ABSL_GUARDED_BY(due_mutex_) = false;
};

// One telemetry stream. Only the owner of an attempt may send uploads for it. The server stores each upload, and
// acknowledges it when it is durable.
class TelemetryReactor final : public BidiReactor<v1::TelemetryUpload, v1::TelemetryAck> {
 public:
  TelemetryReactor(const WorkerService::Options& options, grpc::CallbackServerContext* context)
      : BidiReactor(*options.environment, context, kReportTelemetry), options_(options) {}

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
      StoreAndRead(std::move(upload), *place);
      return;
    }
    // Generated samples are written before the rest of the batch is queued. Writing them may wait for the disk, so a
    // thread of the pool does it. The next upload is read only afterwards, to keep the order.
    auto shared = std::make_shared<v1::TelemetryUpload>(std::move(upload));
    if (!options_.environment->pool->TryPost(
            [this, shared, place = *place, keep = self()] { TakeSamples(std::move(*shared), place); })) {
      EndWith(WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY",
                                   "too many calls wait already; send it again later"),
                             absl::Seconds(1)));
    }
  }

  void TakeSamples(v1::TelemetryUpload upload, const JobQueries::AttemptPlace& place) {
    const absl::Status stored =
        StoreSamples(place.tenant, upload.key(), options_.clock->Now(), options_.artifacts, upload.mutable_batch());
    if (stored.ok()) {
      StoreAndRead(std::move(upload), place);
    } else {
      EndWith(stored);
    }
  }

  void StoreAndRead(v1::TelemetryUpload upload, const JobQueries::AttemptPlace& place) {
    const v1::AttemptKey key = upload.key();
    if (absl::Status stored = Store(std::move(upload), place); !stored.ok()) {
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

  // Appends the log before the telemetry. The store keeps that order, so the acknowledgement of the telemetry also
  // covers the log.
  absl::Status Store(v1::TelemetryUpload upload, const JobQueries::AttemptPlace& place) {
    const v1::AttemptKey key = upload.key();
    if (upload.has_log()) {
      if (place.has_gap) {  // Log text that the backup lacks will never come.
        upload.mutable_log()->set_dropped_bytes(upload.log().offset_bytes());
      }
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
    TelemetryAppend append{key.job_id(), key.attempt(), place.from_step, std::move(*upload.mutable_batch()),
                           place.has_gap};
    const absl::Status queued = options_.store->AppendTelemetry(std::move(append), done);
    // A malformed batch would still be malformed if it were sent again. It is therefore skipped, and an event of the
    // job reports that.
    return absl::IsInvalidArgument(queued)
               ? options_.store->SkipTelemetry(
                     {key.job_id(), key.attempt(), place.from_step, first, last, std::string(queued.message())}, done)
               : queued;
  }

  // Tells the sender to drop all telemetry of the attempt and to send no more of it.
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
  // True while a read is in flight, and while OnMessage runs and will start the next read. No other read may be started
  // then.
  bool reading_ ABSL_GUARDED_BY(uploads_mutex_) = true;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerReport, v1::WorkerDirective>* WorkerService::Attach(
    grpc::CallbackServerContext* context) {
  auto reactor = std::make_shared<AttachReactor>(options_, context);
  reactor->Run(reactor);
  return reactor.get();
}

grpc::ServerBidiReactor<v1::TelemetryUpload, v1::TelemetryAck>* WorkerService::ReportTelemetry(
    grpc::CallbackServerContext* context) {
  auto reactor = std::make_shared<TelemetryReactor>(options_, context);
  options_.streams->AddTelemetry(reactor);
  reactor->Run(reactor);
  return reactor.get();
}

grpc::ServerReadReactor<v1::FilePiece>* WorkerService::SendFile(grpc::CallbackServerContext* context,
                                                                google::protobuf::Empty*) {
  const auto receiver = std::make_shared<FileReceiver>(*options_.environment, options_.relays, context);
  FileReceiver::Run(receiver);
  return receiver.get();
}

}  // namespace ampd::server
