#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ampd {

// Why tensors that were given by name can't be a model's: for each kind the names, with what is wrong about each.
// Thread-compatible.
struct TensorMisfits {
  std::vector<std::string> missing;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> extra;

  bool empty() const { return missing.empty() && shapes.empty() && dtypes.empty() && extra.empty(); }
  void AddShape(const std::string& name, const std::vector<int64_t>& given, const std::vector<int64_t>& wanted);
  // One line with the number and the first names of each kind, and the field that leaves tensors out. REQUIRES: there
  // are some.
  std::string Describe() const;
};

// "a, b, c and 7 more".
std::string FirstNames(const std::vector<std::string>& names);

}  // namespace ampd
