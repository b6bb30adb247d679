#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::server {

// Which workers are past their lease. A worker counts its lease from when it sent a report, the server from when it
// took it in, which is later; the margin covers the difference in the rates of two clocks. After a restart of the
// server every lease counts anew, because an earlier life may have renewed it. Time is an argument: CLOCK_BOOTTIME.
// Thread-compatible.
class Liveness {
 public:
  Liveness(absl::Duration lease, absl::Duration margin) : allowance_(lease + margin) {}

  // The worker's lease counts from `now` on.
  void Renew(const std::string& worker, absl::Duration now);
  // Starts to watch the worker; a lease already counted stays.
  void Watch(const std::string& worker, absl::Duration now) { last_renewal_.emplace(worker, now); }
  void Forget(const std::string& worker) { last_renewal_.erase(worker); }

  // Workers whose lease and margin ran out by `now`, by name.
  std::vector<std::string> Silent(absl::Duration now) const;

 private:
  const absl::Duration allowance_;
  std::map<std::string, absl::Duration> last_renewal_;
};

}  // namespace ampd::server
