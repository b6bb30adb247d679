#include "server/admission/admission.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "graph/losses.h"
#include "models/models.h"
#include "precision/bans.h"
#include "precision/capability.h"
#include "precision/formats.h"
#include "precision/fp8.h"
#include "precision/loss_scale.h"
#include "precision/loss_scale_message.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "server/admission/admission_findings.h"
#include "server/state/pinned_loss_scale.h"

namespace ampd::server {
namespace {

using precision::LossScaleText;

constexpr int kMaxPreferred = 8;
constexpr int kMaxLabels = 32;
constexpr size_t kMaxLabelBytes = 128;
constexpr char kNameWords[] = "1 to 63 characters: a-z, 0-9 and '-', beginning with a letter";

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 63 && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; });
}

// Shortens text that a user wrote, for a message.
std::string Shown(const std::string& text) { return Shortened(text, 80); }

// Returns the model graph against which the policy is resolved. Only an FP8 policy depends on the model. Any other
// policy gets an empty graph, because that is cheaper and jobs are submitted often.
graph::Graph GraphFor(const v1::JobSpec& spec, const graph::Graph* model, const precision::Preset& preset) {
  return model != nullptr && precision::UsesFp8(spec.precision(), preset) ? *model : graph::Graph("policy");
}

// Refuses an FP8 policy if no layer of the model can compute in FP8, unless the policy lists another preset as an
// alternative or sets allow_unsafe.
void RefuseUselessFp8(const v1::JobSpec& spec, const precision::ResolvedPolicy& resolved, const graph::Graph& graph,
                      Findings& findings) {
  const v1::PrecisionPolicy& policy = spec.precision();
  const std::string why = graph.nodes().empty() || policy.prefer_size() > 1 ? "" : precision::WhyNoFp8(resolved);
  if (!why.empty() && !policy.allow_unsafe()) {
    findings.Wrong(policy.has_fp8() ? "precision.fp8" : "precision.preset", why);
  }
}

v1::Device AnyDevice(v1::Device::Kind kind) {
  v1::Device device;
  device.set_kind(kind);
  device.set_capability_major(99);
  return device;
}

// Checks whether a trainer on this kind of device would refuse the job because the policy bans an op in one of the
// model's programs. Returns the trainer's error, or OK if the policy bans none of their ops.
absl::Status CheckBansOn(v1::Device::Kind kind, const v1::PrecisionPolicy& policy,
                         const std::vector<graph::Graph>& programs, precision::OptimizerKind optimizer) {
  const auto resolved = precision::ResolvePolicy(policy, graph::Graph("policy"), AnyDevice(kind), optimizer);
  if (!resolved.ok()) {
    return absl::OkStatus();  // The policy never runs on this kind of device. Another check decides whether it can run.
  }
  for (const graph::Graph& program : programs) {
    AMPD_RETURN_IF_ERROR(precision::CheckBans(program, *resolved));
  }
  return absl::OkStatus();
}

// Returns the programs of the model in which the policy may ban an op. Built-in models have no op that presets ban, so
// their programs are needed only if the spec's op_rules could ban one.
std::vector<graph::Graph> ProgramsWithBans(const v1::JobSpec& spec, const AdmittedModel* model) {
  std::vector<graph::Graph> programs;
  if (model == nullptr || (!spec.model().has_exported() && spec.precision().op_rules().empty())) {
    return programs;
  }
  if (auto trained = graph::TrainedGraph(model->graph); trained.ok()) {
    programs.push_back(*std::move(trained));
  }
  if (model->eval.has_value()) {
    programs.push_back(*model->eval);
  }
  return programs;
}

