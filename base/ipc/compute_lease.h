#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/file.h"

namespace ampd {

// The moment until which a trainer may begin steps, in memory that its shim writes and the trainer reads. The shim
// stops a trainer when its lease runs out, but a busy machine may wake the shim late; a trainer that looks here first
// begins no step after its deadline, however late that is.
//
//   1. shim     Create(); after the fork, before the exec: PassOn()
//   2. trainer  Inherit(), which takes the descriptor out of the environment
//   3. shim     Extend(deadline) with every renewal
//   4. trainer  AwaitValid() before every step
//
// Between the look and the step's first op the kernel may still take the processor away: for that, and for what a
// device still computes, the server waits a margin beyond the lease. Thread-safe, but for moves.
class ComputeLease {
 public:
  // Nobody keeps a lease: always valid, as in a trainer that is run without a shim.
  ComputeLease() = default;
  ~ComputeLease();
  ComputeLease(ComputeLease&& other) noexcept;
  ComputeLease& operator=(ComputeLease&& other) noexcept;

  // A lease that has not begun: not valid until Extend. Whom it is passed on to can't write it.
  static absl::StatusOr<ComputeLease> Create();

  // The one that the parent passed on, once; one that nobody keeps when there was none. INVALID_ARGUMENT when what the
  // environment names is no lease.
  static absl::StatusOr<ComputeLease> Inherit();

  // Leaves the lease to the program that this process becomes. REQUIRES: from Create(), and one thread.
  void PassOn() const;

  // `deadline` on CLOCK_BOOTTIME. It only grows: an earlier one changes nothing. REQUIRES: from Create().
  void Extend(absl::Duration deadline);

  // Unset when nobody keeps the lease; zero when it has not begun.
  std::optional<absl::Duration> deadline() const;

  // Waits, without a limit, until the lease is valid: the moment, on `clock`'s SinceBoot, at which it was.
  absl::Duration AwaitValid(const Clock& clock) const;

 private:
  struct Word {
    std::atomic<int64_t> deadline_nanos;
    std::atomic<uint32_t> num_extensions;  // a futex: who waits is woken by each
  };

  ComputeLease(UniqueFd fd, Word* word) : fd_(std::move(fd)), word_(word) {}
  static absl::StatusOr<ComputeLease> Map(UniqueFd fd, int protection);

  UniqueFd fd_;
  Word* word_ = nullptr;
};

}  // namespace ampd
