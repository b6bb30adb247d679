#include "server/rpc/peers.h"

#include <string>

#include "absl/strings/numbers.h"

namespace ampd::server {

std::optional<Identity> Peers::Find(std::string_view peer) const {
  constexpr std::string_view kPrefix = "fd:";
  int fd = -1;
  if (!peer.starts_with(kPrefix) || !absl::SimpleAtoi(std::string(peer.substr(kPrefix.size())), &fd)) {
    return std::nullopt;
  }
  const absl::MutexLock lock(&mutex_);
  const auto found = identities_.find(fd);
  return found == identities_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ampd::server
