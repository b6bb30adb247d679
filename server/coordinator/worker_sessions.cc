#include "server/coordinator/worker_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "google/protobuf/util/time_util.h"
#include "server/coordinator/directives.h"
#include "server/coordinator/report_checks.h"
#include "server/coordinator/report_updates.h"
#include "server/coordinator/updates.h"
#include "server/state/record_bounds.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::TimeUtil;

constexpr size_t kRetiredIncarnationsKept = 16;

google::protobuf::Duration ToProto(absl::Duration duration) {
  return TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(duration));
}

// Returns the error for a worker that has followed a server of a later epoch. Another server was restored from a backup
// of this server's data, and has taken over the workers.
absl::Status Superseded(const v1::WorkerReport& report, uint64_t epoch) {
  return Error(StatusCode::kAborted, "SERVER_SUPERSEDED",
               absl::StrCat("worker ", report.worker(), " has followed a server of epoch ", report.reflected().epoch(),
                            ", which was restored from a backup later than this one, of epoch ", epoch,
                            "; stop this server, or if it is the right one, end the ampd-worker and start it again"));
}

absl::Status Replaced(const v1::WorkerReport& report) {
  return Error(StatusCode::kAborted, "REPLACED",
               absl::StrCat("another agent has come since as worker ", report.worker(),
                            " with the id of this one's state folder: ", report.agent().place()));
}

// Checks a report that has the id of the worker's present agent. Its sender is either that agent, perhaps restarted, or
// a second agent that runs on a copy of the present agent's state folder. A second agent on another host or in another
// folder reports another place and is refused. A second agent at the same place can't be told from a restart, so it
// replaces the present agent. The replaced agent then reports that it yields, and is refused.
absl::Status CheckCopy(const v1::WorkerReport& report, const v1::AgentIdentity& holder, const WorkerSession& session) {
  const std::string& place = report.agent().place();
  if (!holder.place().empty() && !place.empty() && holder.place() != place) {
    return ErrorWithMetadata(
        StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE",
        absl::StrCat("the state folder of worker ", report.worker(), " was copied or moved: the agent at ",
                     holder.place(), " has it, and the one at ", place,
                     " is refused; give a copy another --name and an empty --state-dir, or stop the other agent and "
                     "wait until it is lost"),
        {{"worker", report.worker()}, {"holder", holder.place()}, {"refused", place}});
  }
  const bool is_other = !session.incarnation.empty() && session.incarnation != report.incarnation();
  return is_other && report.yields() ? Replaced(report) : absl::OkStatus();
}

}  // namespace

absl::Status WorkerSessions::Start() {
  internal::Update update = NewUpdate(options_.clock->Now());
  update.mutable_start_life()->set_server_version(Version());
  AMPD_RETURN_IF_ERROR(options_.ledger->CommitAndWait(std::move(update)).status());
  std::vector<std::string> workers;
  absl::MutexLock lock(&mutex_);
  life_ = options_.ledger->Read([&](const ClusterState& state) {
    for (const auto& [name, worker] : state.workers()) {
      if (!worker->lost()) {
        workers.push_back(name);
      }
    }
    return state.life();
  });
  // Every lease starts over at its full length. Leases are not in the journal, and the previous run of the server may
  // have renewed a lease just before it ended.
  for (const std::string& worker : workers) {
    liveness_.Renew(worker, options_.clock->SinceBoot());
  }
  return absl::OkStatus();
}

absl::Status WorkerSessions::CheckAgent(const v1::WorkerReport& report, const WorkerSession& session) const {
  const WorkerRecordPtr record =
      options_.ledger->Read([&](const ClusterState& state) { return state.FindWorker(report.worker()); });
  const bool reported = !session.incarnation.empty();
  if (record == nullptr && !reported) {
    return absl::OkStatus();
  }
  const v1::AgentIdentity& holder = reported ? session.agent : record->agent();
  // Any agent may take a name whose holder is silent or was registered without an agent id.
  if (IsSilent(session, record.get()) || holder.id().empty()) {
    return absl::OkStatus();
  }
  if (holder.id() == report.agent().id()) {
    return CheckCopy(report, holder, session);
  }
  return ErrorWithMetadata(
      StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE",
      absl::StrCat("another agent uses the name ", report.worker(), ": ", holder.place(), ", and this one is ",
                   report.agent().place(), "; choose another --name, or stop that one and wait until it is lost"),
      {{"worker", report.worker()}, {"holder", holder.place()}, {"refused", report.agent().place()}});
}

