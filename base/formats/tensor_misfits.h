#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ampd {

// Why tensors given by name do not fit a model: the names for each kind of mismatch, with details. Thread-compatible.
struct TensorMisfits {
  std::vector<std::string> missing;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> extra;

  bool empty() const { return missing.empty() && shapes.empty() && dtypes.empty() && extra.empty(); }
  void AddShape(const std::string& name, const std::vector<int64_t>& given, const std::vector<int64_t>& wanted);
  // One line with the number and the first names of each kind, and the field that excludes tensors. REQUIRES: not
  // empty().
  std::string Describe() const;
};

// "a, b, c and 7 more".
std::string FirstNames(const std::vector<std::string>& names);

}  // namespace ampd
