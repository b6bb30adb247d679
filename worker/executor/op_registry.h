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

// An op of ours, called as LibTorch calls a boxed kernel: the stack holds the node's arguments in the node's order
// (tensors, None, numbers, lists; a dtype as an int64 holding the at::ScalarType), and the op replaces them by its
// results. An op that trains records itself with autograd (torch::autograd::Function).
using BoxedOp = std::function<void(std::vector<c10::IValue>& stack)>;

// The ops whose names begin with "ampd.", by name ("ampd.linear_wide"). Filled by the rooms that own the ops, once,
// before executors are made. Thread-compatible.
class OpRegistry {
 public:
  // REQUIRES: the name begins with "ampd." and is not registered yet; ends the process otherwise.
  void Register(std::string_view name, BoxedOp op);
  // Null when there is none.
  const BoxedOp* Find(std::string_view name) const;

 private:
  std::map<std::string, BoxedOp, std::less<>> ops_;
};

}  // namespace ampd::executor
