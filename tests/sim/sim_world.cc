#include "tests/sim/sim_world.h"

#include "absl/strings/str_cat.h"

namespace ampd::sim {

const char* NameOf(Bug bug) {
  switch (bug) {
    case Bug::NONE:
      return "NONE";
    case Bug::LEASE_IGNORED:
      return "LEASE_IGNORED";
    case Bug::LEASE_FROM_RECEIPT:
      return "LEASE_FROM_RECEIPT";
    case Bug::REFLECTED_TOO_NEW:
      return "REFLECTED_TOO_NEW";
    case Bug::ACKNOWLEDGED_AT_ONCE:
      return "ACKNOWLEDGED_AT_ONCE";
    case Bug::APPEND_LOST:
      return "APPEND_LOST";
    case Bug::TOKEN_FORGED:
      return "TOKEN_FORGED";
    case Bug::WRONG_DEVICE:
      return "WRONG_DEVICE";
  }
  return "unknown";
}

void World::After(absl::Duration delay, std::function<void()> event) {
  events_.emplace(std::pair(now() + delay, next_event_++), std::move(event));
}

bool World::RunNext() {
  if (events_.empty()) {
    return false;
  }
  auto first = events_.extract(events_.begin());
  if (first.key().first > now()) {
    clock_.Advance(first.key().first - now());
  }
  ++num_events_;
  first.mapped()();
  return true;
}

void World::Violate(const std::string& what) {
  if (violation_.empty()) {
    violation_ = absl::StrCat("at ", absl::FormatDuration(now() - absl::Seconds(1000)), ": ", what);
  }
}

void World::Trace(const std::string& what) {
  for (const char c : absl::StrCat(what, "@", absl::ToInt64Nanoseconds(now()))) {
    hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;  // The FNV-1a hash.
  }
}

}  // namespace ampd::sim
