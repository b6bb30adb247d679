#include "server/rpc/worker_streams.h"

#include <utility>
#include <vector>

namespace ampd::server {

void WorkerStreams::Attach(const std::string& worker, const std::shared_ptr<WorkerStream>& stream) {
  std::shared_ptr<WorkerStream> replaced;
  bool closed = false;
  {
    absl::MutexLock lock(&mutex_);
    closed = closed_;
    replaced = std::exchange(attached_[worker], stream).lock();
    std::erase_if(attached_, [](const auto& entry) { return entry.second.expired(); });
  }
  if (replaced != nullptr && replaced != stream) {
    replaced->End(/*replaced=*/true);
  }
  if (closed) {
    stream->End(/*replaced=*/false);
  }
}

void WorkerStreams::AddTelemetry(const std::shared_ptr<WorkerStream>& stream) {
  bool closed = false;
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(telemetry_, [](const auto& entry) { return entry.second.expired(); });
    telemetry_[stream.get()] = stream;
    closed = closed_;
  }
  if (closed) {
    stream->End(/*replaced=*/false);
  }
}

void WorkerStreams::DirectiveDue(const std::string& worker) {
  std::shared_ptr<WorkerStream> stream;
  {
    absl::MutexLock lock(&mutex_);
    auto found = attached_.find(worker);
    if (found != attached_.end()) {
      stream = found->second.lock();
    }
  }
  if (stream != nullptr) {
    stream->DirectiveDue();
  }
}

void WorkerStreams::Close() {
  std::vector<std::shared_ptr<WorkerStream>> all;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    for (const auto& [worker, stream] : attached_) {
      all.push_back(stream.lock());
    }
    for (const auto& [pointer, stream] : telemetry_) {
      all.push_back(stream.lock());
    }
  }
  for (const std::shared_ptr<WorkerStream>& stream : all) {
    if (stream != nullptr) {
      stream->End(/*replaced=*/false);
    }
  }
}

}  // namespace ampd::server
