#include "tests/worker/agent/fake_server.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/formats/sha256.h"

namespace ampd::agent {

FakeServer::FakeServer(absl::Duration lease, int port) : lease_(lease) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  builder.RegisterService(&artifact_service_);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  SetBusy(false);
  server_->Shutdown(std::chrono::system_clock::now());
}

std::string FakeServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::string FakeServer::AddArtifact(const std::string& content) {
  absl::MutexLock lock(&mutex_);
  artifacts_[Sha256Hex(content)] = content;
  return Sha256Hex(content);
}

void FakeServer::HideArtifacts(bool hidden) {
  absl::MutexLock lock(&mutex_);
  artifacts_hidden_ = hidden;
}

void FakeServer::StallArtifacts() {
  absl::MutexLock lock(&mutex_);
  artifacts_stalled_ = true;
}

grpc::Status FakeServer::Artifacts::DownloadArtifact(grpc::ServerContext* context,
                                                     const v1::DownloadArtifactRequest* request,
                                                     grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) {
  v1::DownloadArtifactResponse piece;
  bool is_stalled = false;
  {
    absl::MutexLock lock(&server_->mutex_);
    ++server_->num_downloads_;
    if (server_->artifacts_hidden_) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "hidden");
    }
    const auto found = server_->artifacts_.find(request->name());
    if (found == server_->artifacts_.end()) {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no artifact");
    }
    is_stalled = server_->artifacts_stalled_;
    piece.set_content(found->second.substr(static_cast<size_t>(request->offset_bytes())));
  }
  writer->Write(piece);
  // Keep the download open until the client ends it. The server notices the end only when a write fails, so it keeps
  // writing. It writes empty pieces, because these never fill the flow-control window.
  while (is_stalled && !context->IsCancelled() && writer->Write(v1::DownloadArtifactResponse())) {
  }
  return grpc::Status::OK;
}

v1::AttemptKey FakeServer::Want(const std::string& job, const std::string& script, v1::Job::Desired desired,
                                const std::string& artifact) {
  absl::MutexLock lock(&mutex_);
  v1::AttemptDirective& wanted = wanted_[job];
  wanted.mutable_key()->set_job_id(job);
  wanted.mutable_key()->set_attempt(1);
  wanted.mutable_key()->set_token("token-" + job);
  wanted.mutable_spec()->set_name(script);
  if (!artifact.empty()) {
    wanted.mutable_spec()->mutable_model()->mutable_exported()->set_artifact(artifact);
  }
  wanted.set_desired(desired);
  wanted.set_desired_reason(desired == v1::Job::CANCEL ? v1::Reason::USER_CANCELLED : v1::Reason::USER_PAUSED);
  wanted.clear_devices();
  wanted.add_devices("cpu");
  return wanted.key();
}

void FakeServer::Drop(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  wanted_.erase(job);
}

void FakeServer::Delete(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  deletions_.push_back(path);
}

void FakeServer::SetSilent(bool silent) {
  absl::MutexLock lock(&mutex_);
  silent_ = silent;
}

void FakeServer::SetBusy(bool busy) {
  absl::MutexLock lock(&mutex_);
  busy_ = busy;
}

void FakeServer::EndStreamsWith(const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  end_with_ = status;
}

bool FakeServer::WaitFor(const std::function<bool(const FakeServer&)>& condition, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto holds = [&] { return condition(*this); };
  return mutex_.AwaitWithTimeout(absl::Condition(&holds), timeout);
}

std::string FakeServer::DeviceText() const {
  if (report_.devices().empty()) {
    return "";
  }
  const v1::Device& device = report_.devices(0);
  return device.id() + (device.unhealthy() ? " unhealthy: " + device.unhealthy_reason() : " healthy");
}

std::string FakeServer::StateOf(const std::string& job) const {
  for (const v1::AttemptReport& attempt : report_.attempts()) {
    if (attempt.key().job_id() == job) {
      return v1::Attempt::State_Name(attempt.state());
    }
  }
  return "";
}

int64_t FakeServer::StepOf(const std::string& job) const {
  for (const v1::AttemptReport& attempt : report_.attempts()) {
    if (attempt.key().job_id() == job) {
      return attempt.step();
    }
  }
  return 0;
}

const v1::Outcome* FakeServer::OutcomeOf(const std::string& job) const {
  const auto found = outcomes_.find(job);
  return found == outcomes_.end() ? nullptr : &found->second;
}

uint64_t FakeServer::stored(const std::string& job) const {
  const auto found = stored_.find(job);
  return found == stored_.end() ? 0 : found->second;
}

