#include "server/rpc/calls/call_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxRemembered = 10'000;
constexpr absl::Duration kStreamDelay = absl::Seconds(5);

double BurstOf(int64_t requests) { return static_cast<double>(std::max(requests, CallLimits::kBurst)); }

}  // namespace

std::vector<CallLimits::Bounds> CallLimits::BoundsOf(const Identity& identity) const {
  std::vector<Bounds> all;
  if (identity.has(Right::kWork) && !identity.has(Right::kRead)) {
    return all;
  }
  const CallerLimits of_caller = limits_->of_caller();
  all.push_back({absl::StrCat("caller ", identity.name), of_caller.requests, of_caller.streams});
  Tenants tenants = identity.TenantsWith(Right::kRead);
  tenants.Add(identity.TenantsWith(Right::kScrape));
  if (!tenants.all() && tenants.names().size() == 1) {
    const std::string& tenant = *tenants.names().begin();
    const TenantLimits of_tenant = limits_->OfTenant(tenant);
    all.push_back({absl::StrCat("tenant ", tenant), of_tenant.requests, of_tenant.streams});
  }
  return all;
}

absl::Duration CallLimits::WaitFor(const Bounds& bounds, absl::Duration now, Usage* usage) {
  if (!bounds.requests.has_value()) {
    return absl::ZeroDuration();
  }
  const auto rate = static_cast<double>(*bounds.requests);
  const double gained = absl::ToDoubleSeconds(now - usage->filled) * rate;
  usage->tokens = std::min(usage->tokens + gained, BurstOf(*bounds.requests));
  usage->filled = now;
  return usage->tokens >= 1 ? absl::ZeroDuration() : absl::Seconds((1 - usage->tokens) / rate);
}

void CallLimits::Forget(absl::Duration now) {
  std::erase_if(usage_, [now](const auto& entry) {
    return entry.second.num_streams == 0 && now - entry.second.filled > absl::Minutes(1);
  });
}

absl::Status CallLimits::Take(const std::vector<Bounds>& bounds, bool is_stream) {
  const absl::Duration now = clock_->SinceBoot();
  const absl::MutexLock lock(&mutex_);
  if (usage_.size() > kMaxRemembered) {
    Forget(now);
  }
  for (const Bounds& one : bounds) {
    const auto [entry, is_new] = usage_.try_emplace(one.key);
    if (is_new) {
      entry->second = {.tokens = BurstOf(one.requests.value_or(0)), .filled = now};
    }
    Usage& usage = entry->second;
    if (const absl::Duration wait = WaitFor(one, now, &usage); wait > absl::ZeroDuration()) {
      return WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "RATE_LIMIT",
                                  absl::StrCat("the server takes ", *one.requests, " calls a second of the ", one.key)),
                            wait);
    }
    if (is_stream && one.streams.has_value() && usage.num_streams >= *one.streams) {
      return WithRetryDelay(
          Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                absl::StrCat("the ", one.key, " may have ", *one.streams,
                             " streams open at once (watches, logs, uploads, downloads); end one of them")),
          kStreamDelay);
    }
  }
  for (const Bounds& one : bounds) {
    Usage& usage = usage_[one.key];
    usage.tokens -= one.requests.has_value() ? 1 : 0;
    usage.num_streams += is_stream ? 1 : 0;
  }
  return absl::OkStatus();
}

void CallLimits::Release(const std::vector<Bounds>& bounds) {
  const absl::MutexLock lock(&mutex_);
  for (const Bounds& one : bounds) {
    --usage_[one.key].num_streams;
  }
}

absl::Status CallLimits::TakeCall(const Identity& identity) { return Take(BoundsOf(identity), /*is_stream=*/false); }

absl::StatusOr<CallLimits::Slot> CallLimits::TakeStream(const Identity& identity) {
  std::vector<Bounds> bounds = BoundsOf(identity);
  AMPD_RETURN_IF_ERROR(Take(bounds, /*is_stream=*/true));
  return Slot(nullptr, [this, bounds = std::move(bounds)](void*) { Release(bounds); });
}

}  // namespace ampd::server
