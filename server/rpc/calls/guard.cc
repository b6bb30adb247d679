#include "server/rpc/calls/guard.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/tls/trust.h"
#include "server/coordinator/job_queries.h"
#include "server/rpc/calls/call_memory.h"

namespace ampd::server {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr char kProxiedCertificate[] = "x-ampd-client-cert";
constexpr size_t kMaxAddressBytes = 64;

// Returns the caller's address that the proxy reports, or "the proxy" if it reports none.
std::string ProxiedAddress(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find("x-forwarded-for");
  return found == context.client_metadata().end()
             ? "the proxy"
             : Shortened(std::string(found->second.data(), found->second.size()), kMaxAddressBytes);
}

// Returns the first value of a property of the connection's certificate; empty if there is none.
std::string PropertyOf(const grpc::ServerContextBase& context, const char* name) {
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  const std::vector<grpc::string_ref> values =
      connection == nullptr ? std::vector<grpc::string_ref>() : connection->FindPropertyValues(name);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

}  // namespace

bool IsLoopbackPeer(std::string_view peer) {
  // gRPC percent-encodes the brackets in the address of an IPv6 peer: "ipv6:%5B::1%5D:40000".
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
  return std::next(first) == last ? credentials_.TokenOf({first->second.data(), first->second.size()})
                                  : BadAuthorization();
}

absl::StatusOr<Identity> Guard::IdentityOfCertificate(const std::string& pem) const {
  const std::optional<std::string> name = options_.trust == nullptr ? std::nullopt : options_.trust->NameOf(pem);
  if (!name.has_value()) {
    return Error(absl::StatusCode::kUnauthenticated, "CERTIFICATE_NOT_TRUSTED",
                 "the server does not trust the connection's certificate, or not any more");
  }
  return credentials_.OfCertificate(*name);
}

absl::StatusOr<Identity> Guard::IdentityBehindProxy(const grpc::ServerContextBase& context) const {
  const auto [first, last] = context.client_metadata().equal_range(kProxiedCertificate);
  if (first == last) {
    return Identity();  // The caller showed the proxy no certificate.
  }
  return IdentityOfCertificate(
      std::next(first) == last ? PemOfDer(std::string(first->second.data(), first->second.size())) : "");
}

Identity Guard::IdentityOnSocket(const Peer& peer) const {
  Identity identity = peer.identity;
  identity.roles = options_.grants->RolesOf(peer.local);
  return identity;
}

absl::StatusOr<Identity> Guard::IdentityOfConnection(const grpc::ServerContextBase& context) const {
  const std::string name = context.peer();
  if (const std::optional<Peer> on_socket = options_.peers->Find(name); on_socket.has_value()) {
    return on_socket->is_proxy ? IdentityBehindProxy(context) : IdentityOnSocket(*on_socket);
  }
  if (options_.listens_with_tls) {
    // gRPC's certificate chain of the client lacks the client's own certificate, so this puts that certificate in
    // front.
    return IdentityOfCertificate(PropertyOf(context, GRPC_X509_PEM_CERT_PROPERTY_NAME) +
                                 PropertyOf(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
  }
  if (!IsLoopbackPeer(name)) {
    return Error(absl::StatusCode::kPermissionDenied, "NOT_LOCAL", "this server serves its own host only");
  }
  return options_.trusts_loopback ? Identity::InAllTenants("", Role::kAdmin) : Identity();
}

absl::StatusOr<Identity> Guard::IdentityOf(const grpc::ServerContextBase& context) const {
  AMPD_ASSIGN_OR_RETURN(Identity of_connection, IdentityOfConnection(context));
  const auto [first, last] = context.client_metadata().equal_range(kAuthorization);
  if (first == last) {
    return of_connection;
  }
  return std::next(first) == last ? credentials_.OfAuthorization({first->second.data(), first->second.size()})
                                  : BadAuthorization();
}

std::string Guard::NameOf(const grpc::ServerContextBase& context) const {
  const absl::StatusOr<Identity> identity = IdentityOf(context);
  return identity.ok() ? identity->name : IdentityOfConnection(context).value_or(Identity()).name;
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

absl::StatusOr<Identity> Guard::CallerOf(const grpc::ServerContextBase& context, std::string_view method) const {
  AMPD_ASSIGN_OR_RETURN(Identity identity, IdentityOf(context));
  AMPD_RETURN_IF_ERROR(CheckMethod(identity, method));
  return identity;
}

absl::Status Guard::Check(const grpc::ServerContextBase& context, std::string_view method) const {
  return CallerOf(context, method).status();
}

absl::StatusOr<Tenants> Guard::TenantsFor(const grpc::ServerContextBase& context, std::string_view method) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, CallerOf(context, method));
  return TenantsForCall(identity, method);
}

absl::Status Guard::Admit(const grpc::ServerContextBase& context, std::string_view method) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, CallerOf(context, method));
  AMPD_RETURN_IF_ERROR(CheckMemoryFor(method, options_.has_memory == nullptr || options_.has_memory()));
  return options_.limits == nullptr ? absl::OkStatus() : options_.limits->TakeCall(identity);
}

absl::StatusOr<CallLimits::Slot> Guard::AdmitStream(const grpc::ServerContextBase& context,
                                                    std::string_view method) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, CallerOf(context, method));
  AMPD_RETURN_IF_ERROR(CheckMemoryFor(method, options_.has_memory == nullptr || options_.has_memory()));
  return options_.limits == nullptr ? absl::StatusOr<CallLimits::Slot>(nullptr) : options_.limits->TakeStream(identity);
}

bool Guard::MayUseAllJobs(const grpc::ServerContextBase& context, std::string_view method) const {
  const absl::StatusOr<Identity> identity = IdentityOf(context);
  return identity.ok() && ampd::server::MayUseAllJobs(*identity, *FindRule(method));
}

absl::Status Guard::CheckJob(const grpc::ServerContextBase& context, std::string_view method,
                             const std::string& job) const {
  AMPD_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(context));
  AMPD_ASSIGN_OR_RETURN(const JobFacts facts, options_.find_job(job));
  return CheckJob(identity, method, job, facts);
}

absl::Status Guard::CheckJob(const Identity& identity, std::string_view method, const std::string& job,
                             const JobFacts& facts) {
  return MaySeeJob(identity, facts) ? ampd::server::CheckJob(identity, *FindRule(method), job, facts)
                                    : JobNotFound(job);
}

}  // namespace ampd::server
