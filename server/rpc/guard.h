#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/identity.h"
#include "server/rpc/peers.h"

namespace grpc {
class ServerContextBase;
}

namespace ampd::server {

// The access check before every call: who is the peer, and may it call this method? A peer on the Unix socket has the
// identity that Peers knows. A peer on loopback has none: it is an admin without a name if the server serves loopback
// at all, because it may be any local user. Peers on other hosts are refused. Thread-safe.
class Guard {
 public:
  // Returns the owner of a job; an error if there is no such job.
  using OwnerOf = std::function<absl::StatusOr<std::string>(const std::string& job)>;

  // `peers` outlives the guard.
  Guard(const Peers* peers, OwnerOf owner_of) : peers_(peers), owner_of_(std::move(owner_of)) {}

  // OK, or UNAUTHENTICATED or PERMISSION_DENIED. `method` is the full name, "ampd.v1.JobService/CreateJob".
  absl::Status Check(const grpc::ServerContextBase& context, std::string_view method) const;

  // Whether the method changes the job that its request names, so that CheckJob has to be asked too.
  static bool ChangesJob(std::string_view method);
  // Whether the peer may change every job, so that CheckJob need not be asked. REQUIRES: Check returned OK.
  bool MayChangeAllJobs(const grpc::ServerContextBase& context) const;
  // OK if the peer may change the job; NOT_FOUND if there is none. May read the disk. REQUIRES: Check returned OK.
  absl::Status CheckJob(const grpc::ServerContextBase& context, const std::string& job) const;

  // The peer as logs show it: its identity on the socket, "user:alice", or its address.
  std::string PeerText(const grpc::ServerContextBase& context) const;
  // The peer's identity; nothing for a peer that is refused in any case.
  std::optional<Identity> IdentityOf(const grpc::ServerContextBase& context) const;

 private:
  const Peers* const peers_;
  const OwnerOf owner_of_;
};

// Returns true for the peer names that gRPC gives to loopback addresses and Unix sockets.
bool IsLoopbackPeer(std::string_view peer);

}  // namespace ampd::server
