#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/clock.h"
#include "base/random.h"
#include "worker/agent/data_roots.h"
#include "worker/agent/link/server_link.h"

namespace ampd::agent {

// Sends the worker's reports. Reporter decides when a report is due, and adds the agent's identity, its incarnation (a
// random id, replaced when the agent starts over) and the report's number. The caller of Send provides the rest of the
// report.
//
//   1. OnStreamOpened    a report is due at once, so that the server accepts the worker again
//   2. Send              at most one report per interval, or at once after ReportSoon
//   3. OnDirective       the server has accepted the worker; the interval follows from the lease
//   4. OnReplaced        another agent with the same id has taken over: this agent starts over as a new incarnation and
//                        yields (waits for the other one to leave) until the server accepts it
//
// Times are since boot. Single-threaded; owner: the agent's loop.
class Reporter {
 public:
  struct Options {
    std::string name;
    std::string version;
    std::string metrics_address;
    v1::AgentIdentity identity;
    std::string state_folder;
    bool checkpoint_root_shared = false;
    DataRoots data_roots;
    std::vector<std::string> tenants;
    std::function<void(const std::string&)> log;  // takes one line
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;
    ServerLink* link = nullptr;
  };
  explicit Reporter(Options options);

  void OnStreamOpened();
  void OnReplaced();
  // Records a directive that is not stale. Returns true for the first directive on a stream, by which the server
  // accepts this worker.
  bool OnDirective(const v1::WorkerDirective& directive);

  void ReportSoon() { is_due_ = true; }
  // When the next report is due, at `now` or later; InfiniteDuration without a stream.
  absl::Duration NextReport(absl::Duration now) const;
  // Sends the report `content` after adding the identity, the incarnation and the report's number. The caller sets the
  // rest: what the worker holds, and whether the agent is stopping.
  void Send(v1::WorkerReport content, absl::Duration now);

  bool is_attached() const { return is_attached_; }
  // The time since boot at which the newest report was sent. A directive contains the send time of the report that it
  // answers. If that time is later than this one, the directive answers a report that this agent has not sent.
  int64_t last_send_boottime_nanos() const { return last_send_boottime_nanos_; }
  // Whether the server has received a report that says that the agent is stopping.
  bool StopIsKnown() const { return first_stopping_ > 0 && acknowledged_ >= first_stopping_; }

 private:
  const Options options_;
  std::string incarnation_;
  bool yields_ = false;  // another agent with this id took over; this agent waits until that one is gone
  bool is_attached_ = false;
  bool is_accepted_ = false;  // the server has accepted this worker on this stream
  bool is_due_ = false;
  absl::Duration interval_ = absl::Seconds(1);
  absl::Duration next_;
  uint64_t sequence_ = 0;
  uint64_t acknowledged_ = 0;    // number of the newest report that the server has processed
  uint64_t first_stopping_ = 0;  // number of the first report that announces the stop; 0: none yet
  int64_t last_send_boottime_nanos_ = 0;
};

}  // namespace ampd::agent
