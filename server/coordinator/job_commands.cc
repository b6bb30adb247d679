#include "server/coordinator/job_commands.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/admission/admission.h"
#include "server/coordinator/updates.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

constexpr int kMaxProfileSteps = 100;

using v1::Job;

absl::Status CheckOrder(const v1::LossScaleOrder& order) {
  std::vector<FieldViolation> violations;
  // AdmitOrder checks the largest scale, which depends on the job's precision.
  if (order.has_scale() && (!std::isfinite(order.scale()) || order.scale() <= 0)) {
    violations.push_back(
        {"loss_scale_order.scale", absl::StrCat("is ", order.scale(), "; must be above 0 and finite")});
  }
  if (order.has_growth_interval() && order.growth_interval() < 1) {
    violations.push_back(
        {"loss_scale_order.growth_interval", absl::StrCat("is ", order.growth_interval(), "; must be at least 1")});
  }
  if (!order.has_scale() && !order.has_growth_interval()) {
    violations.push_back({"loss_scale_order", "must have scale or growth_interval"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Copies the request's changes into the update. INVALID_ARGUMENT names the fields that are wrong.
absl::Status ToChange(const v1::UpdateJobRequest& request, internal::ChangeJob* change) {
  change->set_job(request.id());
  change->set_etag(request.etag());
  if (request.update_mask().paths().empty()) {
    return InvalidFields({{"update_mask", "must name priority, loss_scale_order, sample_gradients or profile_steps"}});
  }
  for (const std::string& path : request.update_mask().paths()) {
    if (path == "priority") {
      if (request.priority() < -1000 || request.priority() > 1000) {
        return InvalidFields({{"priority", absl::StrCat("is ", request.priority(), "; must be -1000 to 1000")}});
      }
      change->set_priority(request.priority());
    } else if (path == "loss_scale_order") {
      AMPD_RETURN_IF_ERROR(CheckOrder(request.loss_scale_order()));
      *change->mutable_loss_scale_order() = request.loss_scale_order();
    } else if (path == "sample_gradients") {
      change->set_sample_gradients(request.sample_gradients());
    } else if (path == "profile_steps") {
      if (request.profile_steps() < 1 || request.profile_steps() > kMaxProfileSteps) {
        return InvalidFields(
            {{"profile_steps", absl::StrCat("is ", request.profile_steps(), "; must be 1 to ", kMaxProfileSteps)}});
      }
      change->set_profile_steps(request.profile_steps());
    } else {
      return InvalidFields({{"update_mask", absl::StrCat("has ", path,
                                                         "; must be priority, loss_scale_order, sample_gradients or "
                                                         "profile_steps")}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

internal::Update JobCommands::NewUpdate() const { return server::NewUpdate(options_.clock->Now()); }

void JobCommands::CommitForJob(internal::Update update, std::string id, JobDone done) {
  options_.ledger->Commit(
      std::move(update), [this, id = std::move(id), done = std::move(done)](const absl::StatusOr<Applied>& applied) {
        if (!applied.ok()) {
          return done(applied.status());
        }
        done(applied->archived_job != nullptr ? JobOf(applied->archived_job)
                                              : options_.queries->GetJob(applied->job.empty() ? id : applied->job));
      });
}

void JobCommands::CommitDesired(const std::string& id, Job::Desired desired, const std::string& etag, JobDone done) {
  if (const absl::Status there = options_.queries->FindRecord(id).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_set_desired()->set_job(id);
  update.mutable_set_desired()->set_desired(desired);
  update.mutable_set_desired()->set_etag(etag);
  CommitForJob(std::move(update), id, std::move(done));
}

void JobCommands::CancelJob(const v1::CancelJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::CANCEL, request.etag(), std::move(done));
}

void JobCommands::PauseJob(const v1::PauseJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::PAUSE, request.etag(), std::move(done));
}

void JobCommands::ResumeJob(const v1::ResumeJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::RUN, request.etag(), std::move(done));
}

void JobCommands::UpdateJob(const v1::UpdateJobRequest& request, JobDone done) {
  internal::Update update = NewUpdate();
  if (const absl::Status status = ToChange(request, update.mutable_change_job()); !status.ok()) {
    return done(status);
  }
  const absl::StatusOr<JobRecordPtr> record = options_.queries->FindRecord(request.id());
  if (!record.ok()) {
    return done(record.status());
  }
  // A loss-scale order for a finished job is not checked here, because the commit refuses every such order with
  // WRONG_STATE.
  if (update.change_job().has_loss_scale_order() && !IsTerminal((*record)->job().state())) {
    const absl::Status status = AdmitOrder(update.change_job().loss_scale_order(), **record);
    if (!status.ok()) {
      return done(status);
    }
  }
  const bool asks_for_training = update.change_job().sample_gradients() || update.change_job().profile_steps() > 0;
  if (asks_for_training && (*record)->job().spec().has_predict()) {
    return done(Error(
        absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
        absl::StrCat("job ", request.id(), " predicts, so it has no ",
                     update.change_job().sample_gradients() ? "gradients" : "training steps that could be profiled")));
  }
  CommitForJob(std::move(update), request.id(), std::move(done));
}

void JobCommands::DeleteJob(const v1::DeleteJobRequest& request, Done done) {
  if (const absl::Status there = options_.queries->FindRecord(request.id()).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_delete_job()->set_job(request.id());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

void JobCommands::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Done done) {
  if (const absl::Status there = options_.queries->FindRecord(request.id()).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_drop_checkpoint()->set_job(request.id());
  update.mutable_drop_checkpoint()->set_attempt(request.attempt());
  update.mutable_drop_checkpoint()->set_step(request.step());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

}  // namespace ampd::server
