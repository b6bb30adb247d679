#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt_list.h"
#include "worker/agent/link/server_link.h"
#include "worker/agent/trainers/trainer_pool.h"

namespace ampd::agent {

// AttemptUploads moves telemetry and logs of all attempts to the server: it sends what their backlogs choose, reads
// logs from the spawn folders, and passes acknowledgements on to the backlogs and to the trainers, which then discard
// what is stored. What is not acknowledged is sent again on the next stream. Times are since boot. Single-threaded:
// owner the agent's loop.
class AttemptUploads {
 public:
  struct Options {
    std::string worker;
    ServerLink* link = nullptr;
    AttemptList* attempts = nullptr;
    TrainerPool* trainers = nullptr;
    std::function<void()> report_soon;  // a report would say more than the last one
  };
  explicit AttemptUploads(Options options) : options_(std::move(options)) {}

  // Sends as much as the link takes. Looks for log text at intervals only, because a growing log causes no event.
  void SendAll(absl::Duration now);
  void OnStreamOpened();
  void OnAck(const v1::TelemetryAck& ack, absl::Duration now);

 private:
  void SendTelemetry(AttemptOnWorker& attempt);
  void SendLog(AttemptOnWorker& attempt, absl::Duration now);
  v1::TelemetryUpload UploadOf(const AttemptOnWorker& attempt) const;

  const Options options_;
  absl::Duration next_log_look_;
};

}  // namespace ampd::agent
