#include "server/rpc/connections/connection_audit.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

namespace ampd::server {
namespace {

constexpr absl::Duration kBetweenEntries = absl::Minutes(1);
constexpr size_t kMaxRecent = 10'000;

}  // namespace

void ConnectionAudit::Connected(const std::string& common_name) {
  const absl::MutexLock lock(&mutex_);
  // A name that could mislead a reader gets no entry. The guard refuses all calls of such a caller.
  const std::string name = log_ == nullptr ? "" : grants_->OfCertificate(common_name).name;
  if (name.empty()) {
    return;
  }
  const absl::Duration now = clock_->SinceBoot();
  const auto last = recent_.find(name);
  if (last != recent_.end() && now - last->second < kBetweenEntries) {
    return;
  }
  if (recent_.size() >= kMaxRecent) {
    recent_.clear();
  }
  recent_[name] = now;
  v1::AuditEntry entry;
  *entry.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(clock_->Now()));
  entry.set_caller(name);
  entry.set_method("connection");
  entry.set_code("OK");
  log_->Add(std::move(entry));
}

void ConnectionAudit::Detach() {
  const absl::MutexLock lock(&mutex_);
  log_ = nullptr;
}

}  // namespace ampd::server
