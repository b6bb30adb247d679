#include "server/rpc/guard.h"

#include <grpcpp/server_context.h>

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr size_t kSchemeLength = 7;  // Of "Bearer ".

Role RoleOf(const v1::Token& token) {
  switch (token.role()) {
    case v1::SUBMITTER:
      return Role::kSubmitter;
    case v1::OPERATOR:
      return Role::kOperator;
    case v1::ADMIN:
      return Role::kAdmin;
    case v1::AGENT:
      return Role::kAgent;
    default:
      return Role::kViewer;
  }
}

Identity IdentityOfToken(const v1::Token& token) {
  Identity identity{.name = absl::StrCat("token:", token.name()), .roles = {RoleOf(token)}};
  if (token.role() == v1::AGENT) {
    identity.workers = token.worker();
  }
  return identity;
}

}  // namespace

bool IsLoopbackPeer(std::string_view peer) {
  // gRPC percent-encodes the brackets of IPv6 peers: "ipv6:%5B::1%5D:40000".
  for (std::string_view prefix : {"ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:"}) {
    if (peer.substr(0, prefix.size()) == prefix) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<v1::Token> Guard::TokenOf(const grpc::ServerContextBase& context) const {
  const auto [first, last] = context.client_metadata().equal_range(kAuthorization);
  if (first == last) {
    return absl::NotFoundError("the call has no token");
  }
  const std::string_view value(first->second.data(), first->second.size());
  // The scheme's case does not matter (RFC 9110, 11.1).
  if (std::next(first) != last || value.size() <= kSchemeLength ||
      !absl::EqualsIgnoreCase(std::string(value.substr(0, kSchemeLength)), "Bearer ")) {
    return Error(absl::StatusCode::kUnauthenticated, "BAD_AUTHORIZATION",
                 "the call's metadata must have one 'authorization' of the form 'Bearer TOKEN'");
  }
  return options_.tokens->Find(value.substr(kSchemeLength));
}

absl::StatusOr<Identity> Guard::IdentityOf(const grpc::ServerContextBase& context) const {
  const std::string peer = context.peer();
  std::optional<Identity> on_socket = options_.peers->Find(peer);
  if (!on_socket.has_value() && !IsLoopbackPeer(peer)) {
    return Error(absl::StatusCode::kPermissionDenied, "NOT_LOCAL", "this server serves its own host only");
  }
  const absl::StatusOr<v1::Token> token = TokenOf(context);
  if (token.ok()) {
    return IdentityOfToken(*token);
  }
  if (!absl::IsNotFound(token.status())) {
    return token.status();
  }
  if (on_socket.has_value()) {
    return *std::move(on_socket);
  }
  return options_.trusts_loopback ? Identity{.roles = {Role::kAdmin}} : Identity();
}

std::string Guard::PeerText(const grpc::ServerContextBase& context) const {
  std::string peer = context.peer();
  const absl::StatusOr<Identity> identity = IdentityOf(context);
  if (!identity.ok() || identity->name.empty()) {
    return peer;
  }
  return options_.peers->Find(peer).has_value() ? identity->name : absl::StrCat(identity->name, " at ", peer);
}

absl::Status Guard::Check(const grpc::ServerContextBase& context, std::string_view method) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  return CheckMethod(identity, method);
}

bool Guard::ChangesJob(std::string_view method) {
  const Rule* const rule = FindRule(method);
  return rule != nullptr && rule->changes_job;
}

bool Guard::MayChangeAllJobs(const grpc::ServerContextBase& context) const {
  const absl::StatusOr<Identity> identity = IdentityOf(context);
  return identity.ok() && identity->has(Right::kOperate);
}

absl::Status Guard::CheckJob(const grpc::ServerContextBase& context, const std::string& job) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  AMPD_ASSIGN_OR_RETURN(const std::string owner, options_.owner_of(job));
  return CheckOwner(identity, job, owner);
}

}  // namespace ampd::server
