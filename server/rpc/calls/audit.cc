#include "server/rpc/calls/audit.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/server_context.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxObjectBytes = 80;  // Digests have 64 characters.
constexpr size_t kMaxKinds = 1000;

bool IsChange(std::string_view method) {
  const Rule* const rule = FindRule(method);
  const bool is_list = method.find("/List") != std::string_view::npos;
  return rule != nullptr && !is_list &&
         (rule->right == Right::kSubmit || rule->right == Right::kOperate || rule->right == Right::kAdminister);
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

// Returns a span for the call, in the trace that the caller names. Begins a new trace if the caller names no trace, or
// more than one.
TraceContext TraceOf(const grpc::ServerContextBase& context) {
  const auto [first, last] = context.client_metadata().equal_range(kTraceparent);
  const bool is_one = std::distance(first, last) == 1;
  return ContinueOrBegin(is_one ? std::string_view(first->second.data(), first->second.size()) : "", SystemRandom());
}

// Returns the object's name, shortened, and with '?' for each character that would need an escape in JSON.
std::string Bounded(std::string object) {
  object.resize(std::min(object.size(), kMaxObjectBytes));
  std::replace_if(
      object.begin(), object.end(), [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  return object;
}

}  // namespace

AuditCaller Audit::CallerOf(const grpc::ServerContextBase& context) const {
  return {.name = guard_->NameOf(context), .address = guard_->AddressOf(context), .trace = TraceOf(context)};
}

bool Audit::TakeFailed(const std::string& kind, absl::Duration now, int64_t* num_left_out) {
  const absl::MutexLock lock(&mutex_);
  if (recent_.size() >= kMaxKinds) {
    recent_.clear();
  }
  if (now - second_ >= absl::Seconds(1)) {
    second_ = now;
    num_failed_ = 0;
  }
  const auto last = recent_.find(kind);
  if (num_failed_ >= kMaxFailed || (last != recent_.end() && now - last->second < absl::Minutes(1))) {
    ++num_left_out_;
    return false;
  }
  ++num_failed_;
  recent_[kind] = now;
  *num_left_out = std::exchange(num_left_out_, 0);
  return true;
}

void Audit::Finished(const AuditCaller& caller, std::string_view method, const std::string& object,
                     const absl::Status& status, bool is_dry_run) {
  if (log_ == nullptr || (!IsRefusal(status) && (is_dry_run || !IsChange(method)))) {
    return;
  }
  // Omits the object that an unknown caller names. Otherwise such a caller could fill the log with entries for
  // different names.
  const std::string shown = caller.name.empty() && !status.ok() ? "" : Bounded(object);
  int64_t num_left_out = 0;
  if (!status.ok()) {
    const std::string host = caller.address.substr(0, caller.address.rfind(':'));  // Omits the port.
    const std::string kind =
        absl::StrCat(caller.name, " ", host, " ", std::string(method), " ", shown, " ", ReasonOf(status));
    if (!TakeFailed(kind, SystemClock().SinceBoot(), &num_left_out)) {
      return;
    }
  }
  v1::AuditEntry entry;
  *entry.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now()));
  entry.set_caller(caller.name);
  entry.set_address(caller.address);
  entry.set_method(std::string(method));
  entry.set_object(shown);
  entry.set_code(absl::StatusCodeToString(status.code()));
  entry.set_reason(ReasonOf(status));
  entry.set_num_left_out(num_left_out);
  entry.set_trace_id(TraceIdOf(caller.trace));
  entry.set_span_id(SpanIdOf(caller.trace));
  entry.set_parent_span_id(ParentSpanIdOf(caller.trace));
  log_->Add(std::move(entry));
}

}  // namespace ampd::server
