// The commands of JobCommands that create jobs.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/api/unknown_fields.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/admission/admission.h"
#include "server/coordinator/job_commands.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

// Returns a digest of the message. Equal messages have equal digests, even if they contain maps.
std::string DigestOf(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return Sha256Hex(bytes);
}

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() > 128) {
    return InvalidFields({{"request_id", absl::StrCat("has ", request_id.size(), " bytes; at most 128")}});
  }
  return absl::OkStatus();
}

void SetSubmitter(const Submitter& submitter, internal::CreateJob* create) {
  create->set_owner(submitter.owner);
  create->set_tenant(submitter.tenant);
  create->set_max_jobs(submitter.max_jobs);
  create->set_max_spec_bytes(submitter.max_spec_bytes);
  create->set_traceparent(FormatTraceparent(submitter.trace));
  create->set_parent_span_id(ParentSpanIdOf(submitter.trace));
}

// Returns a callback that releases the artifact and then answers the client with `done`. A created job protects the
// artifact from deletion from then on. If no job was created, the client may delete the artifact as soon as it has the
// answer.
JobDone ReleaseAndAnswer(std::shared_ptr<void> artifact, JobDone done) {
  return [artifact = std::move(artifact), done = std::move(done)](const absl::StatusOr<JobPtr>& job) mutable {
    artifact.reset();
    done(job);
  };
}

// Checks that a job ended before its last step, so that another job can continue from its checkpoint.
absl::Status CheckUnfinished(const Job& job) {
  if (IsTerminal(job.state()) && job.state() != Job::SUCCEEDED) {
    return absl::OkStatus();
  }
  const std::string& state = Job::State_Name(job.state());
  return ErrorWithMetadata(
      StatusCode::kFailedPrecondition, "WRONG_STATE",
      absl::StrCat("job ", job.id(), " is ", state,
                   job.state() == Job::SUCCEEDED ? "; it has finished, and nothing is left to continue; to train "
                                                   "further from its weights, submit a job with "
                                                   "model.initial_checkpoint"
                                                 : "; only a failed or cancelled job can be continued"),
      {{"job", job.id()}, {"state", state}});
}

}  // namespace

absl::Status JobCommands::CheckCapacity(size_t spec_bytes) const {
  if (!options_.ledger->HasRoomForSubmits()) {
    return WithRetryDelay(Error(StatusCode::kResourceExhausted, "DISK_FULL", "the server's disk is nearly full"),
                          absl::Seconds(30));
  }
  const auto [num_jobs, held_bytes] = options_.ledger->Read(
      [](const ClusterState& state) { return std::pair(state.jobs().size(), state.spec_bytes()); });
  if (num_jobs >= options_.max_jobs_in_hot_state) {
    return WithRetryDelay(
        Error(StatusCode::kResourceExhausted, "TOO_MANY_JOBS",
              absl::StrCat("the server holds ", options_.max_jobs_in_hot_state, " jobs, as many as it can")),
        absl::Seconds(30));
  }
  if (held_bytes + spec_bytes > options_.max_spec_bytes_in_hot_state) {
    return WithRetryDelay(
        Error(StatusCode::kResourceExhausted, "SPECS_TOO_LARGE",
              absl::StrCat("the spec has ", spec_bytes, " bytes, and the server has no more room; the specs of the ",
                           "jobs that it holds may have ", options_.max_spec_bytes_in_hot_state, " together")),
        absl::Seconds(30));
  }
  return absl::OkStatus();
}

void JobCommands::CommitNewJob(internal::CreateJob create, JobDone done) {
  if (const absl::Status capacity = CheckCapacity(create.spec().ByteSizeLong()); !capacity.ok()) {
    return done(capacity);
  }
  create.set_id("j-" + RandomId(*options_.random, 16));
  const std::string id = create.id();
  internal::Update update = NewUpdate();
  *update.mutable_create_job() = std::move(create);
  CommitForJob(std::move(update), id, std::move(done));
}

bool JobCommands::IsRepeat(const std::string& tenant, const std::string& request_id) const {
  return options_.ledger->Read(
      [&](const ClusterState& state) { return state.FindRequest(tenant, request_id) != nullptr; });
}

absl::StatusOr<JobCommands::Admitted> JobCommands::Admit(const std::string& tenant, const v1::JobSpec& spec,
                                                         const std::string& request_id, bool resumes) const {
  absl::StatusOr<UploadedModel> model = UploadedModel();
  if (!resumes && !IsRepeat(tenant, request_id)) {
    model = options_.models->Find(tenant, spec.model());
  }
  AMPD_ASSIGN_OR_RETURN(v1::JobSpec admitted, AdmitSpec(spec, model.ok() ? model->exported.get() : nullptr));
  AMPD_RETURN_IF_ERROR(model.status());
  return Admitted{std::move(admitted), std::move(model->artifact)};
}

