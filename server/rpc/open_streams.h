#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <functional>
#include <map>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace ampd::server {

// A stream as OpenStreams sees it. Its functions must not block, and must not call any function of OpenStreams except
// closing().
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Called when the server shuts down. A stream that may wait for its client without a time limit ends at once if it is
  // waiting, and otherwise when it is next about to wait. The owners of all other streams end them.
  virtual void OnClosing() {}
  // Called when the caller may not call the method any more: the stream ends with this status as soon as no message is
  // being written.
  virtual void OnDenied(const absl::Status& status) = 0;
};

// The streams that are open: a shutdown waits until they have ended, and a caller that loses its right to a stream
// loses the stream. Thread-safe.
class OpenStreams {
 public:
  // Begins the shutdown: notifies the streams. Downloads check closing() before every message.
  void BeginClosing();
  bool closing() const { return closing_; }

  // Adds a stream that begins. `context` is its call's, and `method` its full name, which lives for ever.
  void Add(grpc::CallbackServerContext* context, std::string_view method, OpenStream* stream);
  // Removes a stream that ended. Neither it nor its context is used any more.
  void Remove(grpc::CallbackServerContext* context);

  // Ends the streams that `check` denies; returns how many it begins to end. A stream that `check` denied at the look
  // before too is cancelled, because it is stuck in a write. Called once a second, on a thread of no gRPC server.
  using Check = std::function<absl::Status(const grpc::ServerContextBase& context, std::string_view method)>;
  int EndDenied(const Check& check);

  // Returns when no stream is open, or after `timeout`.
  void AwaitNone(absl::Duration timeout) const;

 private:
  struct Stream {
    std::string_view method;
    OpenStream* stream = nullptr;
    bool was_denied = false;
  };

  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.empty(); }

  mutable absl::Mutex mutex_;
  std::map<grpc::CallbackServerContext*, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> closing_ = false;
};

}  // namespace ampd::server
