#pragma once

#include <map>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"

namespace ampd::server {

// What becomes of an update.
enum class Verdict { kChanged, kUnchanged, kNotFound, kAlreadyExists, kFailedPrecondition };

// A small cluster as the design describes it (its section 4), written without a look at ClusterState: jobs with their
// states, retries and attempts, workers with one device each. It knows no records, events, indexes or checkpoints'
// files. The oracle of the model test.
class JobModel {
 public:
  struct Job {
    v1::Job::State state = v1::Job::QUEUED;
    bool wants_pause = false;
    bool deadline_expired = false;
    bool was_cancelled = false;
    int num_retries = 0;
    int num_fruitless = 0;  // attempts in a row without a checkpoint
    int saved_attempt = 0;
    int saved_step = 0;
    std::vector<bool> told_end;  // of each attempt that ended: whether it told so itself
    v1::Attempt::State progress = v1::Attempt::ASSIGNED;
    std::string worker;
    bool live = false;
  };
  struct Worker {
    bool lost = false;
    bool drained = false;
  };

  // By a job's id and a worker's name.
  Verdict Create(const std::string& id);
  Verdict Cancel(const std::string& id);
  Verdict Pause(const std::string& id);
  Verdict Resume(const std::string& id);
  Verdict ExpireDeadline(const std::string& id);
  Verdict ChangePriority(const std::string& id);
  Verdict StartOver(const std::string& id);
  Verdict Remove(const std::string& id);  // deleted, or moved to the history table

  Verdict Register(const std::string& name);
  Verdict SetDrained(const std::string& name, bool drained);
  Verdict Lose(const std::string& name);

  Verdict Assign(const std::string& id, int attempt, const std::string& name);
  Verdict Advance(const std::string& id, int attempt, bool forged, v1::Attempt::State to);
  Verdict Save(const std::string& id, int attempt, bool forged, int step);
  Verdict End(const std::string& id, int attempt, bool forged, v1::Outcome::Kind kind, v1::Reason reason);

  // "j1:RUNNING@w1#2", as Show in core_fixtures, without reasons and checkpoints.
  std::string Shown(const std::string& id) const;
  const std::map<std::string, Job>& jobs() const { return jobs_; }
  int NumAttempts(const std::string& job) const;

 private:
  // The verdict on a message of an attempt, or kChanged when it is the current owner's.
  Verdict CheckOwner(const Job& job, int attempt, bool forged) const;
  void EndNewest(Job& job, v1::Outcome::Kind kind, v1::Reason reason);

  std::map<std::string, Job> jobs_;
  std::map<std::string, Worker> workers_;
};

bool IsAtRestForEver(v1::Job::State state);
bool HasLiveAttempt(v1::Job::State state);

}  // namespace ampd::server
