#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/random.h"
#include "base/simulated_clock.h"

namespace ampd::sim {

// A bug that the simulation plants, to check that the invariants detect the bug. The simulation tampers with messages,
// leases, devices and the disk, so the tested code needs no hooks for bugs.
enum class Bug {
  NONE,
  LEASE_IGNORED,         // The shim does not stop the trainer when its lease runs out.
  LEASE_FROM_RECEIPT,    // The agent counts a lease from its newest report, not from the report that was answered.
  REFLECTED_TOO_NEW,     // Reports claim to reflect directives that have not arrived.
  ACKNOWLEDGED_AT_ONCE,  // Outcomes are acknowledged before they are on disk.
  APPEND_LOST,           // The disk reports a write as done before it is.
  TOKEN_FORGED,          // An ended attempt reports under the key of its successor.
  WRONG_DEVICE,          // A trainer always runs on the worker's first device.
};
inline constexpr Bug kAllBugs[] = {
    Bug::LEASE_IGNORED, Bug::LEASE_FROM_RECEIPT, Bug::REFLECTED_TOO_NEW, Bug::ACKNOWLEDGED_AT_ONCE,
    Bug::APPEND_LOST,   Bug::TOKEN_FORGED,       Bug::WRONG_DEVICE,
};
const char* NameOf(Bug bug);

// The state that all parts of one simulation share: virtual time, pending events, random numbers, and the first
// violation. Single-threaded.
class World {
 public:
  World(uint64_t seed, Bug bug) : bug_(bug), random_(seed) {}

  Bug bug() const { return bug_; }
  SimulatedClock& clock() { return clock_; }
  SeededRandom& random() { return random_; }
  absl::Duration now() const { return clock_.SinceBoot(); }

  // Schedules an event at the present time plus `delay`. Events at the same time run in the order in which they were
  // scheduled.
  void After(absl::Duration delay, std::function<void()> event);
  // Advances the clock to the next event and runs it. Returns false if no event is scheduled.
  bool RunNext();

  bool Chance(int in_thousand) { return static_cast<int>(random_.Next() % 1000) < in_thousand; }
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(most - least + 1));
  }
  absl::Duration Millis(int64_t least, int64_t most) { return absl::Milliseconds(Between(least, most)); }

  // Whether the simulation injects faults.
  bool faults = true;

  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }
  // Adds the text to the hash of the trace. Two runs with the same seed must have the same hash.
  void Trace(const std::string& what);
  uint64_t hash() const { return hash_; }
  int64_t num_events() const { return num_events_; }
  void CountFault() { ++num_faults_; }
  int64_t num_faults() const { return num_faults_; }

 private:
  const Bug bug_;
  SimulatedClock clock_;
  SeededRandom random_;
  std::map<std::pair<absl::Duration, int64_t>, std::function<void()>> events_;
  int64_t next_event_ = 0;
  int64_t num_events_ = 0;
  int64_t num_faults_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::string violation_;
};

}  // namespace ampd::sim
