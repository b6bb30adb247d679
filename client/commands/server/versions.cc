#include "client/commands/server/versions.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/version.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

// Orders versions by their numbers, the newest first. Texts that are not versions come last.
struct NewestFirst {
  bool operator()(const std::string& one, const std::string& other) const {
    const auto first = ParseVersion(one), second = ParseVersion(other);
    return first != second ? first > second : one > other;
  }
};

constexpr size_t kMaxNames = 8;  // The most names in one line.

// Returns the first kMaxNames names, and how many more there are.
std::string Listed(const std::vector<std::string>& names) {
  const size_t num_listed = std::min(names.size(), kMaxNames);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(num_listed), ", ");
  return num_listed == names.size() ? text : absl::StrCat(text, " and ", names.size() - num_listed, " more");
}

// Returns the names of the workers that are not lost, by their versions.
std::map<std::string, std::vector<std::string>, NewestFirst> ByVersion(const std::vector<v1::Worker>& workers) {
  std::map<std::string, std::vector<std::string>, NewestFirst> names;
  for (const v1::Worker& worker : workers) {
    if (worker.state() != v1::Worker::LOST && !worker.version().empty()) {
      names[worker.version()].push_back(Printable(worker.name()));
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> VersionWarnings(const std::string& server_version, const std::vector<v1::Worker>& workers) {
  std::vector<std::string> warnings;
  if (server_version.empty()) {
    return warnings;
  }
  const std::string server = Printable(server_version);
  if (!WorkTogether(Version(), server_version)) {
    warnings.push_back(absl::StrCat("ampctl ", Version(), " is more than one minor version away from the server's ",
                                    server, "; use an ampctl of the server's version"));
  }
  for (const auto& [version, names] : ByVersion(workers)) {
    if (!WorkTogether(version, server_version)) {
      warnings.push_back(absl::StrCat(Listed(names), names.size() == 1 ? " has" : " have", " ampd ", Printable(version),
                                      ", more than one minor version away from the server's ", server, "; upgrade the ",
                                      names.size() == 1 ? "worker" : "workers", " or the server, whichever is older"));
    }
  }
  return warnings;
}

std::vector<std::string> WorkerVersionLines(const std::vector<v1::Worker>& workers) {
  std::vector<std::string> lines;
  for (const auto& [version, names] : ByVersion(workers)) {
    lines.push_back(absl::StrCat("ampd-worker ", Printable(version), ": ", Listed(names)));
  }
  return lines;
}

}  // namespace ampd::client
