#include "server/rpc/file_receiver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "base/text.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxPieceBytes = 1 << 20;
constexpr size_t kMaxFailureBytes = 1024;

absl::Status NobodyWaits() { return absl::CancelledError("nobody waits for the file"); }

absl::Status Interrupted(const FileRelay& relay) {
  return Error(absl::StatusCode::kUnavailable, "WORKER_UNREACHABLE",
               absl::StrCat("worker ", relay.worker(), " stopped sending the file"));
}

}  // namespace

FileReceiver::FileReceiver(const CallEnvironment& environment, FileRelays* relays, grpc::CallbackServerContext* context)
    : environment_(environment),
      relays_(relays),
      context_(context),
      peer_(environment.guard->PeerText(*context)),
      caller_(environment.audit->CallerOf(*context)) {
  environment_.observer->StreamOpened(kMethod);
  AddOpenStream(environment_, context_, kMethod, this);
}

void FileReceiver::Run(const std::shared_ptr<FileReceiver>& receiver) {
  {
    absl::MutexLock lock(&receiver->mutex_);
    receiver->self_ = receiver;
  }
  const absl::Status allowed = receiver->environment_.guard->Check(*receiver->context_, kMethod);
  if (allowed.ok()) {
    receiver->Read();
  } else {
    receiver->End(allowed);
  }
}

void FileReceiver::Read() {
  if (environment_.open_streams->closing()) {
    return OnClosing();
  }
  absl::MutexLock lock(&mutex_);
  if (!ended_) {
    StartRead(&message_);
  }
}

void FileReceiver::OnReadDone(bool ok) {
  absl::Status status = absl::CancelledError("the worker left");
  if (!ok || !TakeMessage(&status)) {
    if (relay_ != nullptr) {
      relay_->Fail(Interrupted(*relay_));  // Has no effect after the last piece.
    }
    End(status);
  }
}

bool FileReceiver::TakeMessage(absl::Status* status) {
  *status = CheckReadable(message_);
  if (status->ok() && message_.content().size() > kMaxPieceBytes) {
    *status = InvalidFields({{"content", "has more than 1 MiB"}});
  }
  if (status->ok() && message_.content().empty() && !message_.last() && message_.failure().empty()) {
    *status = InvalidFields({{"content", "is empty, and the message is not the last one"}});
  }
  if (status->ok() && relay_ == nullptr) {
    *status = BeginRelay();
  }
  if (!status->ok()) {
    return false;
  }
  if (!message_.failure().empty()) {
    relay_->Fail(Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_UNREADABLE",
                       absl::StrCat("worker ", relay_->worker(),
                                    " cannot read the file: ", Shortened(message_.failure(), kMaxFailureBytes))));
    return false;
  }
  const bool is_last = message_.last();
  if (!relay_->Put(std::move(*message_.mutable_content()), is_last)) {
    *status = NobodyWaits();
    return false;
  }
  return !is_last;
}

absl::Status FileReceiver::BeginRelay() {
  std::shared_ptr<FileRelay> relay = relays_->Find(message_.transfer());
  std::weak_ptr<FileReceiver> weak;
  {
    absl::MutexLock lock(&mutex_);
    weak = self_;
  }
  const auto on_taken = [weak] {
    if (const std::shared_ptr<FileReceiver> receiver = weak.lock()) {
      receiver->Read();
    }
  };
  const auto on_left = [weak] {
    if (const std::shared_ptr<FileReceiver> receiver = weak.lock()) {
      receiver->End(NobodyWaits());
    }
  };
  if (relay == nullptr || !relay->Begin(on_taken, on_left)) {
    return NobodyWaits();
  }
  relay_ = std::move(relay);
  return absl::OkStatus();
}

// If the worker leaves while no read is in flight, OnReadDone is not called, so the call must end here.
void FileReceiver::OnCancel() { End(absl::CancelledError("the worker left")); }

void FileReceiver::OnClosing() {
  End(Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down"));
}

void FileReceiver::OnDenied(const absl::Status& status) { End(status); }

void FileReceiver::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) {
    return;
  }
  environment_.audit->Finished(caller_, kMethod, "", status);
  environment_.observer->Finished(kMethod, status.code(), absl::ZeroDuration(), /*is_stream=*/true, caller_.trace);
  if (!status.ok() && !absl::IsCancelled(status)) {
    environment_.observer->Refused(kMethod, status, peer_, caller_.trace);
  }
  Finish(ToGrpcStatus(status));
}

// OnDone comes after the last read, so nothing else uses `relay_`.
void FileReceiver::OnDone() {
  if (relay_ != nullptr) {
    relay_->Fail(Interrupted(*relay_));  // Has no effect after the last piece.
  }
  environment_.open_streams->Remove(context_);
  std::shared_ptr<FileReceiver> self;
  {
    absl::MutexLock lock(&mutex_);
    self.swap(self_);
  }
}

}  // namespace ampd::server
