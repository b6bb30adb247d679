#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"

namespace ampd::client {

// Follows one job over broken connections: after UNAVAILABLE, RESOURCE_EXHAUSTED (too slow a reader) or silence of
// three heartbeats it opens the stream again from the last message's token, so that nothing is missed or doubled; on
// OUT_OF_RANGE (a token too old) it starts over from a snapshot. Single-threaded: owner the command; the cancellation
// may come from any thread.
class JobWatch {
 public:
  struct Options {
    std::string id;
    bool from_start = false;
    absl::Duration give_up_after = absl::Seconds(60);  // of a server that does not answer
    absl::Duration silence_limit = absl::Seconds(45);
  };
  enum class Next {
    kMessage,
    kTimeout,       // nothing until the deadline
    kReconnecting,  // the connection was lost; call again
    kEnded,         // after the final message; or an error, in status()
    kCancelled,
  };

  JobWatch(JobClient* client, Options options, Cancellation* cancellation);
  ~JobWatch();

  // The next message, heartbeats included.
  Next Pull(absl::Duration deadline, v1::WatchJobResponse* message);

  // Why it ended; OK after the final message.
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
  absl::Duration last_message_;  // since boot
  absl::Duration silent_since_;  // of this connection
  absl::Status status_;
};

// A job's log from `offset_bytes` on, resumed in the same way by offset. Single-threaded.
class LogTail {
 public:
  struct Options {
    v1::TailLogsRequest request;
    absl::Duration give_up_after = absl::Seconds(60);
  };

  LogTail(JobClient* client, Options options, Cancellation* cancellation);

  // Calls `sink` for each piece until the log ends (OK), an error, or the cancellation (CANCELLED).
  absl::Status Run(const std::function<void(const v1::TailLogsResponse&)>& sink);

 private:
  JobClient* const client_;
  Options options_;
  Cancellation* const cancellation_;
};

}  // namespace ampd::client
