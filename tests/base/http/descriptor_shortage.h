#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/io/file.h"

namespace ampd {

// While an object of this class exists, this process can open only `left` more file descriptors. Single-threaded.
class DescriptorShortage {
 public:
  explicit DescriptorShortage(size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {256, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (UniqueFd one(dup(0)); one.ok(); one = UniqueFd(dup(0))) {
      taken_.push_back(std::move(one));
    }
    taken_.resize(taken_.size() - left);
  }
  ~DescriptorShortage() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorShortage(const DescriptorShortage&) = delete;
  DescriptorShortage& operator=(const DescriptorShortage&) = delete;

 private:
  rlimit before_ = {};
  std::vector<UniqueFd> taken_;
};

}  // namespace ampd
