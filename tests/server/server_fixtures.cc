#include "tests/server/server_fixtures.h"

#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/grpc/channel.h"

namespace ampd::server {

std::unique_ptr<grpc::ClientContext> Context(absl::Duration deadline) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  return context;
}

namespace {

constexpr int64_t kSteps = 100;  // The number of steps of every job.

}  // namespace

v1::JobSpec GoodSpec(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->mutable_mlp();
  v1::SyntheticSource* data = spec.mutable_data()->mutable_train()->mutable_synthetic();
  data->add_shape(784);
  data->set_num_classes(10);
  data->set_num_samples(1024);
  spec.mutable_data()->set_batch_size(32);
  spec.mutable_precision()->set_preset("fp32");
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  spec.mutable_train()->set_steps(kSteps);
  return spec;
}

TestServer::TestServer(std::function<void(ServerConfig*)> adjust) : adjust_(std::move(adjust)) { Restart(); }

void TestServer::Restart() {
  server_.reset();
  ServerConfig config;
  config.socket = socket();
  config.listen = {"127.0.0.1", 0};
  config.trusts_loopback = true;
  config.metrics_listen = {"127.0.0.1", 0};
  config.data_dir = folder_.Path("data");
  config.drain_grace = kDrainGrace;
  if (adjust_) {
    adjust_(&config);
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    abort();
  }
  server_ = *std::move(server);
  Connect({.address = absl::StrCat("127.0.0.1:", server_->port()), .token = "", .tls = {}});
}

void ServerAccess::Connect(const ServerConnection& server) {
  server_ = server;
  jobs_ = v1::JobService::NewStub(NewChannel());
  workers_ = v1::WorkerService::NewStub(NewChannel());
  admin_ = v1::WorkerAdminService::NewStub(NewChannel());
}

std::shared_ptr<grpc::Channel> ServerAccess::NewChannel() const {
  grpc::ChannelArguments arguments;
  // Gives every channel its own connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return OpenChannel(server_, arguments);
}

v1::Job ServerAccess::CreateJob(const v1::JobSpec& spec) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  v1::Job job;
  const grpc::Status status = jobs_->CreateJob(Context().get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

bool ServerAccess::IsServing(const std::string& service) const {
  // The encoded request, which has one string: field 1.
  const std::string request =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  grpc::GenericStub stub(NewChannel());
  auto context = Context();
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  auto call = stub.PrepareUnaryCall(context.get(), "/grpc.health.v1.Health/Check", grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice bytes;
  return status.ok() && answer.DumpToSingleSlice(&bytes).ok() && std::string(bytes.begin(), bytes.end()) == "\x08\x01";
}

bool ServerAccess::AwaitServing(const std::string& service, bool wanted) const {
  for (const absl::Time end = absl::Now() + absl::Seconds(30); absl::Now() < end;) {
    if (IsServing(service) == wanted) {
      return true;
    }
  }
  return false;
}

v1::Job ServerAccess::GetJob(const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  const grpc::Status status = jobs_->GetJob(Context().get(), request, &job);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return job;
}

ScriptedWorker::ScriptedWorker(ServerAccess* server, const std::string& name, const std::string& agent)
    : server_(server), context_(Context()) {
  report_.set_worker(name);
  report_.mutable_agent()->set_id(agent);
  report_.mutable_agent()->set_place(agent + ":/state");
  report_.set_incarnation(name + "-1");
  v1::Device* cpu = report_.add_devices();
  cpu->set_id("cpu");
  cpu->set_kind(v1::Device::CPU);
  cpu->set_memory_total_bytes(8LL << 30);
  cpu->set_memory_free_bytes(8LL << 30);
  stream_ = server_->workers().Attach(context_.get());
}

ScriptedWorker::~ScriptedWorker() {
  if (stream_ != nullptr) {
    Close();
  }
}

v1::WorkerDirective ScriptedWorker::Report() {
  report_.set_sequence(report_.sequence() + 1);
  report_.set_send_boottime_nanos(absl::ToInt64Nanoseconds(SystemClock().SinceBoot()));
  EXPECT_TRUE(stream_->Write(report_));
  v1::WorkerDirective directive;
  while (stream_->Read(&directive)) {
    *report_.mutable_reflected() = directive.id();
    if (directive.acknowledged_report() >= report_.sequence()) {
      return directive;
    }
  }
  ADD_FAILURE() << "the stream ended";
  return directive;
}

void ScriptedWorker::SetAttempt(const v1::AttemptKey& key, v1::Attempt::State state, const v1::Outcome* outcome) {
  report_.clear_attempts();
  v1::AttemptReport* attempt = report_.add_attempts();
  *attempt->mutable_key() = key;
  attempt->set_state(state);
  attempt->set_step(1);
  if (outcome != nullptr) {
    *attempt->mutable_outcome() = *outcome;
  }
}

v1::AttemptKey ScriptedWorker::Adopt(const std::string& job) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    const v1::WorkerDirective directive = Report();
    for (const v1::AttemptDirective& attempt : directive.attempts()) {
      if (attempt.key().job_id() == job) {
        SetAttempt(attempt.key(), v1::Attempt::RUNNING);
        Report();
        return attempt.key();
      }
    }
  }
  ADD_FAILURE() << "job " << job << " was not given to the worker";
  return {};
}

