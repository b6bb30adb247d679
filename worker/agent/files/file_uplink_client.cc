#include "worker/agent/files/file_uplink_client.h"

#include <grpcpp/grpcpp.h>

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/worker_service.grpc.pb.h"
#include "base/grpc/grpc_status.h"
#include "worker/agent/link/server_channel.h"

namespace ampd::agent {

struct FileUplinkClient::State {
  std::unique_ptr<v1::WorkerService::Stub> stub;
  absl::Mutex mutex;
  std::set<grpc::ClientContext*> calls ABSL_GUARDED_BY(mutex);
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
};

FileUplinkClient::FileUplinkClient(const ServerConnection& server) : state_(std::make_unique<State>()) {
  state_->stub = v1::WorkerService::NewStub(MakeServerChannel(server));
}

FileUplinkClient::~FileUplinkClient() = default;

absl::Status FileUplinkClient::Send(const NextPiece& next) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);  // After a restart of the server, the channel may take a moment to connect.
  {
    absl::MutexLock lock(&state_->mutex);
    if (state_->cancelled) {
      return absl::CancelledError("the agent is stopping");
    }
    state_->calls.insert(&context);
  }
  google::protobuf::Empty nothing;
  const auto writer = state_->stub->SendFile(&context, &nothing);
  v1::FilePiece piece;
  do {
    piece = next();
  } while (writer->Write(piece) && !piece.last() && piece.failure().empty());
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  absl::MutexLock lock(&state_->mutex);
  state_->calls.erase(&context);
  return FromGrpcStatus(status);
}

void FileUplinkClient::Cancel() {
  absl::MutexLock lock(&state_->mutex);
  state_->cancelled = true;
  for (grpc::ClientContext* call : state_->calls) {
    call->TryCancel();
  }
}

}  // namespace ampd::agent
