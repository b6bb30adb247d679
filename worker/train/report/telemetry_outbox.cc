#include "worker/train/report/telemetry_outbox.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"
#include "points/telemetry_batch.h"

namespace ampd::train {
namespace {

absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(fd, bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return absl::InternalError("cannot read telemetry back from the spill file");
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return bytes;
}

}  // namespace

bool TelemetryOutbox::HasRoom() const {
  const int64_t spill_end = num_spilled_ == 0 ? 0 : spill_end_;
  return memory_bytes_ + wanted_bytes_ <= options_.max_memory_bytes ||
         spill_end + wanted_bytes_ <= options_.max_spill_bytes;
}

bool TelemetryOutbox::Reserve(int64_t size, absl::Duration deadline, Kept* place) {
  absl::MutexLock lock(&mutex_);
  wanted_bytes_ = size;
  if (!AwaitUntil(mutex_, absl::Condition(this, &TelemetryOutbox::HasRoom), deadline)) {
    return false;
  }
  place->size = size;
  place->offset = -1;
  if (memory_bytes_ + size > options_.max_memory_bytes) {
    place->offset = num_spilled_ == 0 ? 0 : spill_end_;
  }
  return true;
}

absl::Status TelemetryOutbox::Spill(const std::string& payload, int64_t offset) {
  if (!spill_.ok()) {
    spill_ = UniqueFd(open(options_.spill_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!spill_.ok()) {
      return ErrnoError(errno, "cannot open the telemetry spill file");
    }
  }
  if (lseek(spill_.get(), offset, SEEK_SET) < 0) {
    return ErrnoError(errno, "cannot seek in the telemetry spill file");
  }
  return WriteAll(spill_.get(), payload);
}

absl::Status TelemetryOutbox::Add(v1::TelemetryBatch record, absl::Duration deadline) {
  points::SetSequence(last_sequence() + 1, &record);
  if (record.has_steps()) {
    points::CompleteColumns(record.mutable_steps());
  }
  std::string payload = record.SerializeAsString();
  Kept place;
  if (!Reserve(static_cast<int64_t>(payload.size()), deadline, &place)) {
    return Error(absl::StatusCode::kResourceExhausted, "TELEMETRY_FULL",
                 "the server has accepted no telemetry for a long time, and the trainer has no space left to store "
                 "more; check the server and the network");
  }
  if (place.offset >= 0) {
    AMPD_RETURN_IF_ERROR(Spill(payload, place.offset));
    payload.clear();
  }
  place.payload = std::move(payload);
  {
    absl::MutexLock lock(&mutex_);
    spill_fd_ = spill_.get();
    if (place.offset >= 0) {
      spill_end_ = place.offset + place.size;
      ++num_spilled_;
    } else {
      memory_bytes_ += place.size;
    }
    kept_.push_back(std::move(place));
  }
  if (listener_) {
    listener_();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::TelemetryBatch> TelemetryOutbox::Read(uint64_t after, size_t max_bytes) const {
  std::vector<Kept> found;
  int spill_fd = -1;
  {
    absl::MutexLock lock(&mutex_);
    spill_fd = spill_fd_;
    size_t total = 0;
    for (size_t i = std::max(after, acknowledged_) - acknowledged_; i < kept_.size() && total < max_bytes; ++i) {
      found.push_back(kept_[i]);
      total += static_cast<size_t>(kept_[i].size);
    }
  }
  v1::TelemetryBatch batch;
  for (Kept& kept : found) {
    if (kept.offset >= 0) {
      // The record stays in the file during this read. Only an acknowledgement frees its space, and the thread that
      // reads is also the only one that acknowledges.
      AMPD_ASSIGN_OR_RETURN(kept.payload, ReadAt(spill_fd, kept.offset, kept.size));
    }
    v1::TelemetryBatch record;
    if (!record.ParseFromString(kept.payload)) {
      return absl::InternalError("the telemetry in the spill file is damaged");
    }
    points::AppendBatch(record, &batch);
  }
  return batch;
}

void TelemetryOutbox::Acknowledge(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  while (acknowledged_ < sequence && !kept_.empty()) {
    const Kept& kept = kept_.front();
    if (kept.offset >= 0) {
      --num_spilled_;
    } else {
      memory_bytes_ -= kept.size;
    }
    kept_.pop_front();
    ++acknowledged_;
  }
}

bool TelemetryOutbox::AwaitAcknowledged(absl::Duration deadline) const {
  absl::MutexLock lock(&mutex_);
  return AwaitUntil(mutex_, absl::Condition(this, &TelemetryOutbox::HasNothing), deadline);
}

uint64_t TelemetryOutbox::last_sequence() const {
  absl::MutexLock lock(&mutex_);
  return acknowledged_ + kept_.size();
}

uint64_t TelemetryOutbox::acknowledged() const {
  absl::MutexLock lock(&mutex_);
  return acknowledged_;
}

int64_t TelemetryOutbox::spilled_bytes() const {
  absl::MutexLock lock(&mutex_);
  return num_spilled_ == 0 ? 0 : spill_end_;
}

}  // namespace ampd::train
