#include "client/commands/job/dry_run.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/job_source.h"
#include "client/render/format.h"
#include "client/render/table.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Prints, as YAML comments, the effect of the precision policy on a device. The first comment is "On <name>:". With
// `warnings_only`, prints only the warnings. Prints nothing if the server can't resolve policies.
void PrintPolicyOn(JobClient* client, const v1::ResolvePolicyRequest& request, const std::string& name,
                   bool warnings_only) {
  const auto table = client->ResolvePolicy(request);
  if (!table.ok() || (warnings_only && table->warnings().empty())) {
    return;
  }
  PrintLines(absl::StrCat("On ", name, ":"), "# ");
  PrintLines(warnings_only ? "" : table->text(), "# ");
  for (const std::string& warning : table->warnings()) {
    PrintLines("warning: " + warning, "# ");
  }
}

// Prints the effect of the policy on an example of a CPU or GPU.
void PrintPolicyOnExample(JobClient* client, const v1::JobSpec& spec, bool cpu, bool warnings_only) {
  PrintPolicyOn(client, PolicyRequestOf(spec, cpu ? "cpu" : "gpu"), absl::StrCat("a ", cpu ? kExampleCpu : kExampleGpu),
                warnings_only);
}

// Prints, as comments below the spec's YAML, the effect of the policy on the workers' devices. If no device may run the
// job, prints its effect on an example of a device.
void PrintPolicyAsComment(JobClient* client, const v1::JobSpec& spec, const std::vector<WorkerDevice>& devices) {
  const v1::ResourceSpec::Kind kind = spec.resources().kind();
  bool has_cpu = kind == v1::ResourceSpec::GPU;  // A job for GPUs needs no warnings about CPUs.
  for (const WorkerDevice& device : devices) {
    v1::ResolvePolicyRequest request = PolicyRequestOf(spec, "cpu");
    *request.mutable_device() = device.device;
    PrintPolicyOn(client, request, device.name, /*warnings_only=*/false);
    has_cpu = has_cpu || device.device.kind() == v1::Device::CPU;
  }
  if (devices.empty()) {
    const bool cpu = kind == v1::ResourceSpec::CPU;
    PrintPolicyOnExample(client, spec, cpu, /*warnings_only=*/false);
    has_cpu = has_cpu || cpu;
  }
  if (!has_cpu) {
    PrintPolicyOnExample(client, spec, /*cpu=*/true, /*warnings_only=*/true);
  }
}

std::string BatchText(int64_t batch_size) { return batch_size == 0 ? "none" : absl::StrCat(batch_size); }

std::string DeviceText(const v1::EstimateJobResponse::Fit& fit) {
  return absl::StrCat(Printable(fit.worker()), "/", Printable(fit.device()), " (", FormatBytes(fit.memory_bytes()),
                      ")");
}

// Returns the largest batch size for each device that the server names: "4096 on w1/cpu (8.0 GiB)". If the spec names
// a memory size, returns only the number. The word "none" says that even a batch of one sample does not fit.
std::string LargestBatch(const v1::EstimateJobResponse& estimate, const v1::EstimateJobResponse::Candidate& candidate) {
  if (estimate.memory_bytes() > 0) {
    return BatchText(candidate.largest_batch_size());
  }
  std::vector<std::string> fits;
  for (const auto& fit : candidate.fits()) {
    fits.push_back(absl::StrCat(BatchText(fit.largest_batch_size()), " on ", DeviceText(fit)));
  }
  return fits.empty() ? "-" : absl::StrJoin(fits, ", ");
}

