#include "server/monitoring/metrics.h"

#include <google/protobuf/descriptor.h>
#include <prometheus/registry.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/version.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/job_table.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kCallBuckets = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10};
const Histogram::BucketBoundaries kStoreBuckets = {0.0005, 0.002, 0.01, 0.05, 0.2, 1, 5};
const Histogram::BucketBoundaries kCycleBuckets = {0.0001, 0.001, 0.01, 0.1, 1};
const Histogram::BucketBoundaries kWaitBuckets = {1, 5, 15, 60, 300, 900, 3600, 14400, 86400};
const Histogram::BucketBoundaries kRunBuckets = {10, 60, 300, 900, 3600, 14400, 86400, 259200, 604800};

// Whether an attempt that ended for this reason counts as a requeue, if its job continues.
bool IsRequeue(v1::Reason::Code reason) {
  return reason == v1::Reason::WORKER_LOST || reason == v1::Reason::PREEMPTED || reason == v1::Reason::WORKER_DRAINED;
}

double SecondsBetween(const google::protobuf::Timestamp& from, const google::protobuf::Timestamp& to) {
  const double seconds =
      static_cast<double>(to.seconds() - from.seconds()) + static_cast<double>(to.nanos() - from.nanos()) / 1e9;
  return std::max(0.0, seconds);
}

void RaiseTo(prometheus::Counter* counter, int64_t total) {
  counter->Increment(std::max(0.0, static_cast<double>(total) - counter->Value()));
}

auto& NewCounter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
auto& NewGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
auto& NewHistogram(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

ServerMetrics::ServerMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(NewCounter(*registry_, "ampd_grpc_requests_total", "Calls finished, by canonical code.")),
      request_seconds_(NewHistogram(*registry_, "ampd_grpc_request_seconds", "Time of unary calls.")),
      streams_(NewGauge(*registry_, "ampd_grpc_streams", "Open streams.")),
      stream_events_(NewCounter(*registry_, "ampd_stream_events_sent_total", "Messages sent on streams.")),
      submitted_(NewCounter(*registry_, "ampd_jobs_submitted_total", "Jobs accepted.")),
      finished_(NewCounter(*registry_, "ampd_jobs_finished_total", "Jobs that reached a terminal state.")),
      failures_(NewCounter(*registry_, "ampd_job_failures_total", "Failed jobs, by reason.")),
      requeues_(NewCounter(*registry_, "ampd_job_requeues_total", "Attempts lost that did not end their job.")),
      queue_wait_(NewHistogram(*registry_, "ampd_job_queue_wait_seconds", "Submission to first assignment.")),
      run_(NewHistogram(*registry_, "ampd_job_run_seconds", "First step to the end.")),
      store_seconds_(NewHistogram(*registry_, "ampd_store_operation_seconds", "Time of metric store operations.")),
      health_(NewGauge(*registry_, "ampd_health_check", "Whether a check of the server's health holds: 1 or 0.")),
      store_errors_(NewCounter(*registry_, "ampd_store_errors_total", "Metric store operations that failed.")),
      scheduler_cycles_(NewCounter(*registry_, "ampd_scheduler_cycles_total", "Looks for jobs that can begin.")) {
  prometheus::Registry& registry = *registry_;
  NewGauge(registry, "ampd_build_info", "What this server is; always 1.").Add({{"version", Version()}}).Set(1);
  points_dropped_ = &NewCounter(registry, "ampd_stream_points_dropped_total", "Points dropped for slow watchers.")
                         .Add({{"method", "JobService/WatchJob"}});
  jobs_suppressed_ =
      &NewCounter(registry, "ampd_exported_jobs_suppressed_total", "Jobs without series, for the cap.").Add({});
  journal_flushes_ = &NewCounter(registry, "ampd_journal_flushes_total", "Groups made durable.").Add({});
  journal_updates_ = &NewCounter(registry, "ampd_journal_updates_total", "Updates made durable.").Add({});
  connections_ = &NewGauge(registry, "ampd_grpc_connections", "Open connections.").Add({});
  auto& closed = NewCounter(registry, "ampd_grpc_connections_closed_total", "Connections closed for want of room.");
  connections_refused_ = &closed.Add({{"reason", "refused"}});
  connections_evicted_ = &closed.Add({{"reason", "evicted"}});
  for (const HealthCheck& check : kHealthChecks) {
    health_.Add({{"check", check.name}}).Set(1);
  }
  jobs_exported_ = &NewGauge(registry, "ampd_exported_jobs", "Jobs with series.").Add({});
  collect_ = &NewGauge(registry, "ampd_collect_seconds", "Time that the last rendering of jobs took.").Add({});
  scheduler_cycle_ =
      &NewHistogram(registry, "ampd_scheduler_cycle_seconds", "Time of scheduler cycles.").Add({}, kCycleBuckets);
  for (const char* result : {"assigned", "idle", "no_capacity"}) {
    scheduler_cycles_.Add({{"result", result}});
  }
  store_seconds_.Add({{"operation", "read"}}, kStoreBuckets);
  store_seconds_.Add({{"operation", "write"}}, kStoreBuckets);
  store_errors_.Add({{"operation", "write"}});
  CreateMethods();
  CreateOutcomes();
}

void ServerMetrics::CreateMethods() {
  for (const google::protobuf::FileDescriptor* file :
       {v1::CreateJobRequest::descriptor()->file(), v1::WorkerReport::descriptor()->file(),
        v1::ListWorkersRequest::descriptor()->file(), v1::Artifact::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        const std::string label = absl::StrCat(service->name(), "/", service->method(m)->name());
        methods_[absl::StrCat(service->full_name(), "/", service->method(m)->name())] = label;
        const bool is_stream = service->method(m)->client_streaming() || service->method(m)->server_streaming();
        if (is_stream) {
          streams_.Add({{"method", label}});
          stream_events_.Add({{"method", label}});
        } else {
          request_seconds_.Add({{"method", label}}, kCallBuckets);
        }
        requests_.Add({{"method", label}, {"code", "OK"}});
      }
    }
  }
}

