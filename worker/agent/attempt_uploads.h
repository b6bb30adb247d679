#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt_list.h"
#include "worker/agent/link/server_link.h"
#include "worker/agent/trainers/trainer_pool.h"

namespace ampd::agent {

// Sends the telemetry and logs of all attempts to the server. Each attempt's AttemptBacklog chooses what is sent next;
// logs are read from the spawn folders. Passes the server's acknowledgements to the backlogs and to the trainers. The
// trainers then discard the stored telemetry. Everything that is not acknowledged is sent again on the next stream.
// Times are since boot. Single-threaded; owner: the agent's loop.
class AttemptUploads {
 public:
  struct Options {
    std::string worker;
    ServerLink* link = nullptr;
    AttemptList* attempts = nullptr;
    TrainerPool* trainers = nullptr;
    std::function<void()> report_soon;  // called if the next report would contain something new
  };
  explicit AttemptUploads(Options options) : options_(std::move(options)) {}

  // Sends as much telemetry and log text as the link accepts. A growing log causes no event, so the logs are read at
  // intervals.
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
