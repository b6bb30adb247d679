#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "ampd/v1/worker_admin_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "tests/client/fake_artifacts.h"

namespace ampd::client {

// A fake job service that keeps jobs in memory. It keeps what the API promises: a repeated create returns the same
// job, all violations are reported at once, a cancelled job stays cancelled, and streams resume at a token. The test
// sets the faults. Thread-safe.
class FakeJobs final : public v1::JobService::Service {
 public:
  // What the fake service should do, set by tests, and what it has seen, read by tests. A fault that has happened is
  // not repeated.
  struct Script {
    int refuse_creates = 0;   // creates answered UNAVAILABLE after the job is stored, as if the answer were lost
    int cut_watch_after = 0;  // messages after which a watch stream ends with UNAVAILABLE; 0: never
    int num_cuts = 0;         // number of streams that ended so
    std::vector<std::string> watch_tokens;  // resume token of each stream that was opened
    grpc::StatusCode refuse_gets = grpc::StatusCode::OK;
    std::vector<std::string> unsupported_fields;     // fields because of which every create is refused
    v1::Job::State created_state = v1::Job::QUEUED;  // initial state of created jobs
    bool hold_watches = false;                       // whether a watch waits for `release` after its snapshot
    bool answers_gradients = false;  // a watch waits after the snapshot until gradients are requested, then sends them
    bool gradients_asked = false;
    bool no_worker_fits = false;  // whether the answer to ExplainJob is that no worker could run the job
    v1::Retention retention;      // retention of created jobs, if not empty
    bool trains_gans = false;     // whether steps have the two phases of a GAN
    std::vector<v1::UpdateJobRequest> updates;
    std::vector<v1::CloneJobRequest> clones;
    std::vector<v1::TailLogsRequest> log_requests;
    std::vector<v1::ResolvePolicyRequest> policy_requests;
    std::string manifest_sha256 = "a5e1f";                                // manifest digest of all checkpoints
    std::set<std::tuple<std::string, int, int64_t>> deleted_checkpoints;  // job, attempt and step of each
  };
  absl::Notification watching;  // notified when a watch waits after its snapshot
  absl::Notification release;

  // Gives access to the script under the lock that calls on other threads use. The lock is held until the end of the
  // expression.
  class LockedScript {
   public:
    explicit LockedScript(FakeJobs* jobs) : lock_(&jobs->mutex_), script_(&jobs->script_) {}
    Script* operator->() { return script_; }

   private:
    absl::MutexLock lock_;
    Script* const script_;
  };
  LockedScript script() { return LockedScript(this); }

