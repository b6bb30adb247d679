#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::server {

// Tracks which workers are past their lease. For the server, a lease begins when the worker's report arrives. For the
// worker it begins when the worker sends the report, which is earlier. The margin covers the difference in speed
// between the two clocks. After a restart of the server every lease starts over, because the previous server process
// may have renewed it. Time is an argument: CLOCK_BOOTTIME. Thread-compatible.
class Liveness {
 public:
  Liveness(absl::Duration lease, absl::Duration margin) : allowance_(lease + margin) {}

  // Restarts the worker's lease at `now`.
  void Renew(const std::string& worker, absl::Duration now);
  // Starts to watch the worker. If it is already watched, its lease is unchanged.
  void Watch(const std::string& worker, absl::Duration now) { last_renewal_.emplace(worker, now); }
  void Forget(const std::string& worker) { last_renewal_.erase(worker); }

  // Returns the workers whose lease and margin had run out by `now`, sorted by name.
  std::vector<std::string> Silent(absl::Duration now) const;

 private:
  const absl::Duration allowance_;
  std::map<std::string, absl::Duration> last_renewal_;
};

}  // namespace ampd::server
