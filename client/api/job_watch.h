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
  absl::Duration before_first_answer;             // since the first attempt to connect; zero: try once
  absl::Duration after_loss = absl::Seconds(60);  // since the last message of a connection that was lost
};

// Follows one job across broken connections. After UNAVAILABLE, RESOURCE_EXHAUSTED (the reader is too slow) or a
// silence of three heartbeats it reopens the stream at the last message's token, so that no message is lost or
// repeated. After OUT_OF_RANGE (the token is too old) it starts over from a snapshot. Single-threaded; owner: the
// command. The cancellation may come from any thread.
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
    kReconnecting,  // the connection was lost; call again
    kEnded,         // the final message was returned before, or an error: see status()
    kCancelled,
  };

  JobWatch(JobClient* client, Options options, Cancellation* cancellation);
  ~JobWatch();

  // Waits for the next message of the stream, which may be a heartbeat, until `deadline`.
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
  absl::Duration last_message_;  // when the last message came; since boot
  absl::Duration silent_since_;  // when this connection fell silent; since boot
  absl::Status status_;
};

// Reads a job's log from `offset_bytes` on. Like JobWatch it resumes across broken connections, at the byte that it
// reached. Single-threaded.
class LogTail {
 public:
  struct Options {
    v1::TailLogsRequest request;
    Patience patience = {};
  };

  LogTail(JobClient* client, Options options, Cancellation* cancellation);

  // Calls `sink` for each piece of the log. Returns OK when the log ends, CANCELLED after the cancellation, or the
  // error that ended it.
  absl::Status Run(const std::function<void(const v1::TailLogsResponse&)>& sink);

 private:
  JobClient* const client_;
  Options options_;
  Cancellation* const cancellation_;
};

}  // namespace ampd::client
