#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/timed_wait.h"
#include "client/api/end_of_call.h"

namespace ampd::client {

// A server-streaming call over gRPC's callback API. One thread reads it with Pull, which waits until a deadline; any
// thread may call Cancel. At most one message is buffered, so gRPC's flow control slows the server if the reader is
// slow.
template <typename Response>
class StreamPull final : public grpc::ClientReadReactor<Response> {
 public:
  enum class Next { kMessage, kTimeout, kEnded };

  // Starts the call. `start(context, reactor)` must call stub.async()->Method(context, request, reactor); the reactor
  // is this object.
  template <typename Function>
  explicit StreamPull(Function start) {
    start(&context_, this);
    // The hold keeps the call from completing while the reading thread may still call StartRead.
    this->AddHold();
    this->StartCall();
  }

  // Ends the call and waits until it is done.
  ~StreamPull() override {
    context_.TryCancel();
    AwaitDone();
  }

  StreamPull(const StreamPull&) = delete;
  StreamPull& operator=(const StreamPull&) = delete;

  // Waits for the next message until `deadline`, a time since boot. After kEnded, status() says how the call ended.
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
    return EndOfCall(status_);
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
  bool reading_ = false;  // only the thread that calls Pull uses reading_, ended_ and released_
  bool ended_ = false;
  bool released_ = false;
  mutable absl::Mutex mutex_;
  bool read_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ok_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
