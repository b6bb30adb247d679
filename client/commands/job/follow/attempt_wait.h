#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/api/job_watch.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Waits for the attempts of one job, and prints to stderr what it waits for. Once the server has answered, every later
// wait tries for `patience.after_loss` to reach the server. Single-threaded.
class AttemptWait {
 public:
  AttemptWait(Session* session, JobClient* client, std::string id, Patience patience)
      : session_(session), client_(client), id_(std::move(id)), patience_(patience) {}

  // Waits until the job has its attempt `number` or has ended without it. Returns the job's number of attempts.
  // CANCELLED after Ctrl-C; otherwise the error that ended the watch of the job.
  absl::StatusOr<int> Await(int number);

 private:
  void Note(const v1::Job& job);

  Session* const session_;
  JobClient* const client_;
  const std::string id_;
  Patience patience_;
  std::string last_note_;
};

}  // namespace ampd::client
