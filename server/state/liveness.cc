#include "server/state/liveness.h"

#include <algorithm>

namespace ampd::server {

void Liveness::Renew(const std::string& worker, absl::Duration now) {
  absl::Duration& last = last_renewal_[worker];
  last = std::max(last, now);
}

std::vector<std::string> Liveness::Silent(absl::Duration now) const {
  std::vector<std::string> silent;
  for (const auto& [worker, last] : last_renewal_) {
    if (now - last > allowance_) {
      silent.push_back(worker);
    }
  }
  return silent;
}

}  // namespace ampd::server
