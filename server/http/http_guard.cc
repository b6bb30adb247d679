#include "server/http/http_guard.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/trace_context.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

std::vector<std::string_view> ValuesOf(const http::Request& request, std::string_view name) {
  std::vector<std::string_view> values;
  for (const http::Header& header : request.headers) {
    if (absl::EqualsIgnoreCase(header.name, std::string(name))) {
      values.push_back(header.value);
    }
  }
  return values;
}

// Returns the value of the header. Empty if the request has no header with this name, or more than one.
std::string_view ValueOf(const http::Request& request, std::string_view name) {
  const std::vector<std::string_view> values = ValuesOf(request, name);
  return values.size() == 1 ? values[0] : "";
}

absl::Status CheckPage(const Identity& identity, const Rule* rule, std::string_view page) {
  if (rule != nullptr && identity.name.empty() && identity.roles.empty()) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_NEEDED",
                 "this page needs a token with the role scraper: an administrator makes one with ampctl auth token "
                 "create NAME --role scraper; send it as Authorization: Bearer TOKEN");
  }
  return CheckMethod(identity, page);
}

}  // namespace

absl::StatusOr<Identity> HttpGuard::IdentityOf(const http::Request& request) const {
  const std::vector<std::string_view> authorizations = ValuesOf(request, "Authorization");
  if (!authorizations.empty()) {
    return authorizations.size() == 1 ? options_.credentials.OfAuthorization(authorizations[0]) : BadAuthorization();
  }
  if (!request.certificate_name.empty()) {
    return options_.credentials.OfCertificate(request.certificate_name);
  }
  return options_.trusts_everybody ? Identity::InAllTenants("", Role::kAdmin) : Identity();
}

absl::StatusOr<Identity> HttpGuard::Check(const http::Request& request, std::string_view page) const {
  const Rule* const rule = FindRule(page);
  if (rule != nullptr && rule->right == Right::kNone) {
    return Identity();
  }
  absl::StatusOr<Identity> identity = IdentityOf(request);
  absl::Status allowed = identity.ok() ? CheckPage(*identity, rule, page) : identity.status();
  if (allowed.ok() && options_.limits != nullptr) {
    allowed = options_.limits->TakeCall(*identity);
  }
  if (allowed.ok()) {
    return identity;
  }
  // If the token is not valid, the log shows the name in the caller's certificate.
  const std::string name =
      (identity.ok() ? *identity : options_.credentials.OfCertificate(request.certificate_name).value_or(Identity()))
          .name;
  const TraceContext trace = ContinueOrBegin(ValueOf(request, kTraceparent), SystemRandom());
  options_.audit->Finished({.name = name, .address = request.peer, .trace = trace}, page, "", allowed);
  options_.observer->Refused(page, allowed, name.empty() ? request.peer : absl::StrCat(name, " at ", request.peer),
                             trace);
  return allowed;
}

http::Response Refusal(const absl::Status& status) {
  const std::string text(status.message());
  if (absl::IsUnauthenticated(status)) {
    http::Response response = http::Text(401, text);
    response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"ampd\""});
    return response;
  }
  if (absl::IsResourceExhausted(status)) {
    http::Response response = http::Text(429, text);
    const absl::Duration delay = absl::Ceil(RetryDelayOf(status).value_or(absl::ZeroDuration()), absl::Seconds(1));
    response.headers.push_back({"Retry-After", absl::StrCat(absl::ToInt64Seconds(delay))});
    return response;
  }
  return http::Text(403, text);
}

}  // namespace ampd::server
