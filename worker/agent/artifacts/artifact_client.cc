#include "worker/agent/artifacts/artifact_client.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "base/grpc/grpc_deadline.h"
#include "base/grpc/grpc_status.h"
#include "worker/agent/link/server_channel.h"

namespace ampd::agent {

struct ArtifactClient::State {
  absl::Duration deadline;
  std::unique_ptr<v1::ArtifactService::Stub> stub;
  absl::Mutex mutex;
  std::set<grpc::ClientContext*> calls ABSL_GUARDED_BY(mutex);
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
};

ArtifactClient::ArtifactClient(const ServerConnection& server, absl::Duration deadline)
    : state_(std::make_unique<State>()) {
  state_->deadline = deadline;
  state_->stub = v1::ArtifactService::NewStub(MakeServerChannel(server));
}

ArtifactClient::~ArtifactClient() = default;

absl::Status ArtifactClient::Download(const std::string& name, int64_t offset, const OnPiece& on_piece) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(state_->deadline));
  {
    absl::MutexLock lock(&state_->mutex);
    if (state_->cancelled) {
      return absl::CancelledError("the agent is stopping");
    }
    state_->calls.insert(&context);
  }
  v1::DownloadArtifactRequest request;
  request.set_name(name);
  request.set_offset_bytes(offset);
  const auto reader = state_->stub->DownloadArtifact(&context, request);
  v1::DownloadArtifactResponse piece;
  absl::Status taken;
  while (taken.ok() && reader->Read(&piece)) {
    taken = on_piece(piece.content());
  }
  if (!taken.ok()) {
    context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  absl::MutexLock lock(&state_->mutex);
  state_->calls.erase(&context);
  return taken.ok() ? FromGrpcStatus(status) : taken;
}

void ArtifactClient::Cancel() {
  absl::MutexLock lock(&state_->mutex);
  state_->cancelled = true;
  for (grpc::ClientContext* call : state_->calls) {
    call->TryCancel();
  }
}

}  // namespace ampd::agent
