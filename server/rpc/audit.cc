#include "server/rpc/audit.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxObjectBytes = 256;

bool IsChange(std::string_view method) {
  const Rule* const rule = FindRule(method);
  return rule != nullptr &&
         (rule->right == Right::kSubmit || rule->right == Right::kOperate || rule->right == Right::kAdminister);
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

}  // namespace

bool Audit::TakeRefused(absl::Duration now, int64_t* num_left_out) {
  const absl::MutexLock lock(&mutex_);
  if (now - second_ >= absl::Seconds(1)) {
    second_ = now;
    num_refused_ = 0;
  }
  if (num_refused_ >= kMaxRefused) {
    ++num_left_out_;
    return false;
  }
  ++num_refused_;
  *num_left_out = std::exchange(num_left_out_, 0);
  return true;
}

void Audit::Finished(const grpc::ServerContextBase& context, std::string_view method, const std::string& object,
                     const absl::Status& status) {
  int64_t num_left_out = 0;
  const bool is_refusal = IsRefusal(status);
  if (log_ == nullptr || (!is_refusal && !IsChange(method)) ||
      (is_refusal && !TakeRefused(SystemClock().SinceBoot(), &num_left_out))) {
    return;
  }
  v1::AuditEntry entry;
  const absl::Time now = absl::Now();
  entry.mutable_time()->set_seconds(absl::ToUnixSeconds(now));
  entry.mutable_time()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(now - absl::FromUnixSeconds(absl::ToUnixSeconds(now)))));
  entry.set_caller(guard_->IdentityOf(context).value_or(Identity()).name);
  entry.set_address(guard_->AddressOf(context));
  entry.set_method(std::string(method));
  entry.set_object(ValidUtf8(Shortened(object, kMaxObjectBytes)));
  entry.set_code(absl::StatusCodeToString(status.code()));
  entry.set_reason(ReasonOf(status));
  entry.set_num_left_out(num_left_out);
  log_->Add(std::move(entry));
}

}  // namespace ampd::server
