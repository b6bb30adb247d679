#include "worker/agent/data_roots.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace ampd::agent {
namespace {

absl::Status BadRoot(const std::string& value, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("--data-root ", value, ": ", why));
}

absl::StatusOr<Tenants> TenantsIn(const std::string& value, const std::string& list) {
  std::set<std::string> names = absl::StrSplit(list, ',');
  for (const std::string& name : names) {
    if (!CheckTenantName("", name).ok()) {
      return BadRoot(value, absl::StrCat("'", name, "' is not the name of a tenant"));
    }
  }
  return Tenants(std::move(names));
}

}  // namespace

absl::StatusOr<DataRoots> ParseDataRoots(const std::vector<std::string>& values) {
  DataRoots roots;
  for (const std::string& value : values) {
    const std::vector<std::string> sides = absl::StrSplit(value, absl::MaxSplits('=', 1));
    const std::vector<std::string> names = absl::StrSplit(sides[0], absl::MaxSplits('@', 1));
    if (const std::optional<size_t> at = FirstInvalidUtf8(value); at.has_value()) {
      return BadRoot(OneLine(value), NotUtf8(value, *at) + "; give the data root a name and a path in UTF-8");
    }
    std::error_code error;
    if (sides.size() != 2 || names[0].empty() || !std::filesystem::is_directory(sides[1], error)) {
      return BadRoot(value, "must be name=path of an existing folder");
    }
    DataRoot root{.folder = std::filesystem::absolute(sides[1], error).string()};
    if (names.size() == 2) {
      AMPD_ASSIGN_OR_RETURN(root.tenants, TenantsIn(value, names[1]));
    }
    if (absl::StrContains(names[0], '/')) {
      return BadRoot(value, "a data root's name has no '/', which ends the name in a path: name/file");
    }
    if (const auto earlier = roots.find(names[0]); earlier != roots.end() && earlier->second.folder != root.folder) {
      return BadRoot(value, absl::StrCat("the name '", names[0], "' already stands for ", earlier->second.folder,
                                         "; give each folder its own name"));
    }
    roots[names[0]] = std::move(root);
  }
  return roots;
}

absl::StatusOr<std::vector<std::string>> ParseTenants(const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (!CheckTenantName("", value).ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--tenant ", value,
                                                     ": the name of a tenant has lower-case letters, digits and "
                                                     "hyphens, and begins with a letter"));
    }
  }
  return values;
}

}  // namespace ampd::agent
