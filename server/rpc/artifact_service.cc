#include "server/rpc/artifact_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/api/page_size.h"
#include "base/api/tenants.h"
#include "base/status_macros.h"
#include "server/access/rules.h"
#include "server/artifacts/artifact_download.h"
#include "server/rpc/calls/stream.h"

namespace ampd::server {
namespace {

constexpr std::string_view kUploadArtifact = "ampd.v1.ArtifactService/UploadArtifact";
constexpr std::string_view kDownloadArtifact = "ampd.v1.ArtifactService/DownloadArtifact";
constexpr int kDefaultArtifacts = 100;
constexpr int kMaxArtifacts = 1000;

// Returns the tenants whose artifacts the call may use: those in which the caller has the right. For reading, the
// tenants whose jobs an agent runs count too, because the agent downloads the models of those jobs. If the request
// names a tenant (`wanted`), returns only that tenant, or none if the caller may not use it.
Tenants TenantsFor(const CallEnvironment& environment, const grpc::CallbackServerContext& context, Right right,
                   const std::string& wanted) {
  const Identity identity = environment.guard->IdentityOf(context).value_or(Identity());
  Tenants tenants = identity.TenantsWith(right);
  if (right == Right::kRead) {
    tenants.Add(identity.TenantsWith(Right::kWork));
  }
  if (!wanted.empty()) {
    return tenants.Has(wanted) ? Tenants({wanted}) : Tenants();
  }
  return tenants;
}

absl::StatusOr<std::string> TenantOfUpload(const CallEnvironment& environment,
                                           const grpc::CallbackServerContext& context, const std::string& wanted) {
  return ChooseTenant(environment.guard->IdentityOf(context).value_or(Identity()), Right::kSubmit, wanted);
}

absl::Status CheckName(const std::string& name) {
  return name.empty() ? InvalidFields({{"name", "must be set"}}) : absl::OkStatus();
}

// Returns an error if a later message sets fields that only the first message may set.
absl::Status CheckLaterMessage(const v1::UploadArtifactRequest& request) {
  std::vector<FieldViolation> violations;
  const auto check = [&violations](const char* field, bool is_set) {
    if (is_set) {
      violations.push_back({field, "is set in a later message than the first"});
    }
  };
  check("sha256", !request.sha256().empty());
  check("file_name", !request.file_name().empty());
  check("size_bytes", request.size_bytes() != 0);
  check("offset_bytes", request.offset_bytes() != 0);
  check("tenant", !request.tenant().empty());
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Receives one upload. The pool of uploads processes each message before the next one is read, so at any time either a
// read is in flight or a task runs. The code that finishes the call, in a read or a task, uses no member afterwards.
// The object deletes itself in OnDone, which comes after the last read and the last task.
class UploadReactor final : public grpc::ServerReadReactor<v1::UploadArtifactRequest>, public OpenStream {
 public:
  UploadReactor(const ArtifactService::Options& options, grpc::CallbackServerContext* context, v1::Artifact* response)
      : environment_(*options.environment),
        context_(context),
        peer_(environment_.guard->PeerText(*context)),
        caller_(environment_.audit->CallerOf(*context)),
        store_(options.store),
        pool_(options.uploads),
        response_(response) {
    environment_.observer->StreamOpened(kUploadArtifact);
    AddOpenStream(environment_, context_, kUploadArtifact, this);
  }

  void Run() {
    absl::StatusOr<CallLimits::Slot> slot = environment_.guard->AdmitStream(*context_, kUploadArtifact);
    if (!slot.ok()) {
      return End(slot.status());
    }
    slot_ = *std::move(slot);
    ReadNext();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ == State::ENDED) {
        return;
      }
      state_ = State::WORKING;
    }
    if (!pool_->TryPost([this, ok] { ok ? Take() : TakeEnd(); })) {
      End(WithRetryDelay(
          Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY", "too many calls wait already; call again later"),
          absl::Seconds(1)));
    }
  }

  void OnDenied(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    denied_ = status;
    if (state_ == State::READING) {
      EndLocked(denied_);
    }
  }

  void OnClosing() override {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::READING) {
      EndLocked(ShuttingDown());
    }
  }

  void OnDone() override {
    environment_.open_streams->Remove(context_);
    // The thread that finished the call may still hold the lock. It must have released the lock before this object is
    // deleted.
    mutex_.Lock();
    mutex_.Unlock();
    delete this;
  }

 private:
  enum class State { WORKING, READING, ENDED };

  static absl::Status ShuttingDown() {
    return Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down");
  }

  // Reads the next message. Ends the call if the server is closing or the caller has lost its right. If that happens
  // during the read, OnClosing or OnDenied ends the call.
  void ReadNext() {
    absl::MutexLock lock(&mutex_);
    if (environment_.open_streams->closing()) {
      return EndLocked(ShuttingDown());
    }
    if (!denied_.ok()) {
      return EndLocked(denied_);
    }
    state_ = State::READING;
    StartRead(&request_);
  }

  void Take() {
    absl::Status taken = environment_.open_streams->closing() ? ShuttingDown() : TakeMessage();
    const bool is_whole = taken.ok() && upload_ == nullptr;
    if (!taken.ok() || is_whole) {
      return End(taken);
    }
    ReadNext();
  }

