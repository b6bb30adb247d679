#include "base/api/worker_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

constexpr size_t kMaxBytes = 253;
constexpr size_t kMaxShown = 80;

bool IsInside(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.'; }

bool IsEnd(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

}  // namespace

absl::Status CheckWorkerName(const std::string& name) {
  if (name.empty()) {
    return absl::InvalidArgumentError("is empty; a worker needs a name");
  }
  if (name.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", name.size(), " bytes; at most ", kMaxBytes));
  }
  if (!std::all_of(name.begin(), name.end(), IsInside) || !IsEnd(name.front()) || !IsEnd(name.back())) {
    return absl::InvalidArgumentError(
        absl::StrCat("is \"", absl::CHexEscape(name.substr(0, kMaxShown)),
                     "\"; a worker's name has letters, digits, '-', '_' and '.', and begins and ends with a letter or "
                     "digit"));
  }
  return absl::OkStatus();
}

}  // namespace ampd
