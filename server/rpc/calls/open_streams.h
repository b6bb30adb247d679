#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <functional>
#include <map>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/api/tenants.h"

namespace ampd::server {

// A stream that OpenStreams tracks. Its functions must not block, and of the functions of OpenStreams they may call
// only closing().
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Called when the server shuts down. Only streams that may wait for their client without a time limit override this
  // function. Such a stream ends at once if it is waiting now, or else when it would next wait. All other streams are
  // ended by their owners.
  virtual void OnClosing() {}
  // Called when the caller may no longer call the method, or no longer in all tenants in which it could. The stream
  // ends with this status as soon as no message is being written.
  virtual void OnDenied(const absl::Status& status) = 0;
};

// Tracks the open streams, for two purposes. A shutdown waits until all streams have ended, and if a caller loses its
// right to a stream, the stream ends. Thread-safe.
class OpenStreams {
 public:
  // Begins the shutdown: calls OnClosing of each stream. Downloads also check closing() before every message.
  void BeginClosing();
  bool closing() const { return closing_; }

  // Adds a stream that begins. `context` belongs to its call. `method` is the full name of the method and must never be
  // destroyed. `tenants`: the tenants in which the caller may call the method now.
  void Add(grpc::CallbackServerContext* context, std::string_view method, Tenants tenants, OpenStream* stream);
  // Removes a stream that ended. The stream and its context are not used afterwards.
  void Remove(grpc::CallbackServerContext* context);

  // Returns the tenants in which the caller may call the method now, or an error if it may not call the method.
  using Check = std::function<absl::StatusOr<Tenants>(const grpc::ServerContextBase& context, std::string_view method)>;
  // Ends the streams whose callers have lost rights, and returns their number. If `check` returns an error, the stream
  // ends with this error. If the caller has lost one of the tenants with which it opened the stream, the stream ends
  // with UNAVAILABLE (RIGHTS_CHANGED): the client can call again, and the new call has the new rights. If a stream was
  // already to end in the previous call, it is stuck in a write and is cancelled. Call it once a second, on a thread
  // that belongs to no gRPC server.
  int EndDenied(const Check& check);

  // Waits until no stream is open, but at most for `timeout`.
  void AwaitNone(absl::Duration timeout) const;

 private:
  struct Stream {
    std::string_view method;
    Tenants tenants;  // Those in which the caller could call the method when the stream began.
    OpenStream* stream = nullptr;
    bool was_denied = false;
  };

  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.empty(); }

  mutable absl::Mutex mutex_;
  std::map<grpc::CallbackServerContext*, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> closing_ = false;
};

}  // namespace ampd::server
