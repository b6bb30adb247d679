#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// Passes the telemetry of one attempt from the trainer to the server. The trainer keeps all telemetry until it is
// acknowledged, so nothing is lost if the relay's buffer is lost. The buffer's size is limited.
//
// At most kMaxUploads uploads are in flight at a time. Batches that arrive meanwhile are merged. When the server has
// stored an upload, the merged batches are sent as one upload. So with faster steps, each upload contains more steps,
// and a step waits only until the server has stored the uploads before it.
//
//   trainer --Add--> [ in flight: 1-3, 4-5, 6, 7 | merged: 8-31 ] --Next, Sent--> server
//                                 ^------------------Acknowledge--------------------'
//
// Merging keeps the content and the order of the records. Single-threaded; owner: the agent's loop.
class TelemetryRelay {
 public:
  // Maximum number of telemetry points in a merged batch; kMaxMergedBytes limits its size. A larger batch is sent
  // alone. A batch from a trainer has at most 256 KiB plus one record of at most 1 MiB (a sample), which is far below
  // gRPC's limit of 4 MiB.
  static constexpr int kMaxMergedPoints = 1024;
  static constexpr size_t kMaxMergedBytes = 256 << 10;
  // Maximum number of unacknowledged uploads. With more than one, the server can store the next upload as soon as it
  // has stored the previous one, without waiting for the network.
  static constexpr size_t kMaxUploads = 4;

  void Add(v1::TelemetryBatch batch);
  // The next batch to send; null if all are sent or kMaxUploads are in flight. Call Sent() to advance to the following
  // batch.
  const v1::TelemetryBatch* Next() const;
  void Sent() { ++num_sent_; }
  // Called when a new stream was opened: everything that is not acknowledged is sent again.
  void Rewind() { num_sent_ = 0; }
  void Acknowledge(uint64_t sequence);
  // Called when the server refuses this attempt's telemetry. Drops all buffered telemetry, and all that arrives later.
  void Refuse();

  bool full() const { return num_bytes_ >= kMaxBytes; }
  bool empty() const { return batches_.empty(); }
  bool refused() const { return refused_; }
  uint64_t received() const { return received_; }
  // The sequence up to which the trainer may discard its telemetry.
  uint64_t acknowledged() const { return refused_ ? received_ : acknowledged_; }

 private:
  static constexpr size_t kMaxBytes = 4 << 20;
  struct Kept {
    v1::TelemetryBatch batch;
    uint64_t first = 0;
    uint64_t last = 0;
    size_t num_bytes = 0;
    bool joinable = false;
  };
  // Merges `added` into the last batch. Returns false if they can't be merged.
  bool MergeIntoLast(const Kept& added);

  std::deque<Kept> batches_;
  size_t num_sent_ = 0;
  size_t num_bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t acknowledged_ = 0;
  bool refused_ = false;
};

}  // namespace ampd::agent