  v1::Job Add(const std::string& name, v1::Job::State state) {
    absl::MutexLock lock(&mutex_);
    return AddLocked(name, state);
  }
  size_t size() {
    absl::MutexLock lock(&mutex_);
    return jobs_.size();
  }

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request, v1::Job* job) override {
    absl::MutexLock lock(&mutex_);
    std::vector<FieldViolation> violations;
    if (request->spec().name().empty()) {
      violations.push_back({"name", "must be set"});
    }
    if (request->spec().data().batch_size() < 1) {
      violations.push_back({"data.batch_size", absl::StrCat(request->spec().data().batch_size(), " is below 1")});
    }
    if (!violations.empty()) {
      return ToGrpcStatus(InvalidFields(violations));
    }
    if (!script_.unsupported_fields.empty()) {
      std::vector<FieldViolation> unsupported;
      for (const std::string& field : script_.unsupported_fields) {
        unsupported.push_back({field, "this server has one queue"});
      }
      return ToGrpcStatus(UnsupportedFields(unsupported));
    }
    if (request->validate_only()) {
      *job->mutable_spec() = request->spec();
      return grpc::Status::OK;
    }
    const auto known = by_request_.find(request->request_id());
    if (known == by_request_.end()) {
      *job = AddLocked(request->spec().name(), script_.created_state);
      *jobs_[job->id()].mutable_spec() = request->spec();
      by_request_[request->request_id()] = job->id();
    } else {
      *job = jobs_[known->second];
    }
    if (script_.retention.has_history() || script_.retention.has_checkpoints()) {
      *job->mutable_retention() = script_.retention;
    }
    if (script_.refuse_creates > 0) {
      --script_.refuse_creates;
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::Job* job) override {
    if (const grpc::StatusCode refused = script()->refuse_gets; refused != grpc::StatusCode::OK) {
      return grpc::Status(refused, "refused");
    }
    return Find(request->id(), job);
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request, v1::ListJobsResponse* page) override {
    constexpr size_t kPage = 2;
    absl::MutexLock lock(&mutex_);
    size_t from = 0;
    static_cast<void>(absl::SimpleAtoi(request->page_token(), &from));
    size_t index = 0;
    for (const auto& [id, job] : jobs_) {
      if (index >= from && index < from + kPage) {
        *page->add_jobs() = job;
      }
      ++index;
    }
    if (from == 0) {
      page->set_total_size(static_cast<int64_t>(jobs_.size()));
    }
    if (from + kPage < jobs_.size()) {
      page->set_next_page_token(absl::StrCat(from + kPage));
    }
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request, v1::Job* job) override {
    return Change(request->id(), v1::Job::CANCELLED, job);
  }
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request, v1::Job* job) override {
    return Change(request->id(), v1::Job::PAUSED, job);
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request, v1::Job* job) override {
    return Change(request->id(), v1::Job::QUEUED, job);
  }
  grpc::Status UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest* request, v1::Job* job) override {
    {
      absl::MutexLock lock(&mutex_);
      script_.updates.push_back(*request);
      script_.gradients_asked = request->sample_gradients();
    }
    return Find(request->id(), job);
  }
  grpc::Status CloneJob(grpc::ServerContext*, const v1::CloneJobRequest* request, v1::Job* job) override {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(request->id());
    if (found == jobs_.end()) {
      return NotFound(request->id());
    }
    script_.clones.push_back(*request);
    *job = AddLocked(request->name().empty() ? found->second.spec().name() : request->name(), script_.created_state);
    return grpc::Status::OK;
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request, google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(request->id());
    if (found == jobs_.end()) {
      return NotFound(request->id());
    }
    if (found->second.state() < v1::Job::SUCCEEDED) {
      return WrongState(found->second, "deleted");
    }
    jobs_.erase(found);
    return grpc::Status::OK;
  }
  grpc::Status ExplainJob(grpc::ServerContext*, const v1::ExplainJobRequest* request,
                          v1::ExplainJobResponse* response) override {
    v1::Job job;
    const grpc::Status found = Find(request->id(), &job);
    response->set_state(job.state());
    response->set_reason(v1::INSUFFICIENT_MEMORY);
    response->set_message("no device has 8.0 GiB free");
    v1::DeviceVerdict* verdict = response->add_devices();
    verdict->set_worker("w1");
    verdict->set_device("cpu");
    verdict->set_reason(v1::INSUFFICIENT_MEMORY);
    verdict->set_message("needs 8.0 GiB, 4.0 GiB free");
    verdict->set_needed(int64_t{8} << 30);
    verdict->set_available(int64_t{4} << 30);
    return found;
  }
  grpc::Status ResolvePolicy(grpc::ServerContext*, const v1::ResolvePolicyRequest* request,
                             v1::PolicyTable* table) override {
    script()->policy_requests.push_back(*request);
    table->set_preset(request->precision().preset());
    table->set_text("preset " + request->precision().preset() + "\nop aten.linear.default lower\n");
    table->add_warnings("module_rules: \"x\" matches no module");
    return grpc::Status::OK;
  }
  grpc::Status EstimateJob(grpc::ServerContext*, const v1::EstimateJobRequest* request,
                           v1::EstimateJobResponse* estimate) override {
    auto* candidate = estimate->add_candidates();
    candidate->set_precision(request->spec().precision().preset());
    candidate->set_device_kind("CPU");
    candidate->set_total_bytes(int64_t{3} << 20);
    candidate->set_largest_batch_size(77);
    estimate->set_memory_bytes(request->spec().resources().memory_bytes());
    if (estimate->memory_bytes() == 0 && !script()->no_worker_fits) {
      for (const int64_t gib : {4, 16}) {
        auto* fit = candidate->add_fits();
        fit->set_worker(gib == 4 ? "w1" : "w2");
        fit->set_device("cpu");
        fit->set_memory_bytes(gib << 30);
        fit->set_largest_batch_size(100 * gib);
      }
    }
    return grpc::Status::OK;
  }
  // Returns the columns of the phase with this name. Adds them if `steps` has none.
  static v1::PhaseColumns& PhaseOf(v1::StepColumns* steps, const std::string& name) {
    for (v1::PhaseColumns& phase : *steps->mutable_phases()) {
      if (phase.name() == name) {
        return phase;
      }
    }
    steps->add_phases()->set_name(name);
    return *steps->mutable_phases()->rbegin();
  }

  // Returns metric points of the first attempt: two steps and an evaluation.
  grpc::Status ListMetricPoints(grpc::ServerContext*, const v1::ListMetricPointsRequest* request,
                                v1::ListMetricPointsResponse* page) override {
    v1::Job job;
    const grpc::Status found = Find(request->id(), &job);
    auto* segment = page->add_segments();
    segment->set_attempt(1);
    for (const int step : {1, 2}) {
      v1::StepColumns* steps = segment->mutable_steps();
      steps->add_step(step);
      steps->add_loss(0.5F / static_cast<float>(step));
      steps->add_grad_norm(std::numeric_limits<float>::infinity());
      steps->add_loss_scale(65536);
      steps->add_skipped(step == 2);
      steps->add_learning_rate(0.125);
      if (script()->trains_gans) {
        for (const char* name : {"discriminator", "generator"}) {
          v1::PhaseColumns& phase = PhaseOf(steps, name);
          phase.add_loss(3.5F);
          phase.add_grad_norm(0.75F);
          phase.add_skipped(step == 2 && phase.name() == "generator");
        }
      }
    }
    segment->add_evals()->set_accuracy(0.75);
    return found;
  }
  grpc::Status ListEvents(grpc::ServerContext*, const v1::ListEventsRequest* request,
                          v1::ListEventsResponse* page) override {
    v1::Job job;
    const grpc::Status found = Find(request->id(), &job);
    page->add_events()->set_kind(v1::Event::CREATED);
    v1::Event* overflow = page->add_events();
    overflow->set_kind(v1::Event::OVERFLOW);
    overflow->set_sequence(2);
    overflow->set_step(2);
    (*overflow->mutable_attributes())["scale"] = "65536";
    return found;
  }
  // Returns two checkpoints of every job, except those that were deleted. The newer one is from a second attempt on
  // another worker.
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    v1::Job job;
    const grpc::Status found = Find(request->id(), &job);
    absl::MutexLock lock(&mutex_);
    for (const int attempt : {1, 2}) {
      if (script_.deleted_checkpoints.contains({request->id(), attempt, 20})) {
        continue;
      }
      v1::Checkpoint* checkpoint = response->add_checkpoints();
      checkpoint->set_attempt(attempt);
      checkpoint->set_step(20);
      checkpoint->set_path(absl::StrCat(request->id(), "/", attempt, "/step-20"));
      checkpoint->set_worker(absl::StrCat("w", attempt));
      checkpoint->set_local(attempt == 1);
      checkpoint->set_size_bytes(4096);
      checkpoint->set_state_hash("5ta7e");
      checkpoint->set_manifest_sha256(script_.manifest_sha256);
      if (attempt == 2) {
        checkpoint->set_eval_loss(0.25);
      }
    }
    return found;
  }
  grpc::Status DeleteCheckpoint(grpc::ServerContext*, const v1::DeleteCheckpointRequest* request,
                                google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    script_.deleted_checkpoints.insert({request->id(), request->attempt(), request->step()});
    return grpc::Status::OK;
  }
  // Sends a snapshot, ten steps, one event and the final message, with sequences 1 to 13. The resume token is the
  // sequence.
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    v1::Job job;
    if (const grpc::Status found = Find(request->id(), &job); !found.ok()) {
      return found;
    }
    int cut_after = 0;
    bool hold = false;
    uint64_t sequence = 0;
    {
      absl::MutexLock lock(&mutex_);
      script_.watch_tokens.push_back(request->resume_token());
      static_cast<void>(absl::SimpleAtoi(request->resume_token(), &sequence));
      cut_after = script_.cut_watch_after;
      hold = script_.hold_watches;
    }
    if (hold) {
      writer->Write(MessageAt(1, job));
      watching.Notify();
      release.WaitForNotification();
      return grpc::Status::OK;
    }
    if (script()->answers_gradients) {
      return AnswerGradients(job, writer);
    }
    for (int sent = 0; sequence < 13; ++sent) {
      if (cut_after > 0 && sent == cut_after) {
        absl::MutexLock lock(&mutex_);
        ++script_.num_cuts;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
      }
      writer->Write(MessageAt(++sequence, job));
    }
    return grpc::Status::OK;
  }
  grpc::Status TailLogs(grpc::ServerContext*, const v1::TailLogsRequest* request,
                        grpc::ServerWriter<v1::TailLogsResponse>* writer) override {
    v1::Job job;
    if (const grpc::Status found = Find(request->id(), &job); !found.ok()) {
      return found;
    }
    {
      absl::MutexLock lock(&mutex_);
      script_.log_requests.push_back(*request);
    }
    const std::string log = "line one\nline two\n";
    const int64_t from = request->offset_bytes() < 0 ? static_cast<int64_t>(log.size()) + request->offset_bytes()
                                                     : request->offset_bytes();
    v1::TailLogsResponse piece;
    piece.set_attempt(1);
    piece.set_offset_bytes(from);
    piece.set_content(log.substr(from, 9));
    writer->Write(piece);
    if (from == 0) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    }
    return grpc::Status::OK;
  }

 private:
  static grpc::Status NotFound(const std::string& id) {
    return ToGrpcStatus(Error(absl::StatusCode::kNotFound, "JOB_NOT_FOUND", absl::StrCat("there is no job ", id)));
  }

  static grpc::Status WrongState(const v1::Job& job, const std::string& what) {
    const std::string& state = v1::Job::State_Name(job.state());
    return ToGrpcStatus(ErrorWithMetadata(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                                          absl::StrCat("job ", job.id(), " is ", state, " and can't be ", what),
                                          {{"job", job.id()}, {"state", state}}));
  }

  static float LossOf(uint64_t step) { return 1.0F / static_cast<float>(step + 1); }

  // Returns the progress of a watched job after `step`. The real server sends it beside the points, and the record of
  // an ended job has it.
  static v1::Progress ProgressAfter(uint64_t step) {
    v1::Progress progress;
    progress.set_step(static_cast<int64_t>(step));
    progress.set_loss(LossOf(step));
    progress.set_loss_scale(65536);
    progress.set_skipped_steps(step >= 2 ? 1 : 0);
    return progress;
  }

  static v1::WatchJobResponse MessageAt(uint64_t sequence, const v1::Job& job) {
    v1::WatchJobResponse message;
    message.set_sequence(sequence);
    message.set_resume_token(absl::StrCat(sequence));
    if (sequence == 1) {
      *message.mutable_snapshot() = job;
      message.mutable_snapshot()->set_state(job.state() == v1::Job::PAUSED ? job.state() : v1::Job::RUNNING);
    } else if (sequence <= 11) {
      v1::StepColumns* steps = message.mutable_steps();
      steps->add_step(static_cast<int64_t>(sequence) - 1);
      steps->add_loss(LossOf(sequence - 1));
      steps->add_loss_scale(65536);
      steps->add_skipped(sequence == 3);
      *message.mutable_progress() = ProgressAfter(sequence - 1);
    } else if (sequence == 12) {
      message.mutable_event()->set_kind(v1::Event::OVERFLOW);
      message.mutable_event()->set_step(2);
    } else {
      *message.mutable_final() = job;
      *message.mutable_final()->mutable_progress() = ProgressAfter(10);
      message.mutable_final()->set_message("after ten steps");
    }
    return message;
  }

  grpc::Status AnswerGradients(const v1::Job& job, grpc::ServerWriter<v1::WatchJobResponse>* writer) {
    writer->Write(MessageAt(1, job));
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&script_.gradients_asked), absl::Seconds(60));
      script_.gradients_asked = false;
    }
    v1::WatchJobResponse message = MessageAt(12, job);
    message.mutable_event()->set_kind(v1::Event::GRADIENTS_SAMPLED);
    v1::GradientSamples& gradients = *message.mutable_event()->mutable_gradients();
    gradients.set_suggested_scale(4096);
    v1::GradientSamples::Module& module = *gradients.add_modules();
    module.set_module("layers.0");
    module.set_dtype("float16");
    module.set_num_elements(200);
    module.set_num_zero(50);
    module.set_num_subnormal(20);
    module.set_least_exponent(-16);
    for (const int64_t count : {20, 100, 30}) {
      module.add_counts(count);
    }
    v1::GradientSamples::Module& in_fp8 = *gradients.add_modules();
    in_fp8.set_module("layers.2");
    in_fp8.set_dtype("bfloat16");
    in_fp8.mutable_fp8()->set_step(1001);
    in_fp8.mutable_fp8()->set_weight_underflow(0.125);
    in_fp8.mutable_fp8()->set_gradient_saturation(0.002);
    in_fp8.mutable_fp8()->set_forward_error(0.037);
    writer->Write(message);
    writer->Write(MessageAt(13, job));
    return grpc::Status::OK;
  }

  // Sets the job's state, unless it is terminal.
  grpc::Status Change(const std::string& id, v1::Job::State state, v1::Job* job) {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) {
      return NotFound(id);
    }
    if (found->second.state() < v1::Job::SUCCEEDED) {
      found->second.set_state(state);
    }
    *job = found->second;
    return grpc::Status::OK;
  }

  grpc::Status Find(const std::string& id, v1::Job* job) {
    absl::MutexLock lock(&mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) {
      return NotFound(id);
    }
    *job = found->second;
    return grpc::Status::OK;
  }

  v1::Job AddLocked(const std::string& name, v1::Job::State state) {
    v1::Job job;
    job.set_id(absl::StrCat("j-", std::string(15, 'a'), static_cast<int>(jobs_.size())));
    job.mutable_spec()->set_name(name);
    job.set_state(state);
    jobs_[job.id()] = job;
    return job;
  }

  absl::Mutex mutex_;
  Script script_;
  std::map<std::string, v1::Job> jobs_;
  std::map<std::string, std::string> by_request_;
};