// Checks that the policy bans no op of the model on any device that the job may run on.
void AdmitBans(const v1::JobSpec& spec, const std::vector<graph::Graph>& programs, const std::string& candidate,
               Findings& findings) {
  const v1::PrecisionPolicy policy = precision::WithPreset(spec.precision(), candidate);
  const precision::OptimizerKind optimizer = precision::KindOf(spec);
  const v1::ResourceSpec::Kind wanted = spec.resources().kind();
  const absl::Status on_cpu =
      wanted == v1::ResourceSpec::GPU ? absl::OkStatus() : CheckBansOn(v1::Device::CPU, policy, programs, optimizer);
  const absl::Status on_gpu =
      wanted == v1::ResourceSpec::CPU ? absl::OkStatus() : CheckBansOn(v1::Device::GPU, policy, programs, optimizer);
  if (on_cpu.ok() && on_gpu.ok()) {
    return;
  }
  const absl::Status& banned = on_gpu.ok() ? on_cpu : on_gpu;
  const bool only_on_gpu = on_cpu.ok() && wanted != v1::ResourceSpec::GPU;
  findings.Wrong("precision.preset",
                 absl::StrCat(candidate, ": ", std::string(banned.message()),
                              only_on_gpu ? "; on a CPU it is computed in fp32: set resources.kind to CPU" : ""));
}

// Runs the trainer's own checks of the policy, once for each preset that placement may choose.
void AdmitPresets(const v1::JobSpec& spec, const AdmittedModel* model, Findings& findings) {
  const v1::Device device = AnyDevice(v1::Device::GPU);
  const std::vector<graph::Graph> programs = ProgramsWithBans(spec, model);
  const precision::OptimizerKind optimizer = precision::KindOf(spec);
  const std::vector<std::string> candidates = precision::CandidatePresets(spec.precision());
  for (const std::string& candidate : candidates) {
    const graph::Graph graph =
        GraphFor(spec, model == nullptr ? nullptr : &model->graph, *precision::FindPreset(candidate));
    const auto resolved =
        precision::ResolvePolicy(precision::WithPreset(spec.precision(), candidate), graph, device, optimizer);
    if (!resolved.ok()) {
      return findings.Take(resolved.status());
    }
    RefuseUselessFp8(spec, *resolved, graph, findings);
    AdmitBans(spec, programs, candidate, findings);
  }
}

void RefuseOnCpu(const v1::PrecisionPolicy& policy, Findings& findings) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.set_id("resources.kind");
  precision::CapabilityGap gap;
  const std::vector<std::string> candidates = precision::CandidatePresets(policy);
  const bool all_known = std::all_of(candidates.begin(), candidates.end(),
                                     [](const std::string& name) { return precision::FindPreset(name) != nullptr; });
  if (all_known && !precision::ChoosePreset(policy, cpu, &gap).has_value()) {
    findings.Wrong("precision.preset", gap.message);
  }
}

void AdmitLabels(const v1::JobSpec& spec, Findings& findings) {
  if (spec.labels_size() > kMaxLabels) {
    findings.Wrong("labels", absl::StrCat("has ", spec.labels_size(), " entries; at most ", kMaxLabels));
  }
  for (const auto& [key, value] : spec.labels()) {
    if (key.empty() || key.size() > kMaxLabelBytes || value.size() > kMaxLabelBytes) {
      findings.Wrong(absl::StrCat("labels.", Shown(key)),
                     absl::StrCat("has a key of ", key.size(), " and a value of ", value.size(),
                                  " bytes; keys have 1 to 128, values at most 128"));
    }
  }
}

void AdmitDivergence(v1::JobSpec* spec, Findings& findings) {
  if (spec->on_divergence() == v1::JobSpec::ON_DIVERGENCE_UNSPECIFIED) spec->set_on_divergence(v1::JobSpec::FAIL);
  if (!v1::JobSpec::OnDivergence_IsValid(spec->on_divergence())) {
    findings.Wrong("on_divergence", absl::StrCat("is ", spec->on_divergence(),
                                                 "; must be WARN, FAIL, ROLL_BACK or ROLL_BACK_AND_RAISE_PRECISION"));
  }
  findings.Range("lower_again_after_steps", spec->lower_again_after_steps(), 0, int64_t{1} << 40);
  const bool may_raise = spec->on_divergence() == v1::JobSpec::ROLL_BACK_AND_RAISE_PRECISION ||
                         spec->precision().loss_scale().dynamic().at_floor() == v1::DynamicLossScale::FALL_BACK;
  if (spec->lower_again_after_steps() > 0 && !may_raise) {
    findings.Wrong("lower_again_after_steps",
                   "is set, but neither on_divergence ROLL_BACK_AND_RAISE_PRECISION nor "
                   "precision.loss_scale.dynamic.at_floor FALL_BACK raises a precision");
  }
}

