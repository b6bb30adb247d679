#include "server/monitoring/change_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/version.h"
#include "base/wall_clock_watch.h"

namespace ampd::server {
namespace {

std::string DevicesOf(const v1::Worker& worker) {
  return absl::StrJoin(worker.devices(), ",",
                       [](std::string* out, const v1::Device& device) { absl::StrAppend(out, device.id()); });
}

void LogWorker(spdlog::level::level_enum level, std::string_view what, const v1::Worker& worker) {
  Log(level, what, {{"worker", worker.name()}, {"devices", DevicesOf(worker)}, {"version", worker.version()}});
  if (!worker.version().empty() && !WorkTogether(worker.version(), Version())) {
    Log(spdlog::level::warn, "a worker is more than one minor version from this server",
        {{"worker", worker.name()}, {"version", worker.version()}, {"server_version", Version()}});
  }
}

}  // namespace

void ChangeLog::JobMoved(const internal::JobRecord& record, const v1::Event& event) {
  const v1::Job& job = record.job();
  if (event.kind() != v1::Event::CREATED && event.kind() != v1::Event::STATE_CHANGED) {
    return;
  }
  LogFields fields = {{"job_id", job.id()}, {"job_name", job.spec().name()}};
  if (event.from_state() != v1::Job::STATE_UNSPECIFIED) {
    fields.emplace_back("from", v1::Job::State_Name(event.from_state()));
  }
  fields.emplace_back("to", v1::Job::State_Name(event.to_state()));
  if (event.reason() != v1::Reason::REASON_UNSPECIFIED) {
    fields.emplace_back("reason", v1::Reason::Code_Name(event.reason()));
  }
  if (event.attempt() > 0) {
    fields.emplace_back("attempt", int64_t{event.attempt()});
    fields.emplace_back("worker", job.attempts().empty() ? "" : job.attempts().rbegin()->worker());
  }
  fields.emplace_back("detail", event.message());
  AddTrace(job.traceparent(), &fields);
  if (event.to_state() == v1::Job::QUEUED) {
    fields.emplace_back("parent_span_id", record.parent_span_id());
  }
  Log(event.to_state() == v1::Job::FAILED ? spdlog::level::warn : spdlog::level::info,
      event.kind() == v1::Event::CREATED ? "job created" : "job changed state", fields);
}

void ChangeLog::JobDeleted(const std::string& job, const std::string& traceparent) {
  LogFields fields = {{"job_id", job}};
  AddTrace(traceparent, &fields);
  Log(spdlog::level::info, "job deleted", fields);
}

void ChangeLog::HistoryDeleted(const std::string& job, const std::string& traceparent) {
  LogFields fields = {{"job_id", job}};
  AddTrace(traceparent, &fields);
  Log(spdlog::level::info, "history of job deleted by its age", fields);
}

void ChangeLog::Know(const internal::WorkerRecord& worker) {
  absl::MutexLock lock(&mutex_);
  workers_[worker.worker().name()] = {worker.lost(), worker.worker().drained()};
}

void ChangeLog::WorkerChanged(const internal::WorkerRecord& worker) {
  Known before;
  bool is_new = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto [known, inserted] = workers_.try_emplace(worker.worker().name());
    is_new = inserted;
    before = known->second;
    known->second = {worker.lost(), worker.worker().drained()};
  }
  if (is_new) {
    LogWorker(spdlog::level::info, "worker registered", worker.worker());
  } else if (worker.lost() != before.lost) {
    LogWorker(worker.lost() ? spdlog::level::warn : spdlog::level::info,
              worker.lost() ? "worker lost: its lease ran out" : "worker is back", worker.worker());
  }
  if (worker.worker().drained() != before.drained) {
    LogWorker(spdlog::level::info, worker.worker().drained() ? "worker drained" : "worker takes jobs again",
              worker.worker());
  }
}

void ChangeLog::WorkerRemoved(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  workers_.erase(worker);
}

void ChangeLog::ClockLeapt(absl::Duration leap) {
  Log(spdlog::level::warn,
      absl::StrCat("the wall clock leapt by ", absl::FormatDuration(leap),
                   ", or the server was down for so long: nothing is deleted by its age until it has run steadily for ",
                   absl::FormatDuration(WallClockWatch::kQuiet)));
}

}  // namespace ampd::server
