#include "server/rpc/connections/peers.h"

#include <string>

#include "absl/strings/numbers.h"

namespace ampd::server {

std::optional<Peer> Peers::Find(std::string_view name) const {
  constexpr std::string_view kPrefix = "fd:";
  int fd = -1;
  if (!name.starts_with(kPrefix) || !absl::SimpleAtoi(std::string(name.substr(kPrefix.size())), &fd)) {
    return std::nullopt;
  }
  const absl::MutexLock lock(&mutex_);
  const auto found = peers_.find(fd);
  return found == peers_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ampd::server
