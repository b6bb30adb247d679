#include "worker/agent/files/removal_thread.h"

#include <utility>

namespace ampd::agent {

void RemovalThread::Start() {
  remover_.Load();
  {
    absl::MutexLock lock(&mutex_);
    pending_ = remover_.pending();
  }
  thread_ = std::thread([this] { Run(); });
}

void RemovalThread::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

uint64_t RemovalThread::Request(std::vector<std::string> paths, std::vector<std::string> later, absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  if (!paths.empty() || !later.empty()) {
    work_ = Work{++num_requests_, std::move(paths), std::move(later), now};
  }
  return num_requests_;
}

uint64_t RemovalThread::num_done() const {
  absl::MutexLock lock(&mutex_);
  return num_done_;
}

std::vector<std::string> RemovalThread::Due(absl::Duration now) const {
  absl::MutexLock lock(&mutex_);
  return DueAt(pending_, now);
}

void RemovalThread::Run() {
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &RemovalThread::HasWorkOrIsClosed));
      if (closed_) {
        return;
      }
      work = *std::exchange(work_, std::nullopt);
    }
    remover_.Remove(work.paths, work.later, work.now);
    absl::MutexLock lock(&mutex_);
    pending_ = remover_.pending();
    num_done_ = work.number;
  }
}

}  // namespace ampd::agent
