#pragma once

#include <map>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"

namespace ampd::server {

// The expected result of an update.
enum class Verdict { kChanged, kUnchanged, kNotFound, kAlreadyExists, kFailedPrecondition };

// A simple model of ClusterState, written independently of its code. The random test compares the two. The model is a
// small cluster: jobs with their states, retries and attempts, and workers with one device each. It has no records,
// events, indexes or files of checkpoints.
class JobModel {
 public:
  struct Job {
    v1::Job::State state = v1::Job::QUEUED;
    bool wants_pause = false;
    bool deadline_expired = false;
    bool was_cancelled = false;
    int num_retries = 0;
    int num_fruitless = 0;  // Attempts in a row without a checkpoint.
    int saved_attempt = 0;
    int saved_step = 0;
    std::vector<bool> reported_end;  // For each ended attempt: whether it reported its end itself.
    v1::Attempt::State progress = v1::Attempt::ASSIGNED;
    std::string worker;
    bool live = false;
  };
  struct Worker {
    bool lost = false;
    bool drained = false;
  };

  // Each of these functions applies one update of a job (`id`) or a worker (`name`) to this reference model of the
  // cluster's state. Returns the result that ClusterState should give for the same update.
  Verdict Create(const std::string& id);
  Verdict Cancel(const std::string& id);
  Verdict Pause(const std::string& id);
  Verdict Resume(const std::string& id);
  Verdict ExpireDeadline(const std::string& id);
  Verdict ChangePriority(const std::string& id);
  Verdict StartOver(const std::string& id);
  Verdict Remove(const std::string& id);  // The job is deleted or moved to the history table.

  Verdict Register(const std::string& name);
  Verdict SetDrained(const std::string& name, bool drained);
  Verdict Lose(const std::string& name);

  Verdict Assign(const std::string& id, int attempt, const std::string& name);
  Verdict Advance(const std::string& id, int attempt, bool forged, v1::Attempt::State to);
  Verdict Save(const std::string& id, int attempt, bool forged, int step);
  Verdict End(const std::string& id, int attempt, bool forged, v1::Outcome::Kind kind, v1::Reason::Code reason);

  // Returns the job in the format of Show (core_fixtures.h), without reasons and checkpoints: "j1:RUNNING@w1#2".
  std::string Shown(const std::string& id) const;
  const std::map<std::string, Job>& jobs() const { return jobs_; }
  int NumAttempts(const std::string& job) const;

 private:
  // Returns the verdict on a message of an attempt: kChanged if the current owner sent the message.
  Verdict CheckOwner(const Job& job, int attempt, bool forged) const;
  void EndNewest(Job& job, v1::Outcome::Kind kind, v1::Reason::Code reason);

  std::map<std::string, Job> jobs_;
  std::map<std::string, Worker> workers_;
};

bool IsAtRestForEver(v1::Job::State state);
bool HasLiveAttempt(v1::Job::State state);

}  // namespace ampd::server
