#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/commands/job/job.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ScaleOptions {
  std::string id;
  std::optional<double> scale;
  std::optional<int> growth_interval;
};

// Returns when the change takes effect. If the job waits for its first attempt, its precision may not be chosen yet;
// the text then says in which precision the change has no effect.
std::string EffectText(const v1::Job& job) {
  const bool waits = job.state() == v1::Job::QUEUED || job.state() == v1::Job::PAUSED;
  if (!waits) {
    return "the change takes effect at the next step";
  }
  const v1::PrecisionPolicy& policy = job.spec().precision();
  const bool is_open = job.attempts().empty() && (policy.preset() == "auto" || policy.prefer_size() > 0);
  return absl::StrCat(
      "the change takes effect at the first step after the job has ",
      job.state() == v1::Job::PAUSED ? "resumed" : "started",
      is_open ? absl::StrCat(
                    ", unless the job then runs in a precision without a loss scale (its precision is still open: ",
                    LatestPrecision(job), ")")
              : "");
}

int SetScale(Session* session, const ScaleOptions& options) {
  if (!options.scale.has_value() && !options.growth_interval.has_value()) {
    return session->Fail(absl::InvalidArgumentError("nothing to set: give --set-scale, --growth-interval or both"));
  }
  v1::UpdateJobRequest request;
  request.mutable_update_mask()->add_paths("loss_scale_order");
  v1::LossScaleOrder& order = *request.mutable_loss_scale_order();
  if (options.scale.has_value()) {
    order.set_scale(*options.scale);
  }
  if (options.growth_interval.has_value()) {
    order.set_growth_interval(*options.growth_interval);
  }
  const auto update = [&request](JobClient* client, const std::string& id) {
    request.set_id(id);
    return client->UpdateJob(request);
  };
  return CallForJob(session, options.id, update, [&](const std::string& /*id*/, const v1::Job& job) {
    JobResults(session, 1).Add(job, EffectText(job));
  });
}

}  // namespace

Command ScaleJobCommand() {
  const auto options = std::make_shared<ScaleOptions>();
  return {.name = "scale",
          .help =
              "Set the loss scale of a job that has not ended, or the growth interval of this loss scale. The change "
              "takes effect at the job's next step. Needs --set-scale, --growth-interval or both, and a job whose "
              "precision scales the loss",
          .examples = "  ampctl job scale ID --set-scale 4096\n  ampctl job scale ID --growth-interval 500",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {JobId(&options->id),
                        {.name = "--set-scale",
                         .value = &options->scale,
                         .text = "X",
                         .help = "Set the loss scale to X at the next step, and restart the growth interval",
                         .check = CheckPositive},
                        {.name = "--growth-interval",
                         .value = &options->growth_interval,
                         .text = "N",
                         .help = "Let the loss scale grow after N steps in a row without an overflow",
                         .check = CheckPositiveCount}},
          .run = [options](Session* session) { return SetScale(session, *options); }};
}

}  // namespace ampd::client