void ServerMetrics::CreateOutcomes() {
  submitted_.Add({{"queue", "default"}});
  for (const char* result : {"succeeded", "failed", "cancelled"}) {
    finished_.Add({{"queue", "default"}, {"result", result}});
  }
  const google::protobuf::EnumDescriptor* reasons = v1::Reason::Code_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    const auto reason = static_cast<v1::Reason::Code>(reasons->value(i)->number());
    if (IsRequeue(reason)) {
      requeues_.Add({{"reason", absl::AsciiStrToLower(v1::Reason::Code_Name(reason))}});
    } else if (reason > v1::Reason::USER_PAUSED) {
      failures_.Add({{"reason", absl::AsciiStrToLower(v1::Reason::Code_Name(reason))}});
    }
  }
}

const std::string& ServerMetrics::MethodLabel(std::string_view method) {
  static const std::string kOther = "other";
  auto found = methods_.find(method);
  return found == methods_.end() ? kOther : found->second;
}

void ServerMetrics::Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream,
                             const TraceContext& /*trace*/) {
  const std::string& label = MethodLabel(method);
  requests_.Add({{"method", label}, {"code", absl::StatusCodeToString(code)}}).Increment();
  if (is_stream) {
    streams_.Add({{"method", label}}).Decrement();
  } else {
    request_seconds_.Add({{"method", label}}, kCallBuckets).Observe(absl::ToDoubleSeconds(time));
  }
}

void ServerMetrics::StreamOpened(std::string_view method) {
  streams_.Add({{"method", MethodLabel(method)}}).Increment();
}

void ServerMetrics::StreamMessageSent(std::string_view method) {
  stream_events_.Add({{"method", MethodLabel(method)}}).Increment();
}