// Whether another agent may take the worker's name. A worker whose registration is on disk is silent once it is
// declared lost. A worker without a registration on disk has no attempts and is never declared lost, so the age of its
// last report decides.
bool WorkerSessions::IsSilent(const WorkerSession& session, const internal::WorkerRecord* record) const {
  return record == nullptr
             ? options_.clock->SinceBoot() - session.report_since_boot > options_.lease + options_.lease_margin
             : record->lost() && !session.losing;
}

// Stores the refusal of a rival (another agent that claims the worker's name), which is shown with the worker. Also
// reports the refusal to operators, unless the stored refusal already had the same text.
void WorkerSessions::RecordRival(const v1::WorkerReport& report, const absl::Status& refusal, WorkerSession* session) {
  session->rival_since_boot = options_.clock->SinceBoot();
  const std::string line(refusal.message());
  if (std::exchange(session->rival, line) != line) {
    options_.listener->OnWorkerTrouble(report.worker(), line);
  }
}

void WorkerSessions::ReportOddity(const std::string& worker, const std::string& oddity, WorkerSession* session) {
  if (!oddity.empty() && std::exchange(session->oddity, oddity) != oddity) {
    options_.listener->OnWorkerTrouble(worker, oddity);
  }
}

absl::Status WorkerSessions::AdoptIncarnation(const v1::WorkerReport& report, WorkerSession* session) {
  auto& retired = session->retired_incarnations;
  if (session->agent.id() != report.agent().id()) {
    retired.clear();  // It lists the previous agent's incarnations, which may return when the new agent is lost.
    session->incarnation.clear();
  }
  session->agent = report.agent();
  if (std::find(retired.begin(), retired.end(), report.incarnation()) != retired.end()) {
    return Replaced(report);
  }
  if (session->incarnation != report.incarnation()) {
    if (!session->incarnation.empty()) {
      retired.push_back(std::move(session->incarnation));
    }
    if (retired.size() > kRetiredIncarnationsKept) {
      retired.pop_front();
    }
    session->incarnation = report.incarnation();
    session->report.Clear();
  }
  return absl::OkStatus();
}