class FakeWorkers final : public v1::WorkerAdminService::Service {
 public:
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    *response->add_workers() = worker_;
    return grpc::Status::OK;
  }
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request, v1::Worker* worker) override {
    if (request->name() != "w1") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no worker " + request->name());
    }
    worker_.set_state(v1::Worker::DRAINING);
    *worker = worker_;
    return grpc::Status::OK;
  }

  grpc::Status UndrainWorker(grpc::ServerContext*, const v1::UndrainWorkerRequest* request,
                             v1::Worker* worker) override {
    if (request->name() != "w1") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no worker " + request->name());
    }
    worker_.set_state(v1::Worker::READY);
    *worker = worker_;
    return grpc::Status::OK;
  }

  grpc::Status RemoveWorker(grpc::ServerContext*, const v1::RemoveWorkerRequest* request,
                            v1::RemoveWorkerResponse*) override {
    return request->name() == "w1" ? grpc::Status::OK
                                   : grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no worker " + request->name());
  }

  FakeWorkers() {
    worker_.set_name("w1");
    worker_.set_state(v1::Worker::READY);
    worker_.set_version("1.2.3");
    v1::Device* device = worker_.add_devices();
    device->set_id("gpu0");
    device->set_kind(v1::Device::GPU);
    device->set_capability_major(9);
  }

 private:
  v1::Worker worker_;
};

// A server of all fake services on a free loopback port.
struct FakeServer {
  FakeServer() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&jobs);
    builder.RegisterService(&workers);
    builder.RegisterService(&artifacts);
    server = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port); }

  int port = 0;
  FakeJobs jobs;
  FakeWorkers workers;
  FakeArtifacts artifacts;
  std::unique_ptr<grpc::Server> server;
};

}  // namespace ampd::client
