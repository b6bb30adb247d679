#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/grpc/grpc_status.h"
#include "base/timed_wait.h"

namespace ampd::client {

// A server-streaming call over the callback API, read by one thread that may stop waiting at a deadline. At most one
// message is held; a slow reader slows the stream down by flow control. Next: one reader; Cancel: any thread.
template <typename Response>
class StreamPull final : public grpc::ClientReadReactor<Response> {
 public:
  enum class Next { kMessage, kTimeout, kEnded };

  // `start` binds this reactor to a call: stub.async()->Method(context, request, reactor).
  template <typename Function>
  explicit StreamPull(Function start) {
    start(&context_, this);
    // The hold keeps the call from being done while StartRead may still come from the reader's thread.
    this->AddHold();
    this->StartCall();
  }

  // Ends the call and waits for its last reaction.
  ~StreamPull() override {
    context_.TryCancel();
    AwaitDone();
  }

  StreamPull(const StreamPull&) = delete;
  StreamPull& operator=(const StreamPull&) = delete;

  // Waits for the next message until `deadline`, since boot. After kEnded, status() holds how the call ended.
  Next Pull(absl::Duration deadline, Response* response) {
    if (ended_) {
      return Next::kEnded;
    }
    if (!reading_) {
      reading_ = true;
      this->StartRead(&buffer_);
    }
    {
      absl::MutexLock lock(&mutex_);
      if (!AwaitUntil(mutex_, absl::Condition(&read_done_), deadline)) {
        return Next::kTimeout;
      }
      read_done_ = false;
      reading_ = false;
      ended_ = !read_ok_;
    }
    if (ended_) {
      AwaitDone();
      return Next::kEnded;
    }
    response->Swap(&buffer_);
    return Next::kMessage;
  }

  void Cancel() { context_.TryCancel(); }

  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return FromGrpcStatus(status_);
  }

  void OnReadDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    read_ok_ = ok;
    read_done_ = true;
  }

  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    done_ = true;
  }

 private:
  void AwaitDone() {
    if (!released_) {
      released_ = true;
      this->RemoveHold();
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done_));
  }

  grpc::ClientContext context_;
  Response buffer_;       // written by gRPC between StartRead and OnReadDone
  bool reading_ = false;  // the rest up to mutex_: reader's thread only
  bool ended_ = false;
  bool released_ = false;
  mutable absl::Mutex mutex_;
  bool read_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ok_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
