#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ampd::server {

// One open stream of a worker.
class WorkerStream {
 public:
  virtual ~WorkerStream() = default;
  // Called when the coordinator has a directive for the worker. Must not block and must not call the coordinator.
  virtual void DirectiveDue() = 0;
  // Ends the stream, because the server shuts down or another stream replaced this one.
  virtual void End(bool replaced) = 0;
};

// The open streams: the newest Attach stream of each worker, by the worker's name, and all telemetry streams.
// Thread-safe.
class WorkerStreams {
 public:
  // Makes `stream` the Attach stream of the worker, and ends the worker's previous Attach stream. After Close, it also
  // ends `stream`.
  void Attach(const std::string& worker, const std::shared_ptr<WorkerStream>& stream);
  void AddTelemetry(const std::shared_ptr<WorkerStream>& stream);
  void DirectiveDue(const std::string& worker);
  // Ends all open streams, and every stream that is added later.
  void Close();

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<WorkerStream>> attached_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerStream*, std::weak_ptr<WorkerStream>> telemetry_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
