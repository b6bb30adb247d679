#include "tests/server/coordinator/coordinator_fixtures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {

ScriptedWorker::ScriptedWorker(const std::string& name, const std::string& agent) {
  const v1::Worker worker = CpuWorker(name);
  report.set_worker(name);
  report.set_incarnation(agent + "a1");
  if (!agent.empty()) {
    report.mutable_agent()->set_id(agent);
    report.mutable_agent()->set_place(agent + ":/state");
  }
  *report.mutable_devices() = worker.devices();
  report.mutable_devices(0)->set_memory_free_bytes(4ll << 30);
}

v1::AttemptReport& ScriptedWorker::Has(const v1::AttemptKey& key, v1::Attempt::State state) {
  report.clear_attempts();
  v1::AttemptReport& attempt = *report.add_attempts();
  *attempt.mutable_key() = key;
  attempt.set_state(state);
  return attempt;
}

v1::JobSpec LargeSpec(size_t num_bytes) {
  v1::JobSpec spec = SmallSpec();
  for (size_t i = 0; i < num_bytes / 512; ++i) {
    spec.mutable_precision()->add_module_rules()->set_match(absl::StrCat("m", i, std::string(500, 'x')));
  }
  return spec;
}

ModelFinder::Options CoordinatorTest::Models() {
  ModelFinder::Options models;
  models.hold_artifact = [this](const std::string& tenant,
                                const std::string& artifact) -> absl::StatusOr<std::shared_ptr<void>> {
    if (artifact != uploaded || tenant != "default") {
      return absl::NotFoundError("not there");
    }
    ++num_held;
    return std::shared_ptr<void>(nullptr, [this](void*) { --num_held; });
  };
  models.read_model = [this](const std::string&) -> absl::StatusOr<std::shared_ptr<const graph::ExportedModel>> {
    ++num_models_read;
    EXPECT_GT(num_held, 0);
    return model_error.ok() ? absl::StatusOr<std::shared_ptr<const graph::ExportedModel>>(nullptr) : model_error;
  };
  return models;
}

void CoordinatorTest::StartServer() {
  coordinator.reset();
  ledger.reset();
  Ledger::Options ledger_options;
  ledger_options.journal = std::make_unique<MemoryJournal>(disk);
  ledger_options.max_queue = max_queue;
  ledger = *Ledger::Open(std::move(ledger_options));
  Coordinator::Options options;
  options.ledger = ledger.get();
  options.clock = &clock;
  options.random = &random;
  options.listener = this;
  options.models = Models();
  options.lease = absl::Seconds(10);
  options.lease_margin = absl::Seconds(5);
  options.archive_after = archive_after;
  options.retention = retention;
  options.worker_retention = worker_retention;
  options.max_spec_bytes_in_hot_state = max_spec_bytes;
  coordinator = std::make_unique<Coordinator>(options);
  ledger->PublishReplayed();
  ASSERT_TRUE(coordinator->Start().ok());
}

void CoordinatorTest::Pump() {
  do {
    while (ledger->CommitGroup()) {
    }
  } while (coordinator->scheduler().RunOnce() > 0);
}

void CoordinatorTest::Pass(absl::Duration duration) {
  clock.Advance(duration);
  coordinator->Tick();
  Pump();
}

JobDone CoordinatorTest::Into(absl::StatusOr<JobPtr>* result) {
  return [result](absl::StatusOr<JobPtr> job) { *result = std::move(job); };
}

absl::StatusOr<JobPtr> CoordinatorTest::Create(const std::string& request_id, const std::string& name) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec(name);
  request.set_request_id(request_id);
  absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  return result;
}

std::string CoordinatorTest::CreateIdOf(const std::string& preset) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_precision()->set_preset(preset);
  absl::StatusOr<JobPtr> result = absl::UnknownError("never answered");
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  return (*result)->id();
}

std::string CoordinatorTest::RemoveWorker(const std::string& name) {
  absl::Status removed = absl::UnknownError("never answered");
  v1::RemoveWorkerRequest request;
  request.set_name(name);
  coordinator->sessions().RemoveWorker(request, [&](absl::Status status) { removed = status; });
  Pump();
  return removed.ok() ? "OK" : ReasonOf(removed);
}

v1::WorkerDirective CoordinatorTest::Exchange(ScriptedWorker& worker) {
  worker.report.set_sequence(worker.report.sequence() + 1);
  worker.report.set_send_boottime_nanos(static_cast<int64_t>(worker.report.sequence()));
  const auto answer = coordinator->sessions().HandleReport(worker.report);
  EXPECT_TRUE(answer.ok()) << answer.status();
  Pump();
  v1::WorkerDirective directive =
      *coordinator->sessions().CurrentDirective(worker.report.worker(), worker.report.incarnation());
  *worker.report.mutable_reflected() = directive.id();
  return directive;
}

v1::AttemptKey CoordinatorTest::StartOn(ScriptedWorker& worker, const std::string& job) {
  const v1::WorkerDirective directive = Exchange(worker);
  EXPECT_EQ(directive.attempts_size(), 1);
  const v1::AttemptKey key = directive.attempts(0).key();
  EXPECT_EQ(key.job_id(), job);
  worker.Has(key, v1::Attempt::RUNNING);
  Exchange(worker);
  return key;
}

std::string CoordinatorTest::Shown(const std::string& job) {
  return ledger->Read([&](const ClusterState& state) { return Show(state, job).substr(job.size() + 1); });
}

std::string CoordinatorTest::PrecisionOf(const std::string& job) {
  const v1::Attempt attempt = *coordinator->queries().GetJob(job).value()->attempts().rbegin();
  return absl::StrCat(attempt.precision(), attempt.emulated() ? " emulated" : "");
}

v1::Worker CoordinatorTest::ViewOf(const std::string& worker) {
  const v1::ListWorkersResponse response = coordinator->sessions().ListWorkers(v1::ListWorkersRequest()).value();
  for (const v1::Worker& view : response.workers()) {
    if (view.name() == worker) {
      return view;
    }
  }
  return v1::Worker();
}

void CoordinatorTest::OnWorkerTrouble(const std::string& worker, const std::string& line) {
  troubles.push_back(absl::StrCat(worker, ": ", line));
}

void CoordinatorTest::OnEvents(const std::string& /*job*/, const std::vector<v1::Event>& events) {
  num_events += static_cast<int>(events.size());
  for (const v1::Event& event : events) {
    started_over += event.kind() == v1::Event::STARTED_OVER ? event.message() : "";
  }
}

}  // namespace ampd::server