// Prints a warning if a step needs more memory than the spec declares, or than any device that can run the job has.
void WarnIfTooLarge(const Session& session, const v1::JobSpec& spec, const v1::EstimateJobResponse& estimate) {
  const v1::EstimateJobResponse::Candidate* least = nullptr;
  const v1::EstimateJobResponse::Fit* most = nullptr;  // the largest device
  int64_t largest_batch = 0;
  const bool is_declared = estimate.memory_bytes() > 0;
  for (const auto& candidate : estimate.candidates()) {
    largest_batch = is_declared ? std::max(largest_batch, candidate.largest_batch_size()) : largest_batch;
    for (const auto& fit : candidate.fits()) {
      largest_batch = std::max(largest_batch, fit.largest_batch_size());
      most = most == nullptr || fit.memory_bytes() > most->memory_bytes() ? &fit : most;
    }
    const bool is_counted = is_declared || !candidate.fits().empty();
    least = is_counted && (least == nullptr || candidate.total_bytes() < least->total_bytes()) ? &candidate : least;
  }
  if (least == nullptr || largest_batch >= spec.data().batch_size()) {
    return;
  }
  const std::string limit =
      is_declared ? absl::StrCat("resources.memory_bytes, ", FormatBytes(estimate.memory_bytes()))
                  : absl::StrCat("the memory of any device that can run the job; the device with the most memory is ",
                                 DeviceText(*most));
  const std::string advice =
      largest_batch > 0
          ? absl::StrCat("lower data.batch_size to ", largest_batch, " or raise train.gradient_accumulation")
          : absl::StrCat("lower data.batch_size, and data.eval_batch_size, which is ", spec.data().eval_batch_size());
  session.Warn(absl::StrCat("warning: with data.batch_size ", spec.data().batch_size(), ", a step needs about ",
                            FormatBytes(least->total_bytes()), " in ", Printable(least->precision()),
                            ", which is more than ", limit, "\n  try: ", advice));
}

// Returns a sentence that says that the memory of the exported model is unknown, with the reason or with what must
// happen first.
std::string UnknownMemory(const v1::JobSpec& spec, const absl::Status& status) {
  if (spec.model().exported().artifact().empty()) {
    return "Memory of a step: unknown until a worker reads the model's file";
  }
  return absl::IsNotFound(status)
             ? "Memory of a step: unknown until the model's file is uploaded; to estimate it now: ampctl model inspect "
               "FILE --batch N"
             : absl::StrCat("Memory of a step: unknown; ", Printable(std::string(status.message())));
}

// Prints the memory of a step as comments, below the spec's YAML. `notes_no_worker`: whether to print a note if no
// worker can run the job. An older server needs this note, because it does not report why the job would wait.
void PrintMemoryAsComment(Session* session, JobClient* client, const v1::JobSpec& spec, bool notes_no_worker) {
  const auto estimate = client->EstimateJob(spec);
  if (!estimate.ok()) {
    if (spec.model().has_exported()) {
      PrintLines(UnknownMemory(spec, estimate.status()), "# ");
    }
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& candidate : estimate->candidates()) {
    rows.push_back({absl::StrCat(Printable(candidate.precision()), candidate.emulated() ? " (emulated)" : ""),
                    Printable(candidate.device_kind()), FormatBytes(candidate.total_bytes()),
                    FormatBytes(candidate.weight_bytes() + candidate.working_copy_bytes()),
                    FormatBytes(candidate.optimizer_bytes()), FormatBytes(candidate.gradient_bytes()),
                    FormatBytes(candidate.activation_bytes()),
                    FormatBytes(candidate.workspace_bytes() + candidate.input_bytes() + candidate.runtime_bytes()),
                    LargestBatch(*estimate, candidate)});
  }
  if (notes_no_worker && estimate->memory_bytes() == 0 &&
      std::all_of(estimate->candidates().begin(), estimate->candidates().end(),
                  [](const auto& candidate) { return candidate.fits().empty(); })) {
    session->Note("no connected worker can run the job (once it is submitted, ampctl job explain says why); workers: " +
                  session->Command("worker list -o wide"));
  }
  const std::string heading = absl::StrCat(
      "Peak memory of a step, and the largest batch ",
      estimate->memory_bytes() == 0 ? "that fits on the suitable devices with the least and with the most memory"
                                    : absl::StrCat("that fits into ", FormatBytes(estimate->memory_bytes())),
      ":");
  PrintLines(heading, "# ");
  constexpr int kPrefix = 2;
  PrintLines(RenderTable({"PRECISION", "DEVICE", "TOTAL", "WEIGHTS", "MOMENTS", "GRADIENTS", "ACTIVATIONS", "OTHER",
                          "LARGEST BATCH"},
                         rows, /*headings=*/true, std::max(0, OutputWidth() - kPrefix)),
             "# ");
  WarnIfTooLarge(*session, spec, *estimate);
}

