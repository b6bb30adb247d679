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
#include "server/rpc/call_limits.h"
#include "server/rpc/credentials.h"
#include "server/rpc/peers.h"
#include "server/tokens/token_store.h"

namespace grpc {
class ServerContextBase;
}

namespace ampd::server {

// The access check before every call: who is the peer, and may it call this method? If the call has a token, the token
// alone decides: one of this server, or a JWT of the identity provider. Otherwise a peer on the Unix socket has the
// identity that Peers knows, and a peer with TLS that of its certificate. A peer on loopback without TLS has none: it
// may be any local user, so it needs a token unless the server lets all local users do everything. Peers on other hosts
// without TLS are refused.
//
// A proxy on a socket of its own passes on the calls of others: the metadata x-ampd-client-cert has the certificate
// that the caller showed it (DER in base64), and x-forwarded-for the caller's address. The proxy removes both from what
// callers send. Thread-safe.
class Guard {
 public:
  // Returns what a job's record says about who may see and change it; an error if there is no such job.
  using FindJob = std::function<absl::StatusOr<JobFacts>(const std::string& job)>;

  // What is pointed to outlives the guard.
  struct Options {
    const Peers* peers = nullptr;
    const TokenStore* tokens = nullptr;
    FindJob find_job;                // May read the disk.
    bool trusts_loopback = false;    // Whether a peer on loopback without a token is an admin.
    const Grants* grants = nullptr;  // Roles of the users on the Unix socket and of the holders of certificates.
    // Which certificates are trusted now; null: the server takes none, neither over TLS nor from a proxy.
    const Trust* trust = nullptr;
    bool listens_with_tls = false;  // Whether every peer that is not on a socket came over TLS.
    CallLimits* limits = nullptr;   // Null: none.
    // Whether calls may begin that take much memory (CheckMemoryFor); null: always.
    std::function<bool()> has_memory;
    IdentityProvider* provider = nullptr;  // Null: JWTs are tokens that nobody knows.
  };

  explicit Guard(Options options)
      : options_(std::move(options)), credentials_(options_.tokens, options_.grants, options_.provider) {}

  // OK, or UNAUTHENTICATED or PERMISSION_DENIED. `method` is the full name, "ampd.v1.JobService/CreateJob".
  absl::Status Check(const grpc::ServerContextBase& context, std::string_view method) const;

  // Check for a call that begins, which counts for the limits of its caller. RESOURCE_EXHAUSTED if it is too many.
  absl::Status Admit(const grpc::ServerContextBase& context, std::string_view method) const;
  // The same for a call that opens a stream; the stream counts until the slot is destroyed.
  absl::StatusOr<CallLimits::Slot> AdmitStream(const grpc::ServerContextBase& context, std::string_view method) const;

  // Whether the peer may call the method for every job, so that CheckJob need not be asked. REQUIRES: Check returned
  // OK.
  bool MayUseAllJobs(const grpc::ServerContextBase& context, std::string_view method) const;
  // OK if the peer may call the method for the job; NOT_FOUND if there is none that it may see. May read the disk.
  // REQUIRES: Check returned OK.
  absl::Status CheckJob(const grpc::ServerContextBase& context, std::string_view method, const std::string& job) const;
  // The same for an identity and for what the job's record says.
  static absl::Status CheckJob(const Identity& identity, std::string_view method, const std::string& job,
                               const JobFacts& facts);

  // The peer as logs show it: its identity, "user:alice", with its address if it did not come over the socket:
  // "token:ci at ipv4:127.0.0.1:40000".
  std::string PeerText(const grpc::ServerContextBase& context) const;
  // Where the call came from, as gRPC or the proxy say it; "socket" for a caller on the Unix socket.
  std::string AddressOf(const grpc::ServerContextBase& context) const;
  // The peer's identity, which may have no roles. UNAUTHENTICATED if the call has a token that is not valid, or if its
  // certificate is not trusted any more; PERMISSION_DENIED if the peer is on another host without TLS; UNAVAILABLE if
  // the keys for a JWT are being fetched.
  absl::StatusOr<Identity> IdentityOf(const grpc::ServerContextBase& context) const;
  // The name of that identity, or the one of the connection if the call has a token that is not valid: who tried it.
  // Empty if neither has a name.
  std::string NameOf(const grpc::ServerContextBase& context) const;
  // The call's token of this server; UNAUTHENTICATED if it is not valid, NOT_FOUND if the call has none.
  absl::StatusOr<v1::Token> TokenOf(const grpc::ServerContextBase& context) const;

 private:
  // The identity that the connection alone gives.
  absl::StatusOr<Identity> IdentityOfConnection(const grpc::ServerContextBase& context) const;
  // The identity of a peer on the Unix socket, with the roles that it has now.
  Identity IdentityOnSocket(const Peer& peer) const;
  absl::StatusOr<Identity> IdentityOfCertificate(const std::string& pem) const;
  absl::StatusOr<Identity> IdentityBehindProxy(const grpc::ServerContextBase& context) const;

  const Options options_;
  const Credentials credentials_;
};

// Returns true for the peer names that gRPC gives to loopback addresses.
bool IsLoopbackPeer(std::string_view peer);

}  // namespace ampd::server
