#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/worker_service.pb.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/file_relay.h"

namespace ampd::server {

// One call of WorkerService.SendFile. Passes a file's pieces to the relay, and reads the next piece when the client has
// taken the previous one. Keeps itself alive until OnDone. Thread-safe.
class FileReceiver final : public grpc::ServerReadReactor<v1::FilePiece>, public OpenStream {
 public:
  static constexpr std::string_view kMethod = "ampd.v1.WorkerService/SendFile";

  FileReceiver(const CallEnvironment& environment, FileRelays* relays, grpc::CallbackServerContext* context);

  // Starts the call, or ends it at once if the caller may not call the method.
  static void Run(const std::shared_ptr<FileReceiver>& receiver);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnClosing() override;
  void OnDenied(const absl::Status& status) override;
  void OnDone() override;

 private:
  void Read();
  // Passes the message to the relay. Returns true if another message should be read after the client has taken this
  // one. Otherwise the call ends with `status`.
  bool TakeMessage(absl::Status* status);
  absl::Status BeginRelay();
  void End(const absl::Status& status);

  const CallEnvironment& environment_;
  FileRelays* const relays_;
  grpc::CallbackServerContext* const context_;
  const std::string peer_;
  const AuditCaller caller_;
  // A read and its processing never overlap, so the next two members need no lock.
  v1::FilePiece message_;
  std::shared_ptr<FileRelay> relay_;

  absl::Mutex mutex_;
  std::shared_ptr<FileReceiver> self_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