// Prints an object with the fields "spec", "policies" (a list of {"device", "table"}), "memory" and "pending" in the
// format of -o. There is one policy for each device of the workers. If no worker may run the job, there is one for each
// kind of device that the job allows. Fields that the server can't report are left out.
void PrintStructuredDryRun(Session* session, JobClient* client, const v1::JobSpec& spec, const v1::Pending& pending,
                           const std::vector<WorkerDevice>& devices) {
  const v1::ResourceSpec::Kind kind = spec.resources().kind();
  std::vector<PlainFields> policies;
  std::deque<v1::PolicyTable> tables;  // `policies` points to these tables
  for (const WorkerDevice& device : devices) {
    v1::ResolvePolicyRequest request = PolicyRequestOf(spec, "cpu");
    *request.mutable_device() = device.device;
    if (const auto table = client->ResolvePolicy(request); table.ok()) {
      tables.push_back(*table);
      policies.push_back({{"device", device.name}, {"table", &tables.back()}});
    }
  }
  for (const bool cpu : {true, false}) {
    if (!devices.empty() || kind == (cpu ? v1::ResourceSpec::GPU : v1::ResourceSpec::CPU)) {
      continue;
    }
    if (const auto table = client->ResolvePolicy(PolicyRequestOf(spec, cpu ? "cpu" : "gpu")); table.ok()) {
      tables.push_back(*table);
      policies.push_back({{"device", cpu ? kExampleCpu : kExampleGpu}, {"table", &tables.back()}});
    }
  }
  PlainFields fields = {{"spec", &spec}};
  if (!policies.empty()) {
    fields.push_back({"policies", std::move(policies)});
  }
  const auto estimate = client->EstimateJob(spec);
  if (estimate.ok()) {
    fields.push_back({"memory", &*estimate});
  }
  if (pending.reason() != v1::PendingReason::PENDING_REASON_UNSPECIFIED) {
    fields.push_back({"pending", &pending});
  }
  PrintStructured(*session, fields);
  if (estimate.ok()) {
    WarnIfTooLarge(*session, spec, *estimate);
  }
}

}  // namespace

void NoteOddities(const Session& session, const v1::JobSpec& spec) {
  const int64_t steps = spec.train().steps();
  if (steps > 0 && spec.schedule().warmup_steps() >= steps) {
    session.Note(absl::StrCat("note: schedule.warmup_steps is ", spec.schedule().warmup_steps(), ", but the job has ",
                              steps, " steps; its learning rate never reaches its full value"));
  }
  // Check only synthetic data: only a worker knows how many samples a file has.
  const v1::DataSpec& data = spec.data();
  const int64_t num_samples = data.train().synthetic().num_samples();
  if (data.train().has_synthetic() && data.last_batch() != v1::DataSpec::PAD && data.batch_size() > num_samples) {
    session.Note(absl::StrCat("note: data.batch_size is ", data.batch_size(), ", but the data set has ", num_samples,
                              " samples; each step trains with ", num_samples));
  }
}

void PrintDryRun(Session* session, JobClient* client, const v1::JobSpec& spec, const v1::Pending& pending) {
  const std::vector<WorkerDevice> devices = DevicesFor(client, spec);
  if (session->options().output != OutputFormat::kTable) {
    return PrintStructuredDryRun(session, client, spec, pending, devices);
  }
  WriteText(ToYaml(spec));
  PrintPolicyAsComment(client, spec, devices);
  PrintMemoryAsComment(session, client, spec, /*notes_no_worker=*/!pending.no_worker_fits());
}

}  // namespace ampd::client
