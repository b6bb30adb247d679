#pragma once

#include <unistd.h>

#include <utility>

namespace ampd {

// Owns a file descriptor. Thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = other.Release();
    }
    return *this;
  }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  // Closes the descriptor.
  void Reset() {
    if (ok()) {
      close(Release());
    }
  }

 private:
  int fd_ = -1;
};

}  // namespace ampd
