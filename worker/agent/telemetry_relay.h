#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "ampd/v1/worker_service.pb.h"

namespace ampd::agent {

// Telemetry of one attempt between its trainer and the server. The trainer keeps everything until it is acknowledged;
// what is here is bounded and may be lost.
//
// A few uploads are on their way at a time. What the trainer tells meanwhile is merged and goes as one upload when one
// of them is stored: the faster the steps, the more of them share an upload, and none waits for longer than the server
// takes to store what went before.
//
//   trainer --Add--> [ on their way: 1-3, 4-5, 6, 7 | merged: 8-31 ] --Next, Sent--> server
//                                 ^------------------Acknowledge--------------------'
//
// Merged batches hold what they held apart, in the order of their sequences. Single-threaded: owner the agent's loop.
class TelemetryRelay {
 public:
  // Batches are merged up to these. One that is larger as it comes goes alone: a trainer's has at most 256 KiB and then
  // one more record, a sample of 1 MiB being the largest, which is far below gRPC's 4 MiB.
  static constexpr int kMaxMergedPoints = 1024;
  static constexpr size_t kMaxMergedBytes = 256 << 10;
  // Uploads that are not acknowledged. More of them than one lets the next wait at the server when the disk is ready.
  static constexpr size_t kMaxUploads = 4;

  void Add(v1::TelemetryBatch batch);
  // The next batch to send; nothing when all are sent, or as many as may be on their way. Sent() moves on.
  const v1::TelemetryBatch* Next() const;
  void Sent() { ++num_sent_; }
  // On a new stream: everything that is not acknowledged goes again.
  void Rewind() { num_sent_ = 0; }
  void Acknowledge(uint64_t sequence);
  // The server does not want it: what is here and what still comes is dropped.
  void Refuse();

  bool full() const { return num_bytes_ >= kMaxBytes; }
  bool empty() const { return batches_.empty(); }
  bool refused() const { return refused_; }
  uint64_t received() const { return received_; }
  // Everything up to it may be forgotten by the trainer.
  uint64_t acknowledged() const { return refused_ ? received_ : acknowledged_; }

 private:
  static constexpr size_t kMaxBytes = 4 << 20;
  struct Kept {
    v1::TelemetryBatch batch;
    uint64_t first = 0;
    uint64_t last = 0;
    size_t num_bytes = 0;
    bool well_formed = false;
  };
  // False when `added` has to go apart.
  bool MergeIntoLast(const Kept& added);

  std::deque<Kept> batches_;
  size_t num_sent_ = 0;
  size_t num_bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t acknowledged_ = 0;
  bool refused_ = false;
};

}  // namespace ampd::agent
