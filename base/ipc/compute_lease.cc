#include "base/ipc/compute_lease.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr char kVariable[] = "AMPD_LEASE_FD";

// Waits on a futex that processes share, while `word` has the value `seen`. std::atomic's own waits work within one
// process only.
void Wait(const std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

void WakeAll(const std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

ComputeLease::~ComputeLease() {
  if (word_ != nullptr) {
    munmap(word_, sizeof(Word));
  }
}

ComputeLease::ComputeLease(ComputeLease&& other) noexcept
    : fd_(std::move(other.fd_)), word_(std::exchange(other.word_, nullptr)) {}

ComputeLease& ComputeLease::operator=(ComputeLease&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(word_, other.word_);
  return *this;
}

absl::StatusOr<ComputeLease> ComputeLease::Map(UniqueFd fd, int protection) {
  void* address = mmap(nullptr, sizeof(Word), protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return ErrnoError(errno, "map the lease");
  }
  static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  return ComputeLease(std::move(fd), static_cast<Word*>(address));
}

absl::StatusOr<ComputeLease> ComputeLease::Create() {
  UniqueFd fd(memfd_create("ampd-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.ok() || ftruncate(fd.get(), sizeof(Word)) != 0) {
    return ErrnoError(errno, "make memory for the lease");
  }
  AMPD_ASSIGN_OR_RETURN(ComputeLease lease, Map(std::move(fd), PROT_READ | PROT_WRITE));
  if (fcntl(lease.fd_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoError(errno, "seal the lease");
  }
  return lease;
}

absl::StatusOr<ComputeLease> ComputeLease::Inherit() {
  const char* value = std::getenv(kVariable);
  if (value == nullptr) {
    return ComputeLease();
  }
  const std::string text = value;
  unsetenv(kVariable);
  int number = -1;
  struct stat found = {};
  if (!absl::SimpleAtoi(text, &number) || fstat(number, &found) != 0 || found.st_size != sizeof(Word)) {
    return absl::InvalidArgumentError(absl::StrCat(kVariable, " is \"", text, "\", which is no descriptor of a lease"));
  }
  return Map(UniqueFd(number), PROT_READ);
}

void ComputeLease::PassOn() const {
  fcntl(fd_.get(), F_SETFD, 0);
  setenv(kVariable, absl::StrCat(fd_.get()).c_str(), /*replace=*/1);
}

void ComputeLease::Extend(absl::Duration deadline) {
  const int64_t nanos = absl::ToInt64Nanoseconds(deadline);
  if (nanos > word_->deadline_nanos) {
    word_->deadline_nanos = nanos;
    ++word_->num_extensions;
    WakeAll(word_->num_extensions);
  }
}

std::optional<absl::Duration> ComputeLease::deadline() const {
  return word_ == nullptr ? std::nullopt : std::optional(absl::Nanoseconds(word_->deadline_nanos.load()));
}

absl::Duration ComputeLease::AwaitValid(const Clock& clock) const {
  while (true) {
    // The number of extensions is read before the deadline, so that an extension between the two reads is not missed.
    const uint32_t seen = word_ == nullptr ? 0 : word_->num_extensions.load();
    const absl::Duration now = clock.SinceBoot();
    if (word_ == nullptr || now < *deadline()) {
      return now;
    }
    Wait(word_->num_extensions, seen);
  }
}

}  // namespace ampd
