#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/io/file.h"
#include "base/io/listen_address.h"

// Probes: connections that a process makes to its own listeners, to find out whether they still accept.
namespace ampd {

// Tells a listener which connection is the probe, so that the listener closes it at once and does not treat it as a
// client. The probe is recognised by the address of its socket. The kernel gives no other socket this address while the
// probe's socket is open. Thread-safe.
class ProbePeer {
 public:
  // Sets the address of the probe's socket; empty: there is no probe now.
  void Expect(std::string address) {
    absl::MutexLock lock(&mutex_);
    address_ = std::move(address);
    was_seen_ = false;
  }
  // Whether the other end of this connection is the probe.
  bool IsProbe(int connection);
  // Whether IsProbe has found the probe that is expected now.
  bool WasSeen() const {
    absl::MutexLock lock(&mutex_);
    return was_seen_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);  // The bytes of a sockaddr.
  bool was_seen_ ABSL_GUARDED_BY(mutex_) = false;
};

// The parts of a listener that a probe uses.
struct ProbedListener {
  ProbePeer* peer = nullptr;
  // The number of connections, probes included, that the listener has accepted so far.
  std::function<int64_t()> num_accepts;
};

enum class ProbeResult {
  kAccepted,       // The listener accepted the probe.
  kOtherAccepted,  // The listener accepted other connections, but not the probe.
  kNotAccepted,    // The listener accepted nothing within the time.
  kUnknown,        // The probe could not be made, for example because no descriptor is left.
};

// Connects to the address of a listener of this process, and waits until the listener has accepted a connection. For a
// listener on all addresses, the probe goes to loopback.
ProbeResult ProbeAddress(const ListenAddress& address, const ProbedListener& listener, absl::Duration timeout);

// Connects `probe` to a listener of this process, and waits until the listener has accepted a connection. `probe` is a
// non-blocking socket of any kind that is bound to an address of its own, and `target` is the address of the listener.
ProbeResult ProbeFrom(UniqueFd probe, const sockaddr* target, socklen_t target_size, const ProbedListener& listener,
                      absl::Duration timeout);

}  // namespace ampd
