#include "server/rpc/guard.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/tls/trust.h"
#include "server/access/rules.h"

namespace ampd::server {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr char kProxiedCertificate[] = "x-ampd-client-cert";
constexpr size_t kMaxAddressBytes = 64;
constexpr size_t kSchemeLength = 7;  // Of "Bearer ".

// The role of a token; none for one that a newer server gave it.
std::set<Role> RolesOf(const v1::Token& token) {
  switch (token.role()) {
    case v1::VIEWER:
      return {Role::kViewer};
    case v1::SUBMITTER:
      return {Role::kSubmitter};
    case v1::OPERATOR:
      return {Role::kOperator};
    case v1::ADMIN:
      return {Role::kAdmin};
    case v1::AGENT:
      return {Role::kAgent};
    default:
      return {};
  }
}

Identity IdentityOfToken(const v1::Token& token) {
  Identity identity{.name = absl::StrCat("token:", token.name()), .roles = RolesOf(token)};
  if (token.role() == v1::AGENT) {
    identity.workers = token.worker();
  }
  return identity;
}

// The caller's address as the proxy says it.
std::string ProxiedAddress(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find("x-forwarded-for");
  return found == context.client_metadata().end()
             ? "the proxy"
             : Shortened(std::string(found->second.data(), found->second.size()), kMaxAddressBytes);
}

// The first value of a property of the connection's certificate; empty if there is none.
std::string PropertyOf(const grpc::ServerContextBase& context, const char* name) {
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  const std::vector<grpc::string_ref> values =
      connection == nullptr ? std::vector<grpc::string_ref>() : connection->FindPropertyValues(name);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
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

absl::StatusOr<Identity> Guard::IdentityOfCertificate(const std::string& pem) const {
  const std::optional<std::string> name = options_.trust == nullptr ? std::nullopt : options_.trust->NameOf(pem);
  if (!name.has_value()) {
    return Error(absl::StatusCode::kUnauthenticated, "CERTIFICATE_NOT_TRUSTED",
                 "the server does not trust the connection's certificate, or not any more");
  }
  Identity identity = options_.grants->OfCertificate(*name);
  return !identity.name.empty()
             ? absl::StatusOr<Identity>(std::move(identity))
             : Error(absl::StatusCode::kUnauthenticated, "BAD_CERTIFICATE_NAME",
                     "the common name of the certificate must have letters, digits, '-', '_', '.' and "
                     "'@' only");
}

absl::StatusOr<Identity> Guard::IdentityBehindProxy(const grpc::ServerContextBase& context) const {
  const auto [first, last] = context.client_metadata().equal_range(kProxiedCertificate);
  if (first == last) {
    return Identity();  // The caller showed the proxy no certificate.
  }
  return IdentityOfCertificate(
      std::next(first) == last ? PemOfDer(std::string(first->second.data(), first->second.size())) : "");
}

absl::StatusOr<Identity> Guard::IdentityOfConnection(const grpc::ServerContextBase& context) const {
  const std::string name = context.peer();
  if (const std::optional<Peer> on_socket = options_.peers->Find(name); on_socket.has_value()) {
    return on_socket->is_proxy ? IdentityBehindProxy(context) : on_socket->identity;
  }
  if (options_.listens_with_tls) {
    // The chain of a client, as a server sees it, lacks the client's own certificate.
    return IdentityOfCertificate(PropertyOf(context, GRPC_X509_PEM_CERT_PROPERTY_NAME) +
                                 PropertyOf(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
  }
  if (!IsLoopbackPeer(name)) {
    return Error(absl::StatusCode::kPermissionDenied, "NOT_LOCAL", "this server serves its own host only");
  }
  return options_.trusts_loopback ? Identity{.roles = {Role::kAdmin}} : Identity();
}

absl::StatusOr<Identity> Guard::IdentityOf(const grpc::ServerContextBase& context) const {
  AMPD_ASSIGN_OR_RETURN(Identity of_connection, IdentityOfConnection(context));
  const absl::StatusOr<v1::Token> token = TokenOf(context);
  if (token.ok()) {
    return IdentityOfToken(*token);
  }
  return absl::IsNotFound(token.status()) ? absl::StatusOr<Identity>(std::move(of_connection)) : token.status();
}

std::string Guard::AddressOf(const grpc::ServerContextBase& context) const {
  const std::string name = context.peer();
  const std::optional<Peer> on_socket = options_.peers->Find(name);
  if (on_socket.has_value()) {
    return on_socket->is_proxy ? ProxiedAddress(context) : "socket";
  }
  return name;
}

std::string Guard::PeerText(const grpc::ServerContextBase& context) const {
  const std::string address = AddressOf(context);
  const absl::StatusOr<Identity> identity = IdentityOf(context);
  if (!identity.ok() || identity->name.empty()) {
    return address == "socket" ? context.peer() : address;
  }
  return address == "socket" ? identity->name : absl::StrCat(identity->name, " at ", address);
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