void ServerMetrics::JobChanged(const v1::Job* before, const v1::Job& after) {
  const std::string queue = SafeLabelValue(QueueNameOf(after));
  if (before == nullptr && after.state() == v1::Job::QUEUED && after.num_attempts() == 0) {
    submitted_.Add({{"queue", queue}}).Increment();
  }
  CountAttempts(before, after);
  if (!IsTerminal(after.state()) || before == nullptr || IsTerminal(before->state())) {
    return;
  }
  const std::string result = absl::AsciiStrToLower(v1::Job::State_Name(after.state()));
  finished_.Add({{"queue", queue}, {"result", result}}).Increment();
  if (after.state() == v1::Job::FAILED) {
    failures_.Add({{"reason", absl::AsciiStrToLower(v1::Reason::Code_Name(after.reason()))}}).Increment();
  }
  if (after.has_start_time()) {
    run_.Add({{"queue", queue}, {"result", result}}, kRunBuckets)
        .Observe(SecondsBetween(after.start_time(), after.end_time()));
  }
}

void ServerMetrics::CountAttempts(const v1::Job* before, const v1::Job& after) {
  if (before == nullptr || after.attempts().empty()) {
    return;
  }
  const v1::Attempt& last = *after.attempts().rbegin();
  if (before->num_attempts() == 0 && after.num_attempts() > 0) {
    queue_wait_.Add({{"queue", SafeLabelValue(QueueNameOf(after))}}, kWaitBuckets)
        .Observe(SecondsBetween(after.create_time(), last.assign_time()));
  }
  const bool had_ended = before->attempts().empty() || before->attempts().rbegin()->state() == v1::Attempt::ENDED;
  if (!had_ended && last.state() == v1::Attempt::ENDED && !IsTerminal(after.state()) &&
      IsRequeue(last.outcome().reason())) {
    requeues_.Add({{"reason", absl::AsciiStrToLower(v1::Reason::Code_Name(last.outcome().reason()))}}).Increment();
  }
}

void ServerMetrics::SchedulerCycle(size_t num_waiting, size_t num_placed, absl::Duration time) {
  const char* result = num_placed > 0 ? "assigned" : num_waiting > 0 ? "no_capacity" : "idle";
  scheduler_cycles_.Add({{"result", result}}).Increment();
  scheduler_cycle_->Observe(absl::ToDoubleSeconds(time));
}

void ServerMetrics::StoreRead(absl::Duration time) {
  store_seconds_.Add({{"operation", "read"}}, kStoreBuckets).Observe(absl::ToDoubleSeconds(time));
}

void ServerMetrics::StoreWrite(absl::Duration time, bool ok) {
  store_seconds_.Add({{"operation", "write"}}, kStoreBuckets).Observe(absl::ToDoubleSeconds(time));
  if (!ok) {
    store_errors_.Add({{"operation", "write"}}).Increment();
  }
}

void ServerMetrics::SetPointsDropped(int64_t total) { RaiseTo(points_dropped_, total); }

void ServerMetrics::SetJobsSuppressed(int64_t total) { RaiseTo(jobs_suppressed_, total); }

void ServerMetrics::SetConnections(int64_t num_open, int64_t num_refused, int64_t num_evicted) {
  connections_->Set(static_cast<double>(num_open));
  RaiseTo(connections_refused_, num_refused);
  RaiseTo(connections_evicted_, num_evicted);
}

void ServerMetrics::SetHealth(const std::array<bool, std::size(kHealthChecks)>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    health_.Add({{"check", kHealthChecks[i].name}}).Set(results[i] ? 1 : 0);
  }
}

void ServerMetrics::SetJournal(int64_t num_flushes, int64_t num_updates) {
  RaiseTo(journal_flushes_, num_flushes);
  RaiseTo(journal_updates_, num_updates);
}

}  // namespace ampd::server