void AdmitIdentity(v1::JobSpec* spec, Findings& findings) {
  if (!IsName(spec->name())) {
    findings.Wrong("name", absl::StrCat("is \"", Shown(spec->name()), "\"; must be ", kNameWords));
  } else if (HasFormOfJobId(spec->name())) {
    findings.Wrong("name", absl::StrCat("is \"", spec->name(),
                                        "\"; has the form of a job's id, so no command could find the job by it"));
  }
  if (spec->queue().empty()) spec->set_queue("default");
  findings.UnsupportedValueIf(spec->queue() != "default", "queue", absl::StrCat("\"", Shown(spec->queue()), "\""),
                              "this server has one queue, \"default\"");
  findings.Range("priority", spec->priority(), -1000, 1000);
  if (!spec->has_max_retries()) spec->set_max_retries(2);
  findings.Range("max_retries", spec->max_retries(), 0, 100);
  AdmitLabels(*spec, findings);
  AdmitDivergence(spec, findings);
}

}  // namespace

bool HasFormOfJobId(const std::string& text) {
  constexpr size_t kIdBytes = 18;
  return text.size() == kIdBytes && text.starts_with("j-") && std::all_of(text.begin() + 2, text.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c);
         });
}

void AdmitPrecision(v1::JobSpec* spec, const AdmittedModel* model, Findings& findings) {
  v1::PrecisionPolicy* policy = spec->mutable_precision();
  if (policy->preset().empty() && policy->prefer().empty()) {
    policy->set_preset("fp32");
  }
  if (policy->prefer_size() > kMaxPreferred) {
    findings.Wrong("precision.prefer",
                   absl::StrCat("has ", policy->prefer_size(), " entries; at most ", kMaxPreferred));
  }
  const std::vector<FieldViolation> violations = precision::ValidatePolicy(*policy);
  for (const FieldViolation& violation : violations) {
    findings.Wrong(violation.field, violation.description);
  }
  if (violations.empty()) {
    AdmitPresets(*spec, model, findings);
  }
}

void AdmitResources(v1::JobSpec* spec, Findings& findings) {
  v1::ResourceSpec* resources = spec->mutable_resources();
  if (resources->devices() == 0) resources->set_devices(1);
  findings.Range("resources.devices", resources->devices(), 1, 1 << 20);
  findings.UnsupportedValueIf(resources->devices() > 1, "resources.devices", absl::StrCat(resources->devices()),
                              "an attempt runs on one device");
  findings.RangeOfBytes("resources.memory_bytes", resources->memory_bytes(), 0, int64_t{1} << 50);
  if (!v1::ResourceSpec::Kind_IsValid(resources->kind())) {
    findings.Wrong("resources.kind", absl::StrCat("is ", resources->kind(), "; must be AUTO, CPU or GPU"));
  }
  if (resources->worker().size() > 253) {
    findings.Wrong("resources.worker", absl::StrCat("has ", resources->worker().size(), " bytes; at most 253"));
  }
  if (resources->kind() == v1::ResourceSpec::CPU) {
    RefuseOnCpu(spec->precision(), findings);
  }
  if (spec->has_deadline() && (spec->deadline().seconds() < 1 || spec->deadline().seconds() > 315'576'000)) {
    const absl::Duration deadline =
        absl::Seconds(spec->deadline().seconds()) + absl::Nanoseconds(spec->deadline().nanos());
    findings.Wrong("deadline", absl::StrCat("is ", absl::FormatDuration(deadline), "; must be 1s to 3652d12h"));
  }
}

namespace {

// Checks the parts of a training job's spec that a prediction job does not have.
void AdmitTrainingJob(v1::JobSpec* spec, const std::optional<AdmittedModel>& built, Findings& findings) {
  const graph::Graph* const model = built.has_value() ? &built->graph : nullptr;
  const graph::Graph* const of_zoo = spec->model().has_exported() ? nullptr : model;
  AdmitData(spec, of_zoo, findings);
  if (spec->model().has_exported()) {
    CheckExportedData(*spec, model, findings);
  }
  AdmitPrecision(spec, built.has_value() ? &*built : nullptr, findings);
  AdmitTraining(spec, model, findings);
  if (built.has_value()) {
    CheckBatches(*spec, *built, findings);
  }
  AdmitSample(spec, of_zoo, findings);
}

}  // namespace

