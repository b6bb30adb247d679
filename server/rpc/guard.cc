#include "server/rpc/guard.h"

#include <grpcpp/server_context.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/access/rules.h"

namespace ampd::server {

bool IsLoopbackPeer(std::string_view peer) {
  // gRPC percent-encodes the brackets of IPv6 peers: "ipv6:%5B::1%5D:40000".
  for (std::string_view prefix : {"ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:"}) {
    if (peer.substr(0, prefix.size()) == prefix) {
      return true;
    }
  }
  return false;
}

std::optional<Identity> Guard::IdentityOf(const grpc::ServerContextBase& context) const {
  const std::string peer = context.peer();
  if (std::optional<Identity> identity = peers_->Find(peer); identity.has_value()) {
    return identity;
  }
  return IsLoopbackPeer(peer) ? std::optional(Identity{.name = "", .roles = {Role::kAdmin}}) : std::nullopt;
}

std::string Guard::PeerText(const grpc::ServerContextBase& context) const {
  std::string peer = context.peer();
  const std::optional<Identity> identity = peers_->Find(peer);
  return identity.has_value() ? identity->name : peer;
}

absl::Status Guard::Check(const grpc::ServerContextBase& context, std::string_view method) const {
  const std::optional<Identity> identity = IdentityOf(context);
  if (!identity.has_value()) {
    return Error(absl::StatusCode::kPermissionDenied, "NOT_LOCAL",
                 "this server has no authentication and serves its own host only");
  }
  return CheckMethod(*identity, method);
}

bool Guard::ChangesJob(std::string_view method) {
  const Rule* const rule = FindRule(method);
  return rule != nullptr && rule->changes_job;
}

bool Guard::MayChangeAllJobs(const grpc::ServerContextBase& context) const {
  const std::optional<Identity> identity = IdentityOf(context);
  return identity.has_value() && identity->has(Right::kOperate);
}

absl::Status Guard::CheckJob(const grpc::ServerContextBase& context, const std::string& job) const {
  const std::optional<Identity> identity = IdentityOf(context);
  AMPD_ASSIGN_OR_RETURN(const std::string owner, owner_of_(job));
  return CheckOwner(identity.value_or(Identity()), job, owner);
}

}  // namespace ampd::server