absl::Status WorkerSessions::AdoptReport(const v1::WorkerReport& report, WorkerSession* session, bool* is_new) {
  absl::Status adopted = CheckAgent(report, *session);
  if (adopted.ok()) {
    adopted = AdoptIncarnation(report, session);
  }
  if (!adopted.ok()) {
    RecordRival(report, adopted, session);
    return adopted;
  }
  *is_new = report.sequence() > session->report.sequence();
  if (*is_new) {
    session->report = report;
    session->report_time = options_.clock->Now();
    session->report_since_boot = options_.clock->SinceBoot();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::WorkerDirective> WorkerSessions::HandleReport(const v1::WorkerReport& report) {
  AMPD_RETURN_IF_ERROR(CheckRegistration(report));
  AMPD_RETURN_IF_ERROR(CheckReportSizes(report));
  const uint64_t epoch = options_.ledger->Read([](const ClusterState& state) { return state.epoch(); });
  const bool is_superseded = report.reflected().epoch() > epoch;
  const absl::Status refusal = is_superseded ? Superseded(report, epoch) : CheckProtocol(report);
  if (!refusal.ok()) {
    absl::MutexLock lock(&mutex_);
    RecordRival(report, refusal, &sessions_[report.worker()]);
    return refusal;
  }
  IngestedReport ingested;
  v1::WorkerDirective directive;
  {
    absl::MutexLock lock(&mutex_);
    WorkerSession& session = sessions_[report.worker()];
    bool is_new = false;
    AMPD_RETURN_IF_ERROR(AdoptReport(report, &session, &is_new));
    bool renew = false;
    if (is_new) {
      options_.ledger->Read([&](const ClusterState& state) {
        // Renews the worker's lease unless the worker is lost. This is safe even if the worker's registration is not on
        // disk yet: such a worker has no attempts that could be given to another worker.
        const WorkerRecordPtr record = state.FindWorker(report.worker());
        renew = (record == nullptr || !record->lost()) && !session.losing;
        ingested = IngestReport(session, state, options_.clock->Now());
      });
      ReportOddity(report.worker(), ingested.oddity, &session);
    }
    if (renew) {
      liveness_.Renew(report.worker(), options_.clock->SinceBoot());
    }
    directive = NextDirective(report.worker(), &session, renew);
  }
  options_.on_facts_changed(report.worker());
  CommitAll(options_.ledger, std::move(ingested.updates));
  return directive;
}

absl::StatusOr<v1::WorkerDirective> WorkerSessions::CurrentDirective(const std::string& worker,
                                                                     const std::string& incarnation) {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(worker);
  if (session == sessions_.end() || incarnation.empty() || session->second.incarnation != incarnation) {
    return Error(StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("worker ", worker, " has not reported"));
  }
  return NextDirective(worker, &session->second, /*renew=*/false);
}

v1::WorkerDirective WorkerSessions::NextDirective(const std::string& worker, WorkerSession* session, bool renew) {
  // The upper bits of a directive's number are the number of this run of the server. Directive numbers therefore grow
  // across restarts, although the journal does not record them.
  const uint64_t number = life_ << 32 | next_directive_++;
  v1::WorkerDirective directive =
      options_.ledger->Read([&](const ClusterState& state) { return BuildDirective(state, worker, number, session); });
  *directive.mutable_suspend_limit() = ToProto(options_.suspend_limit);
  if (renew) {
    *directive.mutable_lease() = ToProto(options_.lease);
    directive.set_renewal_of_boottime_nanos(session->report.send_boottime_nanos());
  }
  return directive;
}

std::optional<WorkerFacts> WorkerSessions::FactsOf(const WorkerSession& session) const {
  if (session.report.sequence() == 0 || session.losing) {
    return std::nullopt;
  }
  WorkerFacts facts;
  facts.is_stopping = session.report.stopping();
  facts.fresh_until = session.report_since_boot + options_.lease;
  for (const v1::Device& device : session.report.devices()) {
    facts.free_bytes[device.id()] = device.memory_free_bytes();
  }
  return facts;
}

std::optional<WorkerFacts> WorkerSessions::FindFacts(const std::string& worker) const {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(worker);
  return session == sessions_.end() ? std::nullopt : FactsOf(session->second);
}

int64_t WorkerSessions::ReportedStep(const std::string& worker, const std::string& job, int32_t attempt) const {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(worker);
  if (session == sessions_.end()) {
    return 0;
  }
  for (const v1::AttemptReport& reported : session->second.report.attempts()) {
    if (reported.key().job_id() == job && reported.key().attempt() == attempt) {
      return reported.step();
    }
  }
  return 0;
}

LiveWorkers WorkerSessions::Live() const {
  absl::MutexLock lock(&mutex_);
  LiveWorkers live;
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [name, session] : sessions_) {
    std::optional<WorkerFacts> facts = FactsOf(session);
    if (facts.has_value() && now <= facts->fresh_until) {
      live[name] = *std::move(facts);
    }
  }
  return live;
}

std::vector<std::string> WorkerSessions::BeginLosses() {
  std::vector<std::string> silent;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::string& worker : liveness_.Silent(options_.clock->SinceBoot())) {
      if (!std::exchange(sessions_[worker].losing, true)) {
        silent.push_back(worker);
      }
    }
  }
  for (const std::string& worker : silent) {
    options_.on_facts_changed(worker);
  }
  return silent;
}

void WorkerSessions::AbandonLoss(const std::string& worker, bool is_registered) {
  {
    absl::MutexLock lock(&mutex_);
    if (is_registered) {
      sessions_[worker].losing = false;
    } else {
      sessions_.erase(worker);
      liveness_.Forget(worker);
    }
  }
  options_.on_facts_changed(worker);
}

std::set<std::string> WorkerSessions::OnPublished(const Publication& publication) {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> changed;
  for (const Applied& applied : publication.applied) {
    for (const std::string& name : applied.removed_workers) {
      sessions_.erase(name);
      liveness_.Forget(name);
    }
    for (const JobRecordPtr& record : applied.jobs) {
      if (record->job().attempts_size() > 0) {
        changed.insert(record->job().attempts().rbegin()->worker());
      }
    }
    for (const WorkerRecordPtr& record : applied.workers) {
      const std::string& name = record->worker().name();
      changed.insert(name);
      if (record->lost()) {
        liveness_.Forget(name);
        sessions_[name].losing = false;
      } else {
        liveness_.Watch(name, options_.clock->SinceBoot());
      }
    }
  }
  return changed;
}

}  // namespace ampd::server
