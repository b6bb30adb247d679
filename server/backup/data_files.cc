#include "server/backup/data_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace ampd::server {

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file(gone) && !entry->is_symlink(gone)) {
      names.push_back(entry->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> AuditFiles(const std::string& data_dir) {
  std::vector<std::string> names;
  for (int number = 0;; ++number) {
    std::string name = number == 0 ? kAuditFile : absl::StrCat(kAuditFile, ".", number);
    if (access(absl::StrCat(data_dir, "/", name).c_str(), F_OK) != 0) {
      return names;
    }
    names.push_back(std::move(name));
  }
}

}  // namespace ampd::server
