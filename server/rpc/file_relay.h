#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/clock.h"
#include "base/random.h"

namespace ampd::server {

// Passes one file from a worker to a client. Holds at most one piece of the file: the worker's next piece is read when
// the client has taken the previous one. Thread-safe.
class FileRelay {
 public:
  // How long the client waits for the next piece.
  static constexpr absl::Duration kPieceLimit = absl::Seconds(30);

  // `on_piece` is called when Take has something to return; it must be quick.
  FileRelay(std::string worker, v1::FileRequest request, std::function<void()> on_piece, const Clock* clock);

  const std::string& worker() const { return worker_; }
  const v1::FileRequest& request() const { return request_; }

  // ---- Functions for the client's call.
  struct Taken {
    enum Kind { kNothingYet, kPiece, kEnd };
    Kind kind = kNothingYet;
    std::string piece;
    absl::Status status;  // For kEnd: OK after the last piece, otherwise the cause.
  };
  // Returns the next piece or the end. UNAVAILABLE (WORKER_UNREACHABLE) if the worker sent nothing for kPieceLimit.
  Taken Take();
  // Called when the client's call ends. The worker then stops sending.
  void Leave();

  // ---- Functions for the worker's call.
  // Called when the worker's call begins. `on_taken` is called after each piece that the client took, and `on_left` if
  // the client leaves. No lock is held during these two calls. Returns false if the client has left, or if another call
  // sends the file.
  bool Begin(std::function<void()> on_taken, std::function<void()> on_left);
  // Adds the next piece. Call it again only after on_taken. Returns false if the client has left. REQUIRES: the client
  // has taken the previous piece.
  bool Put(std::string piece, bool is_last);
  // Ends the transfer before the end of the file.
  void Fail(const absl::Status& why);

  // Whether no worker's call has begun to send the file yet.
  bool IsWaiting() const;

 private:
  const std::string worker_;
  const v1::FileRequest request_;
  const std::function<void()> on_piece_;
  const Clock* const clock_;

  mutable absl::Mutex mutex_;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_left_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> piece_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // Set when no further piece will come.
  absl::Duration last_progress_ ABSL_GUARDED_BY(mutex_);     // Since boot.
  std::function<void()> on_taken_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_left_ ABSL_GUARDED_BY(mutex_);
};

// The relays of all downloads that are running. Thread-safe.
class FileRelays {
 public:
  static constexpr size_t kMaxRelays = 256;

  explicit FileRelays(const Clock* clock) : clock_(clock) {}

  // Opens a relay for a file that `worker` has. The relay is dropped when its last owner releases it. A random
  // `transfer` is added to the request. RESOURCE_EXHAUSTED (SERVER_BUSY) if there are kMaxRelays.
  absl::StatusOr<std::shared_ptr<FileRelay>> Open(const std::string& worker, v1::FileRequest request,
                                                  std::function<void()> on_piece);
  // Adds to the directive the files that the worker should begin to send.
  void AddTo(const std::string& worker, v1::WorkerDirective* directive);
  // Returns the relay; null if no client waits for this transfer.
  std::shared_ptr<FileRelay> Find(const std::string& transfer);

 private:
  const Clock* const clock_;
  absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<FileRelay>> relays_ ABSL_GUARDED_BY(mutex_);  // Key: the transfer.
};

}  // namespace ampd::server
