#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"

namespace ampd::client {

// How long a stream tries to reach a server that does not answer.
struct Patience {
  absl::Duration before_first_answer;             // time since the first attempt to connect; zero: try once
  absl::Duration after_loss = absl::Seconds(60);  // time since the last message of the connection that was lost
};

// Follows one job across broken connections. It reopens the stream after UNAVAILABLE, after RESOURCE_EXHAUSTED (the
// reader is too slow), and if three heartbeats are missing. The new stream begins after the last message, so that no
// message is lost or repeated. After OUT_OF_RANGE (the server no longer has the next message), the new stream begins
// with a snapshot of the job. Single-threaded; owner: the command. Any thread may request the cancellation.
class JobWatch {
 public:
  struct Options {
    std::string id;
    bool from_start = false;
    Patience patience = {};
    absl::Duration silence_limit = absl::Seconds(45);
  };
  enum class Next {
    kMessage,
    kTimeout,       // no message before the deadline
    kReconnecting,  // the connection was lost; call Pull again
    kEnded,         // the stream is over, after the final message or an error: see status()
    kCancelled,
  };

  JobWatch(JobClient* client, Options options, Cancellation* cancellation);
  ~JobWatch();

  // Waits for the next message of the stream, which may be a heartbeat, until the boot clock shows `deadline`.
  Next Pull(absl::Duration deadline, v1::WatchJobResponse* message);

  // Returns why the watch ended; OK after the final message.
  const absl::Status& status() const { return status_; }

 private:
  struct Call;
  void Open();
  Next HandleEnd();
  Next Lost(const absl::Status& why);

  JobClient* const client_;
  const Options options_;
  Cancellation* const cancellation_;
  std::unique_ptr<Call> call_;
  std::string resume_token_;
  bool final_seen_ = false;
  absl::Duration pause_;
  absl::Duration last_message_;  // time of the last message; since boot
  absl::Duration silent_since_;  // time of this connection's start or last message; since boot
  absl::Status status_;
};

// Reads a job's log from `request.offset_bytes` on. When the connection breaks, reconnects and continues at the next
// byte. Single-threaded.
class LogTail {
 public:
  struct Options {
    v1::TailLogsRequest request;
    Patience patience = {};
  };

  LogTail(JobClient* client, Options options, Cancellation* cancellation);

  // Passes each piece of the log to `sink`. Returns OK at the end of the log, CANCELLED after the cancellation, and
  // otherwise the error that ended the reading.
  absl::Status Run(const std::function<void(const v1::TailLogsResponse&)>& sink);

 private:
  JobClient* const client_;
  Options options_;
  Cancellation* const cancellation_;
};

}  // namespace ampd::client
