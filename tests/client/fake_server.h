#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "ampd/v1/job_service.grpc.pb.h"
#include "ampd/v1/worker_admin_service.grpc.pb.h"
#include "base/error.h"
#include "base/grpc/grpc_status.h"
#include "tests/client/fake_artifacts.h"
#include "tests/client/fake_auth.h"
#include "tests/client/hostile_answers.h"

namespace ampd::client {

// A fake job service that keeps jobs in memory. It behaves like the real service: a repeated create returns the same
// job, all violations are reported at once, a cancelled job stays cancelled, and streams resume at a token. The test
// sets the faults. Thread-safe.
class FakeJobs final : public v1::JobService::Service {
 public:
  // Tests set in this struct what the fake service should do, and read from it what the service has received.
  struct Script {
    int refuse_creates = 0;         // how many creates store the job, but answer UNAVAILABLE as if the answer were lost
    int unavailable_gets = 0;       // how many calls of GetJob answer UNAVAILABLE, as if the server restarted
    int unavailable_streams = 0;    // how many calls of WatchJob and TailLogs answer UNAVAILABLE
    int unavailable_after_log = 0;  // how many streams answer UNAVAILABLE after a log of `attempt_logs` was sent
    int cut_watch_after = 0;        // number of messages after which a watch ends with the code `away`; 0: no limit
    int num_cuts = 0;               // number of watches that ended because of cut_watch_after
    // The status code with which a watch ends because of cut_watch_after. When a server drops a call during its
    // shutdown, gRPC itself ends the call with CANCELLED.
    grpc::StatusCode away = grpc::StatusCode::UNAVAILABLE;
    std::vector<std::string> watch_tokens;  // resume token of each watch that was opened
    grpc::StatusCode refuse_gets = grpc::StatusCode::OK;
    std::vector<std::string> unsupported_fields;     // if not empty, every create is rejected because of these fields
    v1::Job::State created_state = v1::Job::QUEUED;  // initial state of created jobs
    bool hold_watches = false;                       // whether a watch waits for `release` after its snapshot
    bool answers_gradients = false;  // whether a watch waits for a request for gradients and then sends them
    bool gradients_asked = false;
    // If above 0, a watch sends its snapshot, waits until a profile is requested, and then sends the event of a profile
    // that has this many files.
    int profile_files = 0;
    bool profile_asked = false;
    bool no_worker_fits = false;      // whether ExplainJob answers that no worker could run the job
    v1::Retention retention;          // retention of created jobs, if not empty
    bool trains_gans = false;         // whether steps have the two phases of a GAN
    v1::Pending pending;              // the reason why queued jobs wait, if not empty
    int64_t steps_per_list = 0;       // how many steps the first job does between two calls of ListJobs
    bool refuse_later_pages = false;  // whether ListJobs fails for every page except the first
    absl::Status refuse_requests;     // error of every ListJobs, CloneJob and UpdateJob, if not OK
    std::vector<v1::ListJobsRequest> list_requests;
    std::vector<v1::FindJobsRequest> find_requests;
    v1::Job::State ends_in = v1::Job::STATE_UNSPECIFIED;  // final state of watched jobs; unspecified: their own state
    std::string refused_preset;                           // creates with this preset are rejected
    std::vector<FieldViolation> violations;               // every create is rejected with these
    // Returns the metric points of a job; null: every job has the same two steps and one evaluation.
    std::function<v1::ListMetricPointsResponse(const v1::Job&)> points_of;
    bool lacks_server_info = false;  // whether the server is too old to report its version
    std::vector<v1::UpdateJobRequest> updates;
    std::vector<v1::CreateJobRequest> creates;
    std::vector<v1::CloneJobRequest> clones;
    std::vector<v1::TailLogsRequest> log_requests;
    std::vector<v1::ResolvePolicyRequest> policy_requests;
    std::string log = "line one\nline two\n";  // log of all attempts
    // The log of each attempt, in place of `log`. If this map is not empty, a watch sends only the job's record and
    // ends. Each reconnection first replaces the record by the next of `later_records`.
    std::map<int, std::string> attempt_logs;
    std::deque<v1::Job> later_records;
    std::string manifest_sha256 = "a5e1f";                                // digest of every checkpoint's manifest
    std::set<std::tuple<std::string, int, int64_t>> deleted_checkpoints;  // job, attempt and step of each
    std::map<std::string, std::string> checkpoint_files;                  // the files of every checkpoint, by name
    int cut_files = 0;                       // how many downloads of these files end with UNAVAILABLE after 10 bytes
    absl::Status refuse_files;               // error of every download of these files, if not OK
    std::vector<std::string> file_requests;  // each request for one of these files, as "name from OFFSET"
  };
  absl::Notification watching;  // notified when a watch waits after its snapshot
  absl::Notification release;

