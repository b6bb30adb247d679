#include "worker/shim/attempt_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ampd::shim {
namespace {

constexpr char kPrefix[] = "trainer.log.";

std::string SegmentPath(const std::string& folder, int64_t offset) {
  return absl::StrFormat("%s/%s%020d", folder, kPrefix, offset);
}

// Maps each segment's offset to its size in bytes.
std::map<int64_t, int64_t> ListSegments(const std::string& folder) {
  std::map<int64_t, int64_t> segments;
  DIR* open_folder = opendir(folder.c_str());
  if (open_folder == nullptr) {
    return segments;
  }
  while (const dirent* entry = readdir(open_folder)) {
    int64_t offset = 0;
    struct stat status = {};
    if (absl::StartsWith(entry->d_name, kPrefix) &&
        absl::SimpleAtoi(std::string(entry->d_name).substr(sizeof(kPrefix) - 1), &offset) &&
        stat(SegmentPath(folder, offset).c_str(), &status) == 0) {
      segments[offset] = status.st_size;
    }
  }
  closedir(open_folder);
  return segments;
}

// The offset of the segment that contains the first kept byte at or after `offset`; nullopt if no such byte was kept.
std::optional<int64_t> SegmentFor(const std::map<int64_t, int64_t>& segments, int64_t offset) {
  for (const auto& [begin, size] : segments) {
    if (begin + size > offset) {
      return begin;
    }
  }
  return std::nullopt;
}

}  // namespace

void AttemptLogWriter::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!segment_.ok() || end_ >= segment_end_) {
      if (!OpenSegment()) {
        end_ += static_cast<int64_t>(bytes.size());
        segment_.Reset();
        return;
      }
    }
    const std::string_view part = bytes.substr(0, segment_end_ - end_);
    if (!WriteAll(segment_.get(), part).ok()) {
      GiveUpSegment();  // the segment that was written in part ends here; the next one gets its own offset
    } else if (std::exchange(segment_is_new_, false)) {
      // Only now, because on a full disk the old segments would be deleted and no new one could be written.
      DropOldest();
    }
    end_ += static_cast<int64_t>(part.size());
    bytes.remove_prefix(part.size());
  }
}

bool AttemptLogWriter::OpenSegment() {
  segment_begin_ = end_;
  segment_ = UniqueFd(open(SegmentPath(folder_, end_).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  segment_end_ = end_ + limits_.segment_bytes;
  segment_is_new_ = true;
  return segment_.ok();
}

void AttemptLogWriter::GiveUpSegment() {
  struct stat status = {};
  if (fstat(segment_.get(), &status) == 0 && status.st_size == 0) {
    unlink(SegmentPath(folder_, segment_begin_).c_str());
  }
  segment_.Reset();
}

void AttemptLogWriter::DropOldest() {
  std::map<int64_t, int64_t> segments = ListSegments(folder_);
  while (static_cast<int>(segments.size()) > std::max(2, limits_.num_segments)) {
    const auto second = std::next(segments.begin());
    unlink(SegmentPath(folder_, second->first).c_str());
    segments.erase(second);
  }
}

absl::StatusOr<LogPart> ReadAttemptLog(const std::string& folder, int64_t offset, int64_t max_bytes) {
  const std::map<int64_t, int64_t> segments = ListSegments(folder);
  LogPart part;
  part.offset_bytes = offset;
  const std::optional<int64_t> begin = SegmentFor(segments, offset);
  if (!begin.has_value()) {
    return part;
  }
  UniqueFd segment(open(SegmentPath(folder, *begin).c_str(), O_RDONLY | O_CLOEXEC));
  if (!segment.ok()) {
    return errno == ENOENT ? absl::StatusOr<LogPart>(part) : ErrnoError(errno, "open a log segment");
  }
  part.offset_bytes = std::max(offset, *begin);
  part.dropped_bytes = part.offset_bytes - offset;
  part.content.resize(max_bytes);
  const ssize_t size = pread(segment.get(), part.content.data(), max_bytes, part.offset_bytes - *begin);
  if (size < 0) {
    return ErrnoError(errno, "read a log segment");
  }
  part.content.resize(size);
  return part;
}

}  // namespace ampd::shim
