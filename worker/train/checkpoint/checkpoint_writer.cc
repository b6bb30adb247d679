#include "worker/train/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace ampd::train {

absl::Status CheckpointWriter::Begin(uint64_t after_sequence, Write write) {
  AMPD_RETURN_IF_ERROR(Wait());
  thread_ = std::thread([this, after_sequence, write = std::move(write)] { Run(after_sequence, write); });
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Check() const {
  absl::MutexLock lock(&mutex_);
  if (exception_ != nullptr) {
    std::rethrow_exception(exception_);
  }
  return error_;
}

absl::Status CheckpointWriter::Wait() {
  Join();
  return Check();
}

void CheckpointWriter::Join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::optional<v1::Checkpoint> CheckpointWriter::newest() const {
  absl::MutexLock lock(&mutex_);
  return written_.empty() ? std::nullopt : std::optional(written_.front());
}

std::vector<v1::Checkpoint> CheckpointWriter::written() const {
  absl::MutexLock lock(&mutex_);
  return {written_.begin(), written_.end()};
}

void CheckpointWriter::Run(uint64_t after_sequence, const Write& write) {
  absl::StatusOr<v1::Checkpoint> written;
  try {
    written = write();
  } catch (...) {
    absl::MutexLock lock(&mutex_);
    exception_ = std::current_exception();
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!written.ok()) {
      error_ = written.status();
      return;
    }
    written_.push_front(*written);
    written_.resize(std::min(written_.size(), kMaxWritten));
  }
  announce_(*written, after_sequence);
}

}  // namespace ampd::train