absl::StatusOr<v1::JobSpec> AdmitSpec(const v1::JobSpec& spec, const graph::ExportedModel* uploaded) {
  if (static_cast<int64_t>(spec.ByteSizeLong()) > kMaxSpecBytes) {
    return InvalidFields({{"spec", absl::StrCat("has ", spec.ByteSizeLong(), " bytes; at most ", kMaxSpecBytes)}});
  }
  v1::JobSpec admitted = spec;
  Findings findings;
  AdmitIdentity(&admitted, findings);
  const std::optional<AdmittedModel> built = AdmitModel(
      admitted.mutable_model(), models::SequenceLengthOf(models::MainSourceOf(admitted)), uploaded, findings);
  if (admitted.has_predict()) {
    AdmitPrediction(&admitted, built.has_value() ? &*built : nullptr, findings);
    AdmitPrecision(&admitted, built.has_value() ? &*built : nullptr, findings);
  } else {
    AdmitTrainingJob(&admitted, built, findings);
  }
  AdmitResources(&admitted, findings);
  AMPD_RETURN_IF_ERROR(findings.ToStatus());
  return admitted;
}

namespace {

constexpr char kHowToScaleLoss[] =
    "; a job keeps the precision with which it was submitted, so submit another one with precision.preset fp16, or "
    "with "
    "precision.loss_scale";

// Checks an order (a live change of the loss scaler) for a job whose precision is not chosen yet: at least one of the
// precisions that may be chosen must scale the loss. The order's scale is not compared with their floors and caps,
// because these differ. The trainer later clamps the scale to the floor and the cap of the chosen precision.
absl::Status AdmitOrderBeforeChoice(const v1::LossScaleOrder& order, const internal::JobRecord& record) {
  const auto& prefer = record.job().spec().precision().prefer();
  bool may_scale = prefer.empty();
  for (const std::string& name : prefer) {
    const auto config = precision::FindPreset(name) == nullptr ? absl::NotFoundError(name)
                                                               : precision::LossScaleOf(LossScaleFor(record, name));
    may_scale = may_scale || !config.ok() || config->kind != precision::LossScaleConfig::Kind::kOff;
  }
  if (!may_scale) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "LOSS_SCALE_OFF",
        absl::StrCat("job ", record.job().id(), " scales no loss in ", absl::StrJoin(prefer, " or "), kHowToScaleLoss));
  }
  constexpr double kGreatest = std::numeric_limits<float>::max();
  if (order.has_scale() && order.scale() > kGreatest) {
    return InvalidFields(
        {{"loss_scale_order.scale", absl::StrCat("is ", LossScaleText(order.scale()), "; must be at most ",
                                                 LossScaleText(kGreatest), ", the largest number of fp32")}});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AdmitOrder(const v1::LossScaleOrder& order, const internal::JobRecord& record) {
  const v1::Job& job = record.job();
  if (job.spec().has_predict()) {
    return Error(absl::StatusCode::kFailedPrecondition, "LOSS_SCALE_OFF",
                 absl::StrCat("job ", job.id(), " predicts, so it has no loss to scale"));
  }
  const v1::PrecisionPolicy& policy = job.spec().precision();
  const std::string& given = job.attempts().empty() ? policy.preset() : job.attempts().rbegin()->precision();
  const precision::Preset* preset = precision::FindPreset(given);
  if (preset == nullptr) {
    return AdmitOrderBeforeChoice(order, record);
  }
  AMPD_ASSIGN_OR_RETURN(const precision::LossScaleConfig config, precision::LossScaleOf(LossScaleFor(record, given)));
  if (config.kind == precision::LossScaleConfig::Kind::kOff) {
    return Error(absl::StatusCode::kFailedPrecondition, "LOSS_SCALE_OFF",
                 absl::StrCat("job ", job.id(), " scales no loss in ", given, kHowToScaleLoss));
  }
  const precision::ScaleRange range = precision::RangeOf(config);
  if (order.has_scale() && !range.Has(order.scale())) {
    return InvalidFields(
        {{"loss_scale_order.scale",
          absl::StrCat("is ", LossScaleText(order.scale()), "; must be from ", LossScaleText(range.least),
                       ", the floor, to ", LossScaleText(range.greatest), ", the cap of ", given)}});
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