  // Gives access to the Script. Holds the lock that guards it until the end of the expression, because the service's
  // threads use the Script too.
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
  // Adds this job or replaces the one with its id.
  void Put(const v1::Job& job) {
    absl::MutexLock lock(&mutex_);
    jobs_[job.id()] = job;
  }
  size_t size() {
    absl::MutexLock lock(&mutex_);
    return jobs_.size();
  }
  // Returns the specs of all jobs, the oldest job first.
  std::vector<v1::JobSpec> Specs() {
    absl::MutexLock lock(&mutex_);
    std::vector<v1::JobSpec> specs;
    for (const auto& [id, job] : jobs_) {
      specs.push_back(job.spec());
    }
    return specs;
  }

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request, v1::Job* job) override {
    absl::MutexLock lock(&mutex_);
    script_.creates.push_back(*request);
    std::vector<FieldViolation> violations = script_.violations;
    if (request->spec().name().empty()) {
      violations.push_back({"name", "must be set"});
    }
    if (request->spec().data().batch_size() < 1) {
      violations.push_back({"data.batch_size", absl::StrCat(request->spec().data().batch_size(), " is below 1")});
    }
    if (!script_.refused_preset.empty() && request->spec().precision().preset() == script_.refused_preset) {
      violations.push_back({"precision.preset", script_.refused_preset + " does not fit the model"});
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
      *job->mutable_pending() = script_.pending;
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
      return grpc::Status(script_.away, "");
    }
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::Job* job) override {
    if (Fires(&Script::unavailable_gets)) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    if (const grpc::StatusCode refused = script()->refuse_gets; refused != grpc::StatusCode::OK) {
      return grpc::Status(refused, "refused");
    }
    const grpc::Status found = Find(request->id(), job);
    AddPending(job);
    return found;
  }
  // Finds jobs by id, name or the beginning of an id, like the real server. Returns at most two, the newest first.
  grpc::Status FindJobs(grpc::ServerContext*, const v1::FindJobsRequest* request,
                        v1::FindJobsResponse* response) override {
    constexpr int kMost = 2;
    absl::MutexLock lock(&mutex_);
    script_.find_requests.push_back(*request);
    for (auto entry = jobs_.rbegin(); entry != jobs_.rend(); ++entry) {
      const v1::Job& job = entry->second;
      if (job.spec().name() != request->text() && !job.id().starts_with(request->text())) {
        continue;
      }
      if (response->matches_size() == kMost) {
        response->set_more(true);
        break;
      }
      v1::FindJobsResponse::Match* match = response->add_matches();
      match->set_id(job.id());
      match->set_name(job.spec().name());
      match->set_state(job.state());
      *match->mutable_create_time() = job.create_time();
    }
    return grpc::Status::OK;
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::ServerInfo* info) override {
    if (script()->lacks_server_info) {
      return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    }
    info->set_version("9.8.7");
    return grpc::Status::OK;
  }
  // Lists two jobs per page. Supports only filters with a single term "labels.compare=..."; ignores most other filters.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request, v1::ListJobsResponse* page) override {
    constexpr size_t kPage = 2;
    constexpr char kTerm[] = "labels.compare=";
    absl::MutexLock lock(&mutex_);
    script_.list_requests.push_back(*request);
    if (!script_.refuse_requests.ok()) {
      return ToGrpcStatus(script_.refuse_requests);
    }
    if (script_.refuse_later_pages && !request->page_token().empty()) {
      return grpc::Status(grpc::StatusCode::INTERNAL, "refused");
    }
    size_t from = 0;
    static_cast<void>(absl::SimpleAtoi(request->page_token(), &from));
    size_t index = 0;
    for (const auto& [id, job] : jobs_) {
      const auto label = job.spec().labels().find("compare");
      if (request->filter().starts_with(kTerm) &&
          (label == job.spec().labels().end() || kTerm + label->second != request->filter())) {
        continue;
      }
      const std::string wanted = absl::StrCat("tenant=", job.tenant(), " AND (name=", job.spec().name(), ")");
      if (absl::StrContains(request->filter(), " AND (name=") && request->filter() != wanted) {
        continue;
      }
      if (index >= from && index < from + kPage) {
        *page->add_jobs() = job;
        AddPendingLocked(page->mutable_jobs(page->jobs_size() - 1));
      }
      ++index;
    }
    if (!jobs_.empty() && script_.steps_per_list > 0) {
      v1::Progress& progress = *jobs_.begin()->second.mutable_progress();
      progress.set_step(progress.step() + script_.steps_per_list);
    }
    if (from == 0) {
      page->set_total_size(static_cast<int64_t>(index));
    }
    if (from + kPage < index) {
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
      if (!script_.refuse_requests.ok()) {
        return ToGrpcStatus(script_.refuse_requests);
      }
      script_.gradients_asked = request->sample_gradients();
      script_.profile_asked = request->profile_steps() > 0;
      const auto& paths = request->update_mask().paths();
      const auto found = jobs_.find(request->id());
      if (found != jobs_.end() && std::find(paths.begin(), paths.end(), "priority") != paths.end()) {
        found->second.mutable_spec()->set_priority(request->priority());
      }
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
    if (!script_.refuse_requests.ok()) {
      return ToGrpcStatus(script_.refuse_requests);
    }
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
    response->set_reason(v1::PendingReason::INSUFFICIENT_MEMORY);
    response->set_message("no device has 8.0 GiB free");
    v1::DeviceVerdict* verdict = response->add_devices();
    verdict->set_worker("w1");
    verdict->set_device("cpu");
    verdict->set_reason(v1::PendingReason::INSUFFICIENT_MEMORY);
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

  // Returns the points of script()->points_of or, if that is null, two steps and an evaluation of one attempt.
  grpc::Status ListMetricPoints(grpc::ServerContext*, const v1::ListMetricPointsRequest* request,
                                v1::ListMetricPointsResponse* page) override {
    v1::Job job;
    const grpc::Status found = Find(request->id(), &job);
    if (const auto points_of = script()->points_of; points_of != nullptr) {
      *page = points_of(job);
      return found;
    }
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
  // Returns two checkpoints of every job, except those that were deleted. The newer checkpoint comes from a second
  // attempt on another worker.
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
  grpc::Status DownloadCheckpointFile(grpc::ServerContext*, const v1::DownloadCheckpointFileRequest* request,
                                      grpc::ServerWriter<v1::DownloadCheckpointFileResponse>* writer) override {
    absl::MutexLock lock(&mutex_);
    script_.file_requests.push_back(absl::StrCat(request->file_name(), " from ", request->offset_bytes()));
    if (!script_.refuse_files.ok()) {
      return ToGrpcStatus(script_.refuse_files);
    }
    const std::string& content = script_.checkpoint_files[request->file_name()];
    if (request->offset_bytes() > static_cast<int64_t>(content.size())) {
      return ToGrpcStatus(Error(absl::StatusCode::kFailedPrecondition, "CHECKPOINT_UNREADABLE", "beyond the file"));
    }
    const bool cut = request->file_name() != "state.json" && script_.cut_files > 0;
    script_.cut_files -= cut ? 1 : 0;
    v1::DownloadCheckpointFileResponse piece;
    piece.set_content(content.substr(static_cast<size_t>(request->offset_bytes()), cut ? 10 : std::string::npos));
    writer->Write(piece);
    return cut ? ToGrpcStatus(Error(absl::StatusCode::kUnavailable, "WORKER_UNREACHABLE", "it stopped"))
               : grpc::Status::OK;
  }
  // Sends a snapshot, ten steps, one event and the final message. Their sequence numbers are 1 to 13; the resume token
  // of a message is its sequence number.
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    if (Fires(&Script::unavailable_streams)) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    v1::Job job;
    if (const grpc::Status found = Find(request->id(), &job); !found.ok()) {
      return found;
    }
    if (!script()->attempt_logs.empty()) {
      return SendRecord(job, !request->resume_token().empty(), writer);
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
      job.set_state(script_.ends_in == v1::Job::STATE_UNSPECIFIED ? job.state() : script_.ends_in);
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
    if (script()->profile_files > 0) {
      return AnswerProfile(job, writer);
    }
    for (int sent = 0; sequence < 13; ++sent) {
      if (cut_after > 0 && sent == cut_after) {
        absl::MutexLock lock(&mutex_);
        ++script_.num_cuts;
        return grpc::Status(script_.away, "");
      }
      writer->Write(MessageAt(++sequence, job));
    }
    return grpc::Status::OK;
  }
  grpc::Status TailLogs(grpc::ServerContext*, const v1::TailLogsRequest* request,
                        grpc::ServerWriter<v1::TailLogsResponse>* writer) override {
    if (Fires(&Script::unavailable_streams)) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
    }
    v1::Job job;
    if (const grpc::Status found = Find(request->id(), &job); !found.ok()) {
      return found;
    }
    {
      absl::MutexLock lock(&mutex_);
      script_.log_requests.push_back(*request);
    }
    if (!script()->attempt_logs.empty()) {
      return SendAttemptLog(job, *request, writer);
    }
    const std::string log = script()->log;
    const int64_t size = static_cast<int64_t>(log.size());
    const int64_t from =
        request->offset_bytes() < 0 ? std::max<int64_t>(0, size + request->offset_bytes()) : request->offset_bytes();
    v1::TailLogsResponse piece;
    piece.set_attempt(1);
    piece.set_offset_bytes(from);
    piece.set_content(from == 0 ? log.substr(0, 9) : log.substr(from));
    writer->Write(piece);
    if (from == 0) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    }
    return grpc::Status::OK;
  }