std::vector<v1::Sample> FakeServer::samples(const std::string& job) const {
  const auto found = samples_.find(job);
  return found == samples_.end() ? std::vector<v1::Sample>() : found->second;
}

std::string FakeServer::log(const std::string& job) const {
  const auto found = logs_.find(job);
  return found == logs_.end() ? "" : found->second;
}

grpc::Status FakeServer::Attach(grpc::ServerContext*,
                                grpc::ServerReaderWriter<v1::WorkerDirective, v1::WorkerReport>* stream) {
  v1::WorkerReport report;
  while (stream->Read(&report)) {
    v1::WorkerDirective directive;
    {
      absl::MutexLock lock(&mutex_);
      if (!end_with_.ok()) {
        ++num_ended_streams_;
        return end_with_;
      }
      if (silent_) {
        continue;
      }
      directive = Answer(report);
    }
    stream->Write(directive);
  }
  return grpc::Status::OK;
}

v1::WorkerDirective FakeServer::Answer(const v1::WorkerReport& report) {
  ++num_reports_;
  report_ = report;
  v1::WorkerDirective directive;
  directive.mutable_id()->set_epoch(1);
  directive.mutable_id()->set_number(next_directive_++);
  directive.set_acknowledged_report(report.sequence());
  const int64_t lease_nanos = absl::ToInt64Nanoseconds(lease_);
  directive.mutable_lease()->set_seconds(lease_nanos / 1'000'000'000);
  directive.mutable_lease()->set_nanos(static_cast<int32_t>(lease_nanos % 1'000'000'000));
  directive.set_renewal_of_boottime_nanos(report.send_boottime_nanos());
  directive.mutable_suspend_limit()->set_seconds(60);
  for (const v1::AttemptReport& attempt : report.attempts()) {
    if (attempt.state() == v1::Attempt::ENDED) {
      outcomes_[attempt.key().job_id()] = attempt.outcome();
      wanted_.erase(attempt.key().job_id());
      *directive.add_acknowledged_outcomes() = attempt.key();
    }
    for (const v1::Checkpoint& checkpoint : attempt.checkpoints()) {
      ++num_checkpoints_;
      const bool is_early = stored(attempt.key().job_id()) < static_cast<uint64_t>(checkpoint.step());
      num_early_checkpoints_ += is_early && attempt.state() != v1::Attempt::ENDED ? 1 : 0;
      v1::CheckpointKey& key = *directive.add_acknowledged_checkpoints();
      *key.mutable_attempt() = attempt.key();
      key.set_step(checkpoint.step());
      key.set_path(checkpoint.path());
    }
  }
  for (const auto& [job, wanted] : wanted_) {
    *directive.add_attempts() = wanted;
  }
  for (const std::string& path : deletions_) {
    directive.add_delete_checkpoints()->set_path(path);
  }
  return directive;
}

grpc::Status FakeServer::ReportTelemetry(grpc::ServerContext*,
                                         grpc::ServerReaderWriter<v1::TelemetryAck, v1::TelemetryUpload>* stream) {
  v1::TelemetryUpload upload;
  while (stream->Read(&upload)) {
    v1::TelemetryAck ack;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_time = [this] { return !busy_; };
      mutex_.Await(absl::Condition(&has_time));
      ack = Store(upload);
    }
    stream->Write(ack);
  }
  return grpc::Status::OK;
}

v1::TelemetryAck FakeServer::Store(const v1::TelemetryUpload& upload) {
  const std::string& job = upload.key().job_id();
  num_uploads_ += upload.has_batch() ? 1 : 0;
  std::set<uint64_t> sequences(upload.batch().steps().sequence().begin(), upload.batch().steps().sequence().end());
  for (const v1::Sample& sample : upload.batch().samples()) {
    sequences.insert(sample.attempt_sequence());
    if (sample.attempt_sequence() > stored_[job]) {
      samples_[job].push_back(sample);
    }
  }
  largest_upload_ = std::max(largest_upload_, upload.ByteSizeLong());
  for (uint64_t sequence : sequences) {
    num_gaps_ += sequence > stored_[job] + 1 ? 1 : 0;
    stored_[job] = std::max(stored_[job], sequence);
  }
  std::string& log = logs_[job];
  if (upload.has_log() && upload.log().offset_bytes() == static_cast<int64_t>(log.size())) {
    log += upload.log().content();
  }
  v1::TelemetryAck ack;
  *ack.mutable_key() = upload.key();
  ack.set_stored_sequence(stored_[job]);
  ack.set_stored_log_bytes(static_cast<int64_t>(log.size()));
  return ack;
}

}  // namespace ampd::agent
