#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace grpc {
class ServerContextBase;
}

namespace ampd::server {

// The access check before every call: may this peer call this method? Every local user may. Peers on other hosts are
// refused, whatever address the server listens on. Thread-safe.
class Guard {
 public:
  // OK, or PERMISSION_DENIED. `method` is the full name, "ampd.v1.JobService/CreateJob".
  absl::Status Check(const grpc::ServerContextBase& context, std::string_view method) const;
};

// Returns true for the peer names that gRPC gives to loopback addresses and Unix sockets.
bool IsLoopbackPeer(std::string_view peer);

}  // namespace ampd::server
