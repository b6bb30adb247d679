#include "worker/executor/op_registry.h"

#include <cassert>
#include <utility>

namespace ampd::executor {

void OpRegistry::Register(std::string_view name, BoxedOp op) {
  assert(name.starts_with("ampd."));
  [[maybe_unused]] const bool added = ops_.emplace(name, std::move(op)).second;
  assert(added);
}

const BoxedOp* OpRegistry::Find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

}  // namespace ampd::executor
