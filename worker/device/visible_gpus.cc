#include "worker/device/visible_gpus.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace ampd::device {
namespace {

constexpr char kUuidPrefix[] = "GPU-";
constexpr size_t kMaxShownBytes = 200;

// The number of the GPU that the entry names; nullopt if the entry is invalid.
std::optional<size_t> GpuNamed(const std::string& entry, const std::vector<std::string>& uuids) {
  if (absl::StartsWith(entry, kUuidPrefix)) {
    const auto is_named = [&entry](const std::string& uuid) { return absl::StartsWith(uuid, entry); };
    const auto found = std::find_if(uuids.begin(), uuids.end(), is_named);
    return std::count_if(uuids.begin(), uuids.end(), is_named) == 1
               ? std::optional(static_cast<size_t>(found - uuids.begin()))
               : std::nullopt;
  }
  size_t number = 0;
  return absl::SimpleAtoi(entry, &number) && number < uuids.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<size_t>> VisibleGpus(const std::string& value, const std::vector<std::string>& uuids) {
  std::vector<size_t> visible;
  for (const absl::string_view part : absl::StrSplit(value, ',')) {
    const std::string entry(absl::StripAsciiWhitespace(part));
    if (absl::StartsWith(entry, "MIG-")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CUDA_VISIBLE_DEVICES is ", Shortened(OneLine(value), kMaxShownBytes),
          ", which names a part of a GPU (MIG), and ampd uses only whole GPUs: set it to the number or UUID of a GPU "
          "without MIG, or give --device cpu"));
    }
    const std::optional<size_t> number = GpuNamed(entry, uuids);
    if (!number.has_value() || std::find(visible.begin(), visible.end(), *number) != visible.end()) {
      break;
    }
    visible.push_back(*number);
  }
  return visible;
}

}  // namespace ampd::device