std::string ScriptedWorker::SaveCheckpoint(const v1::AttemptKey& key, int64_t step) {
  SetAttempt(key, v1::Attempt::RUNNING);
  v1::Checkpoint* checkpoint = report_.mutable_attempts(0)->add_checkpoints();
  const std::string path = absl::StrCat(key.job_id(), "/", key.attempt(), "/step-", step);
  checkpoint->set_attempt(key.attempt());
  checkpoint->set_step(step);
  checkpoint->set_path(path);
  checkpoint->set_worker(report_.worker());
  checkpoint->set_local(true);
  checkpoint->set_size_bytes(10);
  checkpoint->set_manifest_sha256(std::string(64, 'a'));
  checkpoint->set_state_hash(std::string(64, 'b'));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    if (Report().acknowledged_checkpoints_size() > 0) {
      report_.mutable_attempts(0)->clear_checkpoints();
      return path;
    }
  }
  ADD_FAILURE() << "the checkpoint was not recorded";
  return "";
}

v1::FileRequest ScriptedWorker::AwaitFileRequest() {
  v1::WorkerDirective directive;
  while (stream_->Read(&directive)) {
    if (directive.send_files_size() > 0) {
      return directive.send_files(0);
    }
  }
  ADD_FAILURE() << "the stream ended";
  return {};
}

void ScriptedWorker::Finish(const v1::AttemptKey& key, uint64_t last_sequence) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::FINISHED);
  outcome.set_reason(v1::Reason::SUCCEEDED_NORMALLY);
  outcome.set_last_sequence(last_sequence);
  outcome.set_last_step(kSteps);
  SetAttempt(key, v1::Attempt::ENDED, &outcome);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    if (Report().acknowledged_outcomes_size() > 0) {
      report_.clear_attempts();
      return;
    }
  }
  ADD_FAILURE() << "the outcome was not acknowledged";
}

v1::TelemetryAck ScriptedWorker::Upload(const v1::AttemptKey& key, const v1::TelemetryBatch& batch,
                                        const std::string& log, int64_t log_offset) {
  auto context = Context();
  auto stream = server_->workers().ReportTelemetry(context.get());
  v1::TelemetryUpload upload;
  upload.set_worker(report_.worker());
  *upload.mutable_key() = key;
  *upload.mutable_batch() = batch;
  if (!log.empty()) {
    upload.mutable_log()->set_content(log);
    upload.mutable_log()->set_offset_bytes(log_offset);
  }
  EXPECT_TRUE(stream->Write(upload));
  v1::TelemetryAck ack;
  EXPECT_TRUE(stream->Read(&ack));
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return ack;
}

grpc::Status ScriptedWorker::ReportToBeRefused() {
  report_.set_sequence(report_.sequence() + 1);
  stream_->Write(report_);
  return Close();
}

grpc::Status ScriptedWorker::Close() {
  stream_->WritesDone();
  return AwaitEnd();
}

grpc::Status ScriptedWorker::AwaitEnd() {
  v1::WorkerDirective directive;
  while (stream_->Read(&directive)) {
  }
  const grpc::Status status = stream_->Finish();
  stream_ = nullptr;
  return status;
}

}  // namespace ampd::server
