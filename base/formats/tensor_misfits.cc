#include "base/formats/tensor_misfits.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd {

std::string FirstNames(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 3;
  const size_t count = std::min(names.size(), kMaxNames);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count));
  return absl::StrCat(absl::StrJoin(first, ", "),
                      names.size() > count ? absl::StrCat(" and ", names.size() - count, " more") : "");
}

void TensorMisfits::AddShape(const std::string& name, const std::vector<int64_t>& given,
                             const std::vector<int64_t>& wanted) {
  shapes.push_back(
      absl::StrCat(name, ": [", absl::StrJoin(given, ", "), "] instead of [", absl::StrJoin(wanted, ", "), "]"));
}

std::string TensorMisfits::Describe() const {
  const std::pair<const char*, const std::vector<std::string>*> kinds[] = {
      {"missing", &missing}, {"of another shape", &shapes}, {"of another dtype", &dtypes}, {"extra", &extra}};
  std::vector<std::string> parts;
  for (const auto& [kind, names] : kinds) {
    if (!names->empty()) {
      parts.push_back(absl::StrCat(names->size(), " ", kind, " (", FirstNames(*names), ")"));
    }
  }
  return absl::StrCat("the tensors are not the model's: ", absl::StrJoin(parts, ", "),
                      "; model.initialize_anew may name what is to begin anew");
}

}  // namespace ampd
