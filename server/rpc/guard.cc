#include "server/rpc/guard.h"

#include <grpcpp/server_context.h>

#include <string>

#include "base/error.h"

namespace ampd::server {

bool IsLoopbackPeer(std::string_view peer) {
  // gRPC percent-encodes the brackets of IPv6 peers: "ipv6:%5B::1%5D:40000".
  for (std::string_view prefix : {"ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:", "unix:"}) {
    if (peer.substr(0, prefix.size()) == prefix) {
      return true;
    }
  }
  return false;
}

absl::Status Guard::Check(const grpc::ServerContextBase& context, std::string_view /*method*/) const {
  if (!IsLoopbackPeer(context.peer())) {
    return Error(absl::StatusCode::kPermissionDenied, "NOT_LOCAL",
                 "this server has no authentication and serves its own host only");
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
