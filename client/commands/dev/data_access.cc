#include "client/commands/dev/data_access.h"

#include <grp.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ampd::client {
namespace {

namespace fs = std::filesystem;

constexpr char kSystemDatasets[] = "/usr/share/datasets";

}  // namespace

std::vector<std::string> DataRoots(const std::vector<std::string>& given) {
  std::map<std::string, std::string> roots;
  std::error_code error;
  for (fs::directory_iterator entry(kSystemDatasets, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    if (entry->is_directory(gone)) {
      roots[entry->path().filename().string()] = entry->path().string();
    }
  }
  for (const std::string& root : given) {
    const std::vector<std::string> parts = absl::StrSplit(root, absl::MaxSplits('=', 1));
    std::error_code missing;
    roots[parts[0]] = parts.size() == 2 ? fs::absolute(parts[1], missing).string() : "";
  }
  std::vector<std::string> lines;
  for (const auto& [name, path] : roots) {
    lines.push_back(absl::StrCat(name, "=", path));
  }
  return lines;
}

std::string CheckDataRoot(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return absl::StrCat("'", text, "' is not NAME=PATH");
  }
  const std::string path = text.substr(equals + 1);
  if (path.empty()) {
    return absl::StrCat("'", text, "' has no path; write ", text, "PATH");
  }
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  return fs::is_directory(there)
             ? std::string()
             : absl::StrCat("'", path, "' ", fs::exists(there) ? "is not a folder" : "does not exist");
}

absl::Status CheckDataRootNames(const std::vector<std::string>& given) {
  std::map<std::string, std::string> roots;
  for (const std::string& root : given) {
    const std::vector<std::string> parts = absl::StrSplit(root, absl::MaxSplits('=', 1));
    const auto [earlier, is_new] = roots.emplace(parts[0], parts.back());
    if (!is_new && earlier->second != parts.back()) {
      return absl::InvalidArgumentError(absl::StrCat("--data-root: the name '", parts[0], "' is given to two folders, ",
                                                     earlier->second, " and ", parts.back(),
                                                     "; give each folder its own name"));
    }
  }
  return absl::OkStatus();
}

std::string CheckGroup(const std::string& text) {
  constexpr size_t kMostGroupBytes = size_t{1} << 16;
  std::string buffer(kMostGroupBytes, '\0');
  struct group found = {};
  struct group* result = nullptr;
  gid_t number = 0;
  const bool is_known =
      getgrnam_r(text.c_str(), &found, buffer.data(), buffer.size(), &result) == 0 && result != nullptr;
  return is_known || absl::SimpleAtoi(text, &number) ? std::string()
                                                     : absl::StrCat("this machine has no group '", text, "'");
}

}  // namespace ampd::client
