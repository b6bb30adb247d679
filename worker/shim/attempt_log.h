#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/io/file.h"

// The log of an attempt's processes: their output, stored in a spawn folder with a bounded size:
//
//   log    := segment*
//   segment := the file trainer.log.<offset>; <offset>, in 20 decimal digits, is the position of the segment's first
//              byte in the whole output
//
// The first segment and the newest ones are kept. The segments between them are deleted and leave a gap.
namespace ampd::shim {

// Writes the log of an attempt. If a write fails, its bytes are lost and leave a gap; the trainer is not affected. An
// old segment is deleted only after a new one was written, so a full disk does not cost what was written before.
// Single-threaded; owner: the shim's loop.
class AttemptLogWriter {
 public:
  struct Limits {
    int64_t segment_bytes = 256 << 10;
    int num_segments = 16;  // at least 2
  };
  AttemptLogWriter(std::string folder, Limits limits) : folder_(std::move(folder)), limits_(limits) {}

  void Append(std::string_view bytes);

 private:
  bool OpenSegment();
  // Closes the segment after a failed write, and deletes it if it is empty.
  void GiveUpSegment();
  // Deletes the second segment until the number of segments is within the limit.
  void DropOldest();

  const std::string folder_;
  const Limits limits_;
  UniqueFd segment_;
  bool segment_is_new_ = false;  // whether nothing was written to the segment yet
  int64_t segment_begin_ = 0;    // offset of the segment's first byte
  int64_t segment_end_ = 0;      // offset at which the next segment begins
  int64_t end_ = 0;
};

struct LogPart {
  int64_t offset_bytes = 0;   // offset of the first byte of `content`
  int64_t dropped_bytes = 0;  // bytes missing between the requested offset and `offset_bytes`
  std::string content;        // empty if the log has no more bytes yet
};

// Reads up to `max_bytes` of the log, starting at `offset` or, if that byte was not kept, at the next kept byte.
absl::StatusOr<LogPart> ReadAttemptLog(const std::string& folder, int64_t offset, int64_t max_bytes);

}  // namespace ampd::shim