  // Processes a message. If `upload_` is null afterwards, the server already has the content.
  absl::Status TakeMessage() {
    AMPD_RETURN_IF_ERROR(CheckBytes(request_));
    if (upload_ == nullptr) {
      sha256_ = request_.sha256();
      AMPD_ASSIGN_OR_RETURN(const std::string tenant, TenantOfUpload(environment_, *context_, request_.tenant()));
      AMPD_ASSIGN_OR_RETURN(ArtifactStore::Begun begun, store_->BeginUpload(tenant, request_));
      if (begun.artifact.has_value()) {
        *response_ = *std::move(begun.artifact);
        return absl::OkStatus();
      }
      upload_ = std::move(begun.upload);
    } else {
      AMPD_RETURN_IF_ERROR(CheckLaterMessage(request_));
    }
    return upload_->Append(request_.content());
  }

  // Called when the client has sent its last message or has left. Completes the upload. If bytes are missing, the store
  // keeps the received bytes for the client's next upload.
  void TakeEnd() {
    if (upload_ == nullptr) {
      return End(InvalidFields({{"sha256", "must be set: the upload has no message"}}));
    }
    absl::StatusOr<v1::Artifact> artifact = upload_->Finish();
    if (!artifact.ok()) {
      return End(artifact.status());
    }
    *response_ = *std::move(artifact);
    End(absl::OkStatus());
  }

  void End(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    EndLocked(status);
  }

  // Ends the call. Finish is called under the lock, which is safe because gRPC calls OnDone on another thread, never
  // from within Finish.
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    state_ = State::ENDED;
    upload_ = nullptr;
    environment_.audit->Finished(caller_, kUploadArtifact, sha256_, status);
    environment_.observer->Finished(kUploadArtifact, status.code(), absl::ZeroDuration(), /*is_stream=*/true,
                                    caller_.trace);
    if (!status.ok()) {
      environment_.observer->Refused(kUploadArtifact, status, peer_, caller_.trace);
    }
    slot_.reset();  // Released before the client learns of the end, because it may upload again at once.
    Finish(ToGrpcStatus(status));
  }

  const CallEnvironment& environment_;
  grpc::CallbackServerContext* const context_;
  const std::string peer_;
  const AuditCaller caller_;
  CallLimits::Slot slot_;
  ArtifactStore* const store_;
  WorkPool* const pool_;
  v1::Artifact* const response_;
  // A read and a task never run at the same time, so the next members need no lock.
  v1::UploadArtifactRequest request_;
  std::unique_ptr<ArtifactUpload> upload_;
  std::string sha256_;  // The digest that the client announced.

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::WORKING;
  absl::Status denied_ ABSL_GUARDED_BY(mutex_);  // If not OK, the call must end with this status.
};

}  // namespace

grpc::ServerUnaryReactor* ArtifactService::GetUpload(grpc::CallbackServerContext* context,
                                                     const v1::GetUploadRequest* request, v1::Upload* response) {
  return ServeBlocking(*options_.environment, context, "ampd.v1.ArtifactService/GetUpload", *request,
                       [=, this]() -> absl::Status {
                         AMPD_ASSIGN_OR_RETURN(const std::string tenant,
                                               TenantOfUpload(*options_.environment, *context, request->tenant()));
                         AMPD_ASSIGN_OR_RETURN(*response, options_.store->GetUpload(tenant, request->sha256()));
                         return absl::OkStatus();
                       });
}

grpc::ServerReadReactor<v1::UploadArtifactRequest>* ArtifactService::UploadArtifact(
    grpc::CallbackServerContext* context, v1::Artifact* response) {
  auto* const reactor = new UploadReactor(options_, context, response);
  reactor->Run();
  return reactor;
}

grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* ArtifactService::DownloadArtifact(
    grpc::CallbackServerContext* context, const v1::DownloadArtifactRequest* request) {
  using Reactor = StreamReactor<v1::DownloadArtifactResponse, ArtifactDownload>;
  auto reactor = std::make_shared<Reactor>(*options_.environment, context, kDownloadArtifact);
  absl::Status allowed = reactor->Admit();
  allowed.Update(CheckRequest(*request));
  allowed.Update(CheckName(request->name()));
  if (allowed.ok()) {
    const auto is_closing = [streams = options_.environment->open_streams] { return streams->closing(); };
    const Tenants tenants = TenantsFor(*options_.environment, *context, Right::kRead, request->tenant());
    Reactor::Run(reactor, std::make_unique<ArtifactDownload>(options_.store, tenants, *request, is_closing),
                 options_.ticker);
  } else {
    Reactor::Refuse(reactor, allowed);
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* ArtifactService::ListArtifacts(grpc::CallbackServerContext* context,
                                                         const v1::ListArtifactsRequest* request,
                                                         v1::ListArtifactsResponse* response) {
  return ServeBlocking(
      *options_.environment, context, "ampd.v1.ArtifactService/ListArtifacts", *request, [=, this]() -> absl::Status {
        AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request->page_size(), kDefaultArtifacts, kMaxArtifacts));
        const Tenants tenants = TenantsFor(*options_.environment, *context, Right::kRead, request->tenant());
        AMPD_ASSIGN_OR_RETURN(*response, options_.store->List(tenants, *request, page_size));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ArtifactService::DeleteArtifact(grpc::CallbackServerContext* context,
                                                          const v1::DeleteArtifactRequest* request,
                                                          google::protobuf::Empty*) {
  return ServeBlocking(
      *options_.environment, context, "ampd.v1.ArtifactService/DeleteArtifact", *request, [=, this]() -> absl::Status {
        AMPD_RETURN_IF_ERROR(CheckName(request->name()));
        const Tenants tenants = TenantsFor(*options_.environment, *context, Right::kOperate, request->tenant());
        return options_.store->Delete(tenants, request->name());
      });
}

}  // namespace ampd::server