 private:
  // Decrements the number of faults that are still to happen, unless it is 0. Returns whether the fault happens now.
  bool Fires(int Script::*count) {
    absl::MutexLock lock(&mutex_);
    if (script_.*count == 0) {
      return false;
    }
    --(script_.*count);
    return true;
  }

  void AddPendingLocked(v1::Job* job) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    if (job->state() == v1::Job::QUEUED && script_.pending.ByteSizeLong() > 0) {
      *job->mutable_pending() = script_.pending;
    }
  }
  void AddPending(v1::Job* job) {
    absl::MutexLock lock(&mutex_);
    AddPendingLocked(job);
  }

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

  // Returns the progress of a job after `step`. The real server sends the progress to watchers together with the
  // points, and keeps it in the record of an ended job.
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

  // Sends the job's record. If `is_reconnection`, first replaces the record by the next of `later_records`. Then ends
  // the stream as if the server restarted, or with the final message if the job has ended.
  grpc::Status SendRecord(v1::Job job, bool is_reconnection, grpc::ServerWriter<v1::WatchJobResponse>* writer) {
    absl::MutexLock lock(&mutex_);
    if (is_reconnection && !script_.later_records.empty()) {
      job = jobs_[job.id()] = script_.later_records.front();
      script_.later_records.pop_front();
    }
    v1::WatchJobResponse message;
    message.set_resume_token("1");
    *message.mutable_snapshot() = job;
    writer->Write(message);
    if (job.state() < v1::Job::SUCCEEDED) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    }
    *message.mutable_final() = job;
    writer->Write(message);
    return grpc::Status::OK;
  }

  grpc::Status SendAttemptLog(const v1::Job& job, const v1::TailLogsRequest& request,
                              grpc::ServerWriter<v1::TailLogsResponse>* writer) {
    v1::TailLogsResponse piece;
    piece.set_attempt(request.attempt() == 0 ? job.num_attempts() : request.attempt());
    absl::MutexLock lock(&mutex_);
    const std::string& log = script_.attempt_logs[piece.attempt()];
    script_.unavailable_streams += std::exchange(script_.unavailable_after_log, 0);
    const int64_t size = static_cast<int64_t>(log.size());
    piece.set_offset_bytes(request.offset_bytes() < 0 ? std::max<int64_t>(0, size + request.offset_bytes())
                                                      : request.offset_bytes());
    if (piece.offset_bytes() < size) {
      piece.set_content(log.substr(piece.offset_bytes()));
      writer->Write(piece);
    }
    return grpc::Status::OK;
  }

  grpc::Status AnswerProfile(const v1::Job& job, grpc::ServerWriter<v1::WatchJobResponse>* writer) {
    writer->Write(MessageAt(1, job));
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&script_.profile_asked), absl::Seconds(60));
      script_.profile_asked = false;
    }
    v1::WatchJobResponse message = MessageAt(12, job);
    v1::Event& event = *message.mutable_event();
    event.set_kind(v1::Event::PROFILED);
    event.set_step(0);  // the step of all artifacts in FakeArtifacts
    event.set_message("profiled 5 steps, up to step 0");
    (*event.mutable_attributes())["files"] = absl::StrCat(script()->profile_files);
    writer->Write(message);
    return grpc::Status::OK;
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

  // Replaces the worker's devices by one device of this kind. REQUIRES: no call is in progress.
  void SetDevice(v1::Device::Kind kind) {
    worker_.mutable_devices(0)->set_id(kind == v1::Device::CPU ? "cpu" : "gpu0");
    worker_.mutable_devices(0)->set_kind(kind);
  }

 private:
  v1::Worker worker_;
};

// A server on a free loopback port with all fake services.
struct FakeServer {
  FakeServer() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&jobs);
    builder.RegisterService(&workers);
    builder.RegisterService(&artifacts);
    builder.RegisterService(&auth);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(std::make_unique<HostileAnswersFactory>(&hostile_text));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    server = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port); }

  int port = 0;
  HostileText hostile_text;
  FakeJobs jobs;
  FakeWorkers workers;
  FakeArtifacts artifacts;
  FakeAuth auth;
  std::unique_ptr<grpc::Server> server;
};

}  // namespace ampd::client
