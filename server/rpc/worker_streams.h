#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ampd::server {

// One open stream of a worker's.
class WorkerStream {
 public:
  virtual ~WorkerStream() = default;
  // The coordinator has something new for the worker. Does not block and calls nobody back.
  virtual void DirectiveDue() = 0;
  // The server leaves, or another stream has taken this one's place.
  virtual void End(bool replaced) = 0;
};

// The streams that are open: the newest Attach of each worker by name, and all telemetry streams. Thread-safe.
class WorkerStreams {
 public:
  // The stream speaks for `worker` from now on; the one that did before is ended. After Close the stream itself is.
  void Attach(const std::string& worker, const std::shared_ptr<WorkerStream>& stream);
  void AddTelemetry(const std::shared_ptr<WorkerStream>& stream);
  void DirectiveDue(const std::string& worker);
  // Ends all, also those still to come.
  void Close();

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<WorkerStream>> attached_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkerStream*, std::weak_ptr<WorkerStream>> telemetry_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::server
