#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ampd {

// The mismatches between tensors that were given by name and the tensors that a model needs. Each list holds one kind
// of mismatch, with the tensors' names and details. Thread-compatible.
struct TensorMisfits {
  std::vector<std::string> missing;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::vector<std::string> extra;

  bool empty() const { return missing.empty() && shapes.empty() && dtypes.empty() && extra.empty(); }
  void AddShape(const std::string& name, const std::vector<int64_t>& given, const std::vector<int64_t>& wanted);
  // One line for an error message: the number and the first names of each kind of mismatch, and the job field
  // (model.initialize_anew) that excludes tensors from the check. REQUIRES: not empty().
  std::string Describe() const;
};

// The first three names and the number of others: "a, b, c and 7 more".
std::string FirstNames(const std::vector<std::string>& names);

}  // namespace ampd
