#include "server/access/limits.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/units.h"

namespace ampd::server {
namespace {

template <typename Holder>
struct NamedLimit {
  const char* name;
  std::optional<int64_t> Holder::*field;
  bool is_bytes;
};

constexpr NamedLimit<TenantLimits> kTenantLimits[] = {{"jobs", &TenantLimits::jobs, false},
                                                      {"spec-bytes", &TenantLimits::spec_bytes, true},
                                                      {"artifact-bytes", &TenantLimits::artifact_bytes, true},
                                                      {"requests", &TenantLimits::requests, false},
                                                      {"streams", &TenantLimits::streams, false}};
constexpr NamedLimit<CallerLimits> kCallerLimits[] = {{"requests", &CallerLimits::requests, false},
                                                      {"streams", &CallerLimits::streams, false}};

absl::Status BadLimit(std::string_view text, const std::string& why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_LIMIT",
               absl::StrCat("'", std::string(text), "': ", why,
                            "; a limit is TENANT:LIMIT=NUMBER, with LIMIT jobs, spec-bytes, artifact-bytes, requests "
                            "or streams, or for callers LIMIT=NUMBER, with LIMIT requests or streams"));
}

// Parses "NAME=NUMBER" and sets the limit with that name in `holder`.
template <typename Holder, size_t kNumLimits>
absl::Status Set(std::string_view whole, const std::string& text, const NamedLimit<Holder> (&limits)[kNumLimits],
                 Holder* holder) {
  const std::vector<std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto* const limit = std::find_if(std::begin(limits), std::end(limits),
                                         [&](const NamedLimit<Holder>& one) { return one.name == sides[0]; });
  if (sides.size() != 2 || limit == std::end(limits)) {
    return BadLimit(whole, absl::StrCat("'", sides[0], "' is no limit"));
  }
  std::optional<int64_t> value = limit->is_bytes ? ParseByteCount(sides[1]) : std::nullopt;
  if (int64_t number = 0; !limit->is_bytes && absl::SimpleAtoi(sides[1], &number)) {
    value = number;
  }
  if (!value.has_value() || *value < 1) {
    return BadLimit(whole,
                    absl::StrCat("'", sides[1], "' is not ", limit->is_bytes ? "a size" : "a number", " above 0"));
  }
  holder->*(limit->field) = value;
  return absl::OkStatus();
}

}  // namespace

Limits& Limits::operator=(const Limits& other) {
  Table table = other.table();  // Copied first, so that the two locks are never held at once.
  const absl::MutexLock lock(&mutex_);
  table_ = std::move(table);
  return *this;
}

absl::Status Limits::AddForTenants(std::string_view text) {
  const std::vector<std::string> sides = absl::StrSplit(std::string(text), absl::MaxSplits(':', 1));
  if (sides.size() != 2 || (sides[0] != kAllTenants && !CheckTenantName("", sides[0]).ok())) {
    return BadLimit(text, "it names no tenant");
  }
  const absl::MutexLock lock(&mutex_);
  return Set(text, sides[1], kTenantLimits, &table_.of_tenant[sides[0]]);
}

absl::Status Limits::AddForCallers(std::string_view text) {
  const absl::MutexLock lock(&mutex_);
  return Set(text, std::string(text), kCallerLimits, &table_.of_caller);
}

TenantLimits Limits::OfTenant(const std::string& tenant) const {
  const absl::MutexLock lock(&mutex_);
  const auto own = table_.of_tenant.find(tenant);
  const auto usual = table_.of_tenant.find(std::string(kAllTenants));
  TenantLimits limits = own == table_.of_tenant.end() ? TenantLimits() : own->second;
  for (const NamedLimit<TenantLimits>& limit : kTenantLimits) {
    if (usual != table_.of_tenant.end() && !(limits.*(limit.field)).has_value()) {
      limits.*(limit.field) = usual->second.*(limit.field);
    }
  }
  return limits;
}

}  // namespace ampd::server
