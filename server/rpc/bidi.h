#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/worker_streams.h"

namespace ampd::server {

// The common part of a worker's two streams. At most one read and one write are in flight, the queue of messages to
// send is bounded, and the stream ends only once. The object keeps itself alive until OnDone. A subclass receives
// messages in OnMessage, with no lock held, and requests the next message with Read. Thread-safe.
template <typename In, typename Out>
class BidiReactor : public grpc::ServerBidiReactor<In, Out>, public OpenStream, public WorkerStream {
 public:
  // The stream ends when this many messages wait to be sent, because the worker is then gone or stuck.
  static constexpr size_t kMaxWaiting = 256;

  BidiReactor(const CallEnvironment& environment, grpc::CallbackServerContext* context, std::string_view method)
      : environment_(environment),
        context_(context),
        method_(method),
        peer_(environment.guard->PeerText(*context)),
        caller_(environment.audit->CallerOf(*context)) {
    environment_.observer->StreamOpened(method_);
    AddOpenStream(environment_, context_, method_, this);
  }

  // Starts the stream, or ends it at once if the caller may not call the method. The reactor lives until the stream is
  // done.
  void Run(std::shared_ptr<BidiReactor> self) {
    {
      absl::MutexLock lock(&mutex_);
      self_ = std::move(self);
    }
    const absl::StatusOr<Identity> caller = environment_.guard->CallerOf(*context_, method_);
    if (!caller.ok()) {
      EndWith(caller.status());
      return;
    }
    OnAdmitted(*caller);
    Read();
  }

  void End(bool replaced) override {
    EndWith(replaced ? Error(absl::StatusCode::kAborted, "REPLACED", "another stream of this worker took over")
                     : Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down"));
  }

  void OnDenied(const absl::Status& status) override { EndWith(status); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      OnHalfClose();
      return;
    }
    In message;
    std::swap(message, in_);
    if (const absl::Status readable = CheckReadable(message); !readable.ok()) {
      EndWith(readable);
      return;
    }
    OnMessage(std::move(message));
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      EndLocked(absl::CancelledError("the worker left"));
      return;
    }
    environment_.observer->StreamMessageSent(method_);
    WriteLocked();
  }

  void OnCancel() override { EndWith(absl::CancelledError("the worker left")); }

  void OnDone() override {
    environment_.open_streams->Remove(context_);
    // Takes over the object's reference to itself, which may be the last one. The object is then deleted only after the
    // lock is released.
    std::shared_ptr<BidiReactor> self;
    {
      absl::MutexLock lock(&mutex_);
      self.swap(self_);
    }
  }

 protected:
  const std::string& peer() const { return peer_; }
  const TraceContext& trace() const { return caller_.trace; }
  // Returns what the stream is about, such as a worker's name, for its entry in the audit log. Called under the
  // reactor's lock.
  virtual std::string AuditObject() const { return ""; }
  // Called once, before the first message, with the identity of the caller, who may call the method.
  virtual void OnAdmitted(const Identity&) {}
  virtual void OnMessage(In message) = 0;
  // Called when the worker has announced that it will send no more messages.
  virtual void OnHalfClose() { EndWhenSent(); }

  // Ends the stream with OK once all queued messages are written.
  void EndWhenSent() {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    WriteLocked();
  }

  void Read() {
    absl::MutexLock lock(&mutex_);
    if (!ended_) {
      this->StartRead(&in_);
    }
  }

  void Send(Out message) {
    absl::MutexLock lock(&mutex_);
    if (ended_) {
      return;
    }
    if (waiting_.size() >= kMaxWaiting) {
      EndLocked(
          Error(absl::StatusCode::kResourceExhausted, "WORKER_TOO_SLOW", "too many messages wait for the worker"));
      return;
    }
    waiting_.push_back(std::move(message));
    WriteLocked();
  }

  void EndWith(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    EndLocked(status);
  }

  // Returns a reference to this reactor. A callback that holds it keeps the reactor alive.
  std::shared_ptr<BidiReactor> self() {
    absl::MutexLock lock(&mutex_);
    return self_;
  }

 private:
  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || ended_) {
      return;
    }
    if (waiting_.empty()) {
      if (closing_) {
        EndLocked(absl::OkStatus());
      }
      return;
    }
    out_ = std::move(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    this->StartWrite(&out_);
  }

  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_) {
      return;
    }
    ended_ = true;
    waiting_.clear();
    environment_.audit->Finished(caller_, method_, AuditObject(), status);
    environment_.observer->Finished(method_, status.code(), absl::ZeroDuration(), /*is_stream=*/true, caller_.trace);
    if (!status.ok() && !absl::IsCancelled(status)) {
      environment_.observer->Refused(method_, status, peer_, caller_.trace);
    }
    this->Finish(ToGrpcStatus(status));
  }

  const CallEnvironment& environment_;
  grpc::CallbackServerContext* const context_;
  const std::string_view method_;
  const std::string peer_;
  const AuditCaller caller_;
  In in_;
  Out out_;

  absl::Mutex mutex_;
  std::shared_ptr<BidiReactor> self_ ABSL_GUARDED_BY(mutex_);
  std::deque<Out> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