bool JobCommands::AnswerRepeat(const std::string& tenant, const std::string& request_id, const std::string& digest,
                               JobDone* done) {
  if (!IsRepeat(tenant, request_id)) {
    return false;
  }
  internal::Update update = NewUpdate();
  update.mutable_create_job()->set_tenant(tenant);
  update.mutable_create_job()->set_request_id(request_id);
  update.mutable_create_job()->set_request_digest(digest);
  update.mutable_create_job()->set_only_repeat(true);
  CommitForJob(std::move(update), "", std::move(*done));
  return true;
}

void JobCommands::CreateJob(const v1::CreateJobRequest& request, JobDone done, const Submitter& submitter) {
  const std::string digest = DigestOf(request.spec());
  if (!request.validate_only() && AnswerRepeat(submitter.tenant, request.request_id(), digest, &done)) {
    return;
  }
  if (const absl::Status known = CheckFieldsAreKnown(request); !known.ok()) {
    return done(known);
  }
  absl::StatusOr<Admitted> admitted = Admit(submitter.tenant, request.spec(), request.request_id(), /*resumes=*/false);
  absl::Status status = admitted.status();
  status.Update(CheckRequestId(request.request_id()));
  if (!status.ok()) {
    return done(status);
  }
  done = ReleaseAndAnswer(std::move(admitted->artifact), std::move(done));
  internal::CreateJob create;
  *create.mutable_spec() = std::move(admitted->spec);
  create.set_request_id(request.request_id());
  create.set_request_digest(digest);
  SetSubmitter(submitter, &create);
  if (const absl::Status found = ResolveStart(&create); !found.ok()) {
    return done(found);
  }
  if (request.validate_only()) {
    internal::JobRecord record;
    *record.mutable_job()->mutable_spec() = create.spec();
    record.mutable_job()->set_tenant(submitter.tenant);
    if (create.has_clone_start()) {
      *record.mutable_clone_start() = create.clone_start();
    }
    auto job = std::make_shared<Job>();
    if (std::optional<v1::Pending> pending = options_.queries->PendingIfQueued(std::move(record));
        pending.has_value()) {
      *job->mutable_pending() = *std::move(pending);
    }
    *job->mutable_spec() = std::move(*create.mutable_spec());
    return done(JobPtr(std::move(job)));
  }
  CommitNewJob(std::move(create), std::move(done));
}

void JobCommands::CloneJob(const v1::CloneJobRequest& request, JobDone done, const Submitter& submitter) {
  const std::string digest = DigestOf(request);
  if (AnswerRepeat(submitter.tenant, request.request_id(), digest, &done)) {
    return;
  }
  const absl::StatusOr<JobRecordPtr> source = options_.queries->FindRecord(request.id());
  if (!source.ok()) {
    return done(source.status());
  }
  const Job& job = (*source)->job();
  if (request.from_last_checkpoint()) {
    absl::Status status = CheckUnfinished(job);
    if (job.tenant() != submitter.tenant) {
      status = InvalidFields({{"tenant", absl::StrCat("is ", submitter.tenant, ", and the checkpoint belongs to ",
                                                      job.tenant(), "; a job continues in its own tenant only")}});
    }
    if (!status.ok()) {
      return done(status);
    }
  }
  v1::JobSpec spec = job.spec();
  if (!request.name().empty()) {
    spec.set_name(request.name());
  }
  const std::optional<v1::Checkpoint> start = request.from_last_checkpoint() ? StartPoint(**source) : std::nullopt;
  absl::StatusOr<Admitted> admitted =
      Admit(submitter.tenant, spec, request.request_id(), /*resumes=*/start.has_value());
  if (!admitted.ok()) {
    return done(admitted.status());
  }
  done = ReleaseAndAnswer(std::move(admitted->artifact), std::move(done));
  internal::CreateJob create;
  *create.mutable_spec() = std::move(admitted->spec);
  create.set_request_id(request.request_id());
  create.set_request_digest(digest);
  create.set_cloned_from(job.id());
  SetSubmitter(submitter, &create);
  if (start.has_value()) {
    *create.mutable_clone_start() = *start;
    *create.mutable_loss_scales() = (*source)->loss_scales();
    for (v1::Checkpoint& older : OlderThan(**source, *start)) {
      *create.add_older_starts() = std::move(older);
    }
  }
  if (const absl::Status found = start.has_value() ? CheckStart(&create) : ResolveStart(&create); !found.ok()) {
    return done(found);
  }
  CommitNewJob(std::move(create), std::move(done));
}

}  // namespace ampd::server
