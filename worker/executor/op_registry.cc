#include "worker/executor/op_registry.h"

#include <cstdlib>
#include <iostream>
#include <utility>

namespace ampd::executor {

void OpRegistry::Register(std::string_view name, BoxedOp op) {
  if (!name.starts_with("ampd.") || !ops_.emplace(name, std::move(op)).second) {
    std::cerr << "op " << name << " is not of namespace ampd or is registered twice\n";
    std::abort();
  }
}

const BoxedOp* OpRegistry::Find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

}  // namespace ampd::executor
