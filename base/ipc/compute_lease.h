#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/file.h"

namespace ampd {

// The deadline until which a trainer may begin steps. It lies in shared memory that the shim (the trainer's supervising
// parent process) writes and the trainer reads. The shim stops the trainer when the lease expires, but on a busy
// machine the shim may wake late. The trainer also checks the deadline before each step, so it begins no step after the
// deadline, however late the shim is.
//
//   1. shim     Create(); after the fork, before the exec: PassOn()
//   2. trainer  Inherit(), which takes the descriptor out of the environment
//   3. shim     Extend(deadline) with every renewal
//   4. trainer  AwaitValid() before every step
//
// Two gaps remain: the kernel may preempt the trainer between the check and the step's first op, and a device may still
// compute after the deadline. For these the server waits a margin beyond the lease. Thread-safe, except for moves.
class ComputeLease {
 public:
  // An object without a lease: always valid, for a trainer that runs without a shim.
  ComputeLease() = default;
  ~ComputeLease();
  ComputeLease(ComputeLease&& other) noexcept;
  ComputeLease& operator=(ComputeLease&& other) noexcept;

  // Makes a lease that is not valid until the first Extend. A process that inherits the lease can read it but not write
  // it.
  static absl::StatusOr<ComputeLease> Create();

  // Takes over the lease that the parent process passed on. REQUIRES: called once. Returns a default-constructed
  // ComputeLease if the parent passed none. INVALID_ARGUMENT if the descriptor in the environment is not a lease.
  static absl::StatusOr<ComputeLease> Inherit();

  // Passes the lease to the program that this process will exec. REQUIRES: the lease is from Create(), and the process
  // has one thread.
  void PassOn() const;

  // Sets the deadline, on CLOCK_BOOTTIME. The deadline only grows: an earlier one changes nothing. REQUIRES: the lease
  // is from Create().
  void Extend(absl::Duration deadline);

  // The deadline, on CLOCK_BOOTTIME. Zero before the first Extend; unset for an object without a lease.
  std::optional<absl::Duration> deadline() const;

  // Waits, without a limit, until the lease is valid. Returns the time, by `clock`'s SinceBoot, at which it was found
  // valid.
  absl::Duration AwaitValid(const Clock& clock) const;

 private:
  struct Word {
    std::atomic<int64_t> deadline_nanos;
    std::atomic<uint32_t> num_extensions;  // A futex; every extension wakes the waiters.
  };

  ComputeLease(UniqueFd fd, Word* word) : fd_(std::move(fd)), word_(word) {}
  static absl::StatusOr<ComputeLease> Map(UniqueFd fd, int protection);

  UniqueFd fd_;
  Word* word_ = nullptr;
};

}  // namespace ampd
