#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace c10 {
struct IValue;
}  // namespace c10

namespace ampd::executor {

// An "ampd." op. Like LibTorch's boxed kernels, it takes its arguments from a stack and replaces them with its results.
// The stack holds the node's arguments in the node's order: tensors, None, numbers and lists; a dtype is an int64 that
// holds the at::ScalarType. An op with gradients records itself with autograd (torch::autograd::Function).
using BoxedOp = std::function<void(std::vector<c10::IValue>& stack)>;

// The ops whose names begin with "ampd.", by name ("ampd.linear_wide"). The folder that implements an op registers it
// once, before any Executor is created. Thread-compatible.
class OpRegistry {
 public:
  // Registers an op. REQUIRES: the name begins with "ampd." and is not registered yet; otherwise the process ends.
  void Register(std::string_view name, BoxedOp op);
  // Returns the op with this name, or null if there is none.
  const BoxedOp* Find(std::string_view name) const;

 private:
  std::map<std::string, BoxedOp, std::less<>> ops_;
};

}  // namespace ampd::executor
