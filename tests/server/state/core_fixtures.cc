#include "tests/server/state/core_fixtures.h"

#include "absl/strings/str_cat.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

v1::AttemptKey KeyOf(const std::string& job, int attempt) {
  v1::AttemptKey key;
  key.set_job_id(job);
  key.set_attempt(attempt);
  key.set_token(absl::StrCat("t", attempt));
  return key;
}

}  // namespace

v1::JobSpec SmallSpec(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->mutable_mlp()->set_in_features(4);
  v1::SyntheticSource& source = *spec.mutable_data()->mutable_train()->mutable_synthetic();
  source.add_shape(4);
  source.set_num_classes(2);
  source.set_num_samples(100);
  spec.mutable_data()->set_batch_size(10);
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  spec.mutable_train()->set_steps(kSmallSteps);
  return spec;
}

v1::Worker CpuWorker(const std::string& name) {
  v1::Worker worker;
  worker.set_name(name);
  v1::Device& device = *worker.add_devices();
  device.set_id("cpu");
  device.set_kind(v1::Device::CPU);
  device.set_memory_total_bytes(8ll << 30);
  return worker;
}

v1::Checkpoint CheckpointAt(const std::string& job, int attempt, int64_t step) {
  v1::Checkpoint checkpoint;
  checkpoint.set_attempt(attempt);
  checkpoint.set_step(step);
  checkpoint.set_path(absl::StrCat(job, "/", attempt, "/step-", step));
  checkpoint.set_manifest_sha256(std::string(64, 'a'));
  checkpoint.set_state_hash(std::string(64, 'b'));
  return checkpoint;
}

v1::Outcome OutcomeOf(v1::Outcome::Kind kind, v1::Reason::Code reason) {
  v1::Outcome outcome;
  outcome.set_kind(kind);
  outcome.set_reason(reason);
  outcome.set_last_step(kind == v1::Outcome::FINISHED ? kSmallSteps : 0);
  return outcome;
}

internal::Update UpdateMaker::New() {
  internal::Update update;
  update.set_time_unix_micros(seconds_++ * 1'000'000);
  return update;
}

internal::Update UpdateMaker::Create(const std::string& id, const std::string& request_id, const std::string& digest) {
  internal::Update update = New();
  update.mutable_create_job()->set_id(id);
  *update.mutable_create_job()->mutable_spec() = SmallSpec();
  update.mutable_create_job()->mutable_spec()->mutable_checkpoint()->set_keep(2);
  update.mutable_create_job()->set_request_id(request_id);
  update.mutable_create_job()->set_request_digest(digest);
  return update;
}

internal::Update UpdateMaker::Desire(const std::string& job, v1::Job::Desired desired) {
  internal::Update update = New();
  update.mutable_set_desired()->set_job(job);
  update.mutable_set_desired()->set_desired(desired);
  return update;
}

internal::Update UpdateMaker::Register(const std::string& worker) {
  internal::Update update = New();
  *update.mutable_register_worker()->mutable_worker() = CpuWorker(worker);
  return update;
}

internal::Update UpdateMaker::Drain(const std::string& worker, bool drained) {
  internal::Update update = New();
  update.mutable_set_drained()->set_worker(worker);
  update.mutable_set_drained()->set_drained(drained);
  return update;
}

internal::Update UpdateMaker::Lose(const std::string& worker) {
  internal::Update update = New();
  update.mutable_lose_worker()->set_worker(worker);
  return update;
}

internal::Update UpdateMaker::Assign(const std::string& job, int attempt, const std::string& worker) {
  internal::Update update = New();
  internal::AssignAttempt& assign = *update.mutable_assign_attempt();
  assign.set_job(job);
  assign.set_attempt(attempt);
  assign.set_token(absl::StrCat("t", attempt));
  assign.set_worker(worker);
  assign.add_devices("cpu");
  assign.set_precision("fp32");
  return update;
}

internal::Update UpdateMaker::Advance(const std::string& job, int attempt, v1::Attempt::State state) {
  internal::Update update = New();
  *update.mutable_advance_attempt()->mutable_key() = KeyOf(job, attempt);
  update.mutable_advance_attempt()->set_state(state);
  return update;
}

internal::Update UpdateMaker::Save(const std::string& job, int attempt, int64_t step) {
  internal::Update update = New();
  *update.mutable_record_checkpoint()->mutable_key() = KeyOf(job, attempt);
  *update.mutable_record_checkpoint()->mutable_checkpoint() = CheckpointAt(job, attempt, step);
  return update;
}

internal::Update UpdateMaker::End(const std::string& job, int attempt, v1::Outcome::Kind kind,
                                  v1::Reason::Code reason) {
  internal::Update update = New();
  *update.mutable_end_attempt()->mutable_key() = KeyOf(job, attempt);
  *update.mutable_end_attempt()->mutable_outcome() = OutcomeOf(kind, reason);
  return update;
}

PlacementTable FillTable(const ClusterState& state, const LiveWorkers& live) {
  PlacementTable table;
  for (const auto& [order, record] : state.jobs()) {
    table.PutJob(record->job().id(), record);
  }
  for (const auto& [name, record] : state.workers()) {
    table.PutWorker(name, record);
  }
  for (const auto& [name, facts] : live) {
    table.PutFacts(name, facts, absl::ZeroDuration());
  }
  return table;
}

std::string Show(const ClusterState& state, const std::string& id) {
  const JobRecordPtr record = state.FindJob(id);
  if (record == nullptr) {
    return id + ":none";
  }
  const v1::Job& job = record->job();
  std::string text = absl::StrCat(id, ":", v1::Job::State_Name(job.state()));
  if (IsActive(job.state())) {
    absl::StrAppend(&text, "@", job.attempts().rbegin()->worker(), "#", job.num_attempts());
  }
  if (job.reason() != v1::Reason::REASON_UNSPECIFIED) {
    absl::StrAppend(&text, " ", v1::Reason::Code_Name(job.reason()));
  }
  if (!job.checkpoints().empty()) {
    absl::StrAppend(&text, " ckpt=", job.checkpoints().rbegin()->step());
  }
  return text;
}

}  // namespace ampd::server
