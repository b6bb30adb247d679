#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/auth_service.pb.h"
#include "base/tls/trust.h"
#include "server/access/grants.h"
#include "server/access/identity.h"
#include "server/access/rules.h"
#include "server/oidc/identity_provider.h"
#include "server/rpc/calls/call_limits.h"
#include "server/rpc/calls/credentials.h"
#include "server/rpc/connections/peers.h"
#include "server/tokens/token_store.h"

namespace grpc {
class ServerContextBase;
}

namespace ampd::server {

// The access check before every call. It finds out who the peer is, and whether the peer may call the method. If the
// call has a token, the token alone decides; it is a token of this server or a JWT of the identity provider. Without a
// token, the identity of a peer on the Unix socket comes from Peers, and that of a peer with TLS from its certificate.
// A peer on loopback without TLS has no identity, because it may be any local user. It needs a token unless the server
// lets all local users do everything. Peers on other hosts without TLS are refused.
//
// A proxy on a socket of its own passes on the calls of other callers. The metadata x-ampd-client-cert contains the
// certificate that the caller showed to the proxy (DER in base64), and x-forwarded-for the caller's address. The proxy
// removes both from what callers send. Thread-safe.
class Guard {
 public:
  // Returns the fields of a job's record that decide who may see and change the job. Returns an error if there is no
  // such job.
  using FindJob = std::function<absl::StatusOr<JobFacts>(const std::string& job)>;

  // All objects that the pointers refer to must outlive the guard.
  struct Options {
    const Peers* peers = nullptr;
    const TokenStore* tokens = nullptr;
    FindJob find_job;                // May read the disk.
    bool trusts_loopback = false;    // Whether a peer on loopback without a token counts as an admin.
    const Grants* grants = nullptr;  // Roles of users on the Unix socket and of certificates.
    // The certificates that are trusted now. Null: the server accepts no certificate, neither over TLS nor from a
    // proxy.
    const Trust* trust = nullptr;
    bool listens_with_tls = false;  // Whether all peers that are not on a socket use TLS.
    CallLimits* limits = nullptr;   // Null: no limits.
    // Whether the server has memory for calls that use much (CheckMemoryFor). Null: always.
    std::function<bool()> has_memory;
    IdentityProvider* provider = nullptr;  // Null: JWTs count as unknown tokens.
  };

  explicit Guard(Options options)
      : options_(std::move(options)), credentials_(options_.tokens, options_.grants, options_.provider) {}

  // Checks whether the caller may call the method. Returns OK, UNAUTHENTICATED or PERMISSION_DENIED. `method` is the
  // full name, "ampd.v1.JobService/CreateJob".
  absl::Status Check(const grpc::ServerContextBase& context, std::string_view method) const;

  // Does the checks of Check, and returns the identity that passed them.
  absl::StatusOr<Identity> CallerOf(const grpc::ServerContextBase& context, std::string_view method) const;

  // Does the checks of Check, and returns the tenants in which the caller may call the method (TenantsForCall).
  absl::StatusOr<Tenants> TenantsFor(const grpc::ServerContextBase& context, std::string_view method) const;

  // Does the checks of Check for a call that begins, and counts the call for the limits of its caller.
  // RESOURCE_EXHAUSTED if the caller has made too many calls.
  absl::Status Admit(const grpc::ServerContextBase& context, std::string_view method) const;
  // Does the checks of Admit for a call that opens a stream. The stream counts until the slot is destroyed.
  absl::StatusOr<CallLimits::Slot> AdmitStream(const grpc::ServerContextBase& context, std::string_view method) const;

  // Whether the peer may call the method for every job; CheckJob is then not needed. REQUIRES: Check returned OK.
  bool MayUseAllJobs(const grpc::ServerContextBase& context, std::string_view method) const;
  // Returns OK if the peer may call the method for the job. NOT_FOUND if there is no such job, or the peer may not see
  // it. May read the disk. REQUIRES: Check returned OK.
  absl::Status CheckJob(const grpc::ServerContextBase& context, std::string_view method, const std::string& job) const;
  // Does the checks of CheckJob for an identity and the fields of a job's record.
  static absl::Status CheckJob(const Identity& identity, std::string_view method, const std::string& job,
                               const JobFacts& facts);

  // Returns the peer as logs show it: its identity, such as "user:alice". If the peer is not on the socket, its address
  // follows: "token:ci at ipv4:127.0.0.1:40000".
  std::string PeerText(const grpc::ServerContextBase& context) const;
  // Returns the address of the caller, from gRPC or from the proxy; "socket" for a caller on the Unix socket.
  std::string AddressOf(const grpc::ServerContextBase& context) const;
  // Returns the peer's identity, which may have no roles. UNAUTHENTICATED if the call has a token that is not valid, or
  // if its certificate is no longer trusted; PERMISSION_DENIED if the peer is on another host without TLS; UNAVAILABLE
  // if the keys for a JWT are being fetched.
  absl::StatusOr<Identity> IdentityOf(const grpc::ServerContextBase& context) const;
  // Returns the name in IdentityOf. If the call has a token that is not valid, returns the name that belongs to the
  // connection, which shows who tried the token. Empty if there is no name.
  std::string NameOf(const grpc::ServerContextBase& context) const;
  // Returns the token of the call, if this server issued it. UNAUTHENTICATED if the token is not valid, NOT_FOUND if
  // the call has no token or a JWT.
  absl::StatusOr<v1::Token> TokenOf(const grpc::ServerContextBase& context) const;

 private:
  // Returns the identity of the connection; ignores tokens.
  absl::StatusOr<Identity> IdentityOfConnection(const grpc::ServerContextBase& context) const;
  // Returns the identity of a peer on the Unix socket, with its present roles.
  Identity IdentityOnSocket(const Peer& peer) const;
  absl::StatusOr<Identity> IdentityOfCertificate(const std::string& pem) const;
  absl::StatusOr<Identity> IdentityBehindProxy(const grpc::ServerContextBase& context) const;

  const Options options_;
  const Credentials credentials_;
};

// Whether gRPC's name of the peer is a loopback address.
bool IsLoopbackPeer(std::string_view peer);

}  // namespace ampd::server
