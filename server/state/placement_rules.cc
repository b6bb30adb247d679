#include "server/state/placement_rules.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using internal::WorkerRecord;
using precision::PresetChoice;
using v1::Device;
using v1::DeviceVerdict;

// Returns the data roots that the job needs. `begins`: the job does not resume from a checkpoint, so it also needs the
// data roots of the model's file and of the initial weights.
std::set<std::string> DataRootsOf(const v1::JobSpec& spec, bool begins) {
  std::set<std::string> roots;
  const auto add = [&](const std::string& path) {
    if (!path.empty()) {
      roots.insert(path.substr(0, path.find('/')));
    }
  };
  for (const v1::DataSource* source : {&spec.data().train(), &spec.data().eval(), &spec.data().predict()}) {
    add(source->tokens().path());
    add(source->jsonl().path());
    add(source->idx().images());
    const bool reads_labels = source != &spec.data().predict();
    add(reads_labels ? source->idx().labels() : "");
    for (const std::string& file : source->cifar().files()) {
      add(file);
    }
    add(source->safetensors().file());
    const v1::NpzSource& npz = source->npz();
    add(npz.file());
    if (npz.file().empty()) {  // If `file` is set, these names are arrays in it, not paths.
      add(npz.images());
      add(reads_labels ? npz.labels() : "");
    }
  }
  if (begins) {
    add(spec.model().exported().path());
    add(spec.model().initial_weights());
  }
  return roots;
}

void Say(DeviceVerdict* verdict, v1::PendingReason::Code reason, std::string message) {
  verdict->set_reason(reason);
  verdict->set_message(std::move(message));
}

// Explains why the worker lacks the data root `root`. `roots`: the worker's data roots that jobs of the tenant may
// read.
std::string NoDataRoot(const WorkerRecord& worker, const std::vector<std::string>& roots, const std::string& root) {
  constexpr size_t kMostNamed = 8;
  const auto end = roots.begin() + static_cast<ptrdiff_t>(std::min(roots.size(), kMostNamed));
  const std::string some = absl::StrJoin(roots.begin(), end, ", ");
  return absl::StrCat("worker ", worker.worker().name(), " has no data root \"", root, "\"; it has ",
                      some.empty() ? "none" : some, roots.size() > kMostNamed ? ", ..." : "",
                      " (ampd-worker --data-root NAME=FOLDER)");
}

bool HasMemory(int64_t needed, int64_t available, const char* what, DeviceVerdict* verdict) {
  if (needed <= available) {
    return true;
  }
  verdict->set_needed(needed);
  verdict->set_available(available);
  Say(verdict, v1::PendingReason::INSUFFICIENT_MEMORY,
      absl::StrCat("the job declares ", needed, " bytes, ", what, " ", available));
  return false;
}

bool ReachesCheckpoint(const v1::Job& job, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
                       DeviceVerdict* verdict) {
  if (!start.has_value() || Reaches(*candidate.worker, *start)) {
    return true;
  }
  const std::string which = job.checkpoints().empty()
                                ? absl::StrCat("the checkpoint ", start->path(), ", with which the job begins,")
                                : absl::StrCat("the job's checkpoint at step ", start->step());
  const std::string& name = candidate.worker->worker().name();
  const std::string why = start->worker() == name ? ", which was another agent then"
                          : start->local()
                              ? ""
                              : absl::StrCat(", and ", name, " was started without --checkpoint-root-shared");
  Say(verdict, v1::PendingReason::WAITING_FOR_CHECKPOINT_WORKER,
      absl::StrCat(which, " is on worker ", start->worker(), why));
  return false;
}

}  // namespace

bool ServesTenant(const WorkerRecord& worker, const std::string& tenant) {
  const auto& tenants = worker.worker().tenants();
  return tenants.empty() || std::find(tenants.begin(), tenants.end(), tenant) != tenants.end();
}

std::vector<std::string> DataRootsFor(const std::string& tenant, const WorkerRecord& worker) {
  std::vector<std::string> roots;
  for (const std::string& root : worker.data_roots()) {
    const auto& limits = worker.data_root_tenants();
    const bool is_closed = std::any_of(limits.begin(), limits.end(), [&](const v1::DataRootTenants& limit) {
      return limit.data_root() == root &&
             std::find(limit.tenants().begin(), limit.tenants().end(), tenant) == limit.tenants().end();
    });
    if (!is_closed) {
      roots.push_back(root);
    }
  }
  return roots;
}

bool WorkerServes(const v1::JobSpec& spec, const Candidate& candidate, DeviceVerdict* verdict) {
  const v1::Worker& worker = candidate.worker->worker();
  const std::string& wanted = spec.resources().worker();
  if (!wanted.empty() && wanted != worker.name()) {
    Say(verdict, v1::PendingReason::NO_MATCHING_DEVICE, absl::StrCat("the job wants worker ", wanted));
    return false;
  }
  if (candidate.worker->lost() || candidate.facts == nullptr) {
    Say(verdict, v1::PendingReason::WORKER_UNAVAILABLE, absl::StrCat("worker ", worker.name(), " does not report"));
    return false;
  }
  if (candidate.facts->is_stopping) {
    Say(verdict, v1::PendingReason::WORKER_UNAVAILABLE, absl::StrCat("worker ", worker.name(), " is stopping"));
    return false;
  }
  if (worker.drained()) {
    Say(verdict, v1::PendingReason::WORKER_UNAVAILABLE,
        absl::StrCat("worker ", worker.name(), " is drained; ampctl worker undrain ", worker.name(), " ends that"));
    return false;
  }
  return true;
}

bool DeviceMatches(const std::string& tenant, const v1::JobSpec& spec, bool begins, const Candidate& candidate,
                   DeviceVerdict* verdict) {
  const v1::ResourceSpec& wanted = spec.resources();
  const bool is_gpu = candidate.device->kind() == Device::GPU;
  if ((wanted.kind() == v1::ResourceSpec::GPU && !is_gpu) || (wanted.kind() == v1::ResourceSpec::CPU && is_gpu)) {
    Say(verdict, v1::PendingReason::NO_MATCHING_DEVICE,
        absl::StrCat("the job wants a ", v1::ResourceSpec::Kind_Name(wanted.kind())));
    return false;
  }
  if (candidate.device->unhealthy()) {
    const std::string& reason = candidate.device->unhealthy_reason();
    Say(verdict, v1::PendingReason::NO_MATCHING_DEVICE,
        absl::StrCat("the device is unhealthy", reason.empty() ? "" : ": ", reason));
    return false;
  }
  const std::vector<std::string> roots = DataRootsFor(tenant, *candidate.worker);
  for (const std::string& root : DataRootsOf(spec, begins)) {
    if (std::find(roots.begin(), roots.end(), root) == roots.end()) {
      Say(verdict, v1::PendingReason::NO_MATCHING_DEVICE, NoDataRoot(*candidate.worker, roots, root));
      return false;
    }
  }
  return true;
}

bool Suits(const JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
           PresetChoice* choice, DeviceVerdict* verdict) {
  const v1::JobSpec& spec = record.job().spec();
  verdict->set_worker(candidate.worker->worker().name());
  verdict->set_device(candidate.device->id());
  const bool begins = !start.has_value() || !ResumesTraining(spec, *start);
  if (!ServesTenant(*candidate.worker, record.job().tenant())) {
    Say(verdict, v1::PendingReason::NO_MATCHING_DEVICE,
        absl::StrCat("worker ", verdict->worker(), " does not run jobs of the tenant ", record.job().tenant()));
    return false;
  }
  if (!WorkerServes(spec, candidate, verdict) ||
      !DeviceMatches(record.job().tenant(), spec, begins, candidate, verdict)) {
    return false;
  }
  precision::CapabilityGap gap;
  const std::optional<PresetChoice> chosen = precision::ChoosePreset(spec.precision(), *candidate.device, &gap);
  if (!chosen.has_value()) {
    verdict->set_needed(gap.needed);
    verdict->set_available(gap.available);
    Say(verdict, v1::PendingReason::CAPABILITY_TOO_LOW, gap.message);
    return false;
  }
  *choice = *chosen;
  return HasMemory(spec.resources().memory_bytes(), candidate.device->memory_total_bytes(), "the device has",
                   verdict) &&
         ReachesCheckpoint(record.job(), start, candidate, verdict);
}

bool IsFreeFor(const v1::JobSpec& spec, const Candidate& candidate, DeviceVerdict* verdict) {
  if (candidate.held) {
    Say(verdict, v1::PendingReason::DEVICE_BUSY, "the device holds another attempt");
    return false;
  }
  const int64_t declared = spec.resources().memory_bytes();
  const auto free = candidate.facts->free_bytes.find(candidate.device->id());
  const int64_t free_bytes = free == candidate.facts->free_bytes.end() ? 0 : free->second;
  if (declared > 0 && !HasMemory(declared, free_bytes, "the device has free", verdict)) {
    return false;
  }
  Say(verdict, v1::PendingReason::PLACEMENT_DUE, "the device is free");
  return true;
}

bool CanBegin(const JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
              PresetChoice* choice, DeviceVerdict* verdict) {
  return Suits(record, start, candidate, choice, verdict) && IsFreeFor(record.job().spec(), candidate, verdict);
}

std::string NeedsOf(const JobRecord& record) {
  const v1::JobSpec& spec = record.job().spec();
  const std::optional<v1::Checkpoint> start = StartPoint(record);
  const bool begins = !start.has_value() || !ResumesTraining(spec, *start);
  // Each part is preceded by its length, so that two different lists of parts never give the same text.
  std::string needs = record.job().checkpoints().empty() ? "-" : "+";
  const std::string start_bytes = start.has_value() ? start->SerializeAsString() : "";
  for (const std::string& part : {record.job().tenant(), spec.resources().SerializeAsString(),
                                  spec.precision().SerializeAsString(), start_bytes}) {
    absl::StrAppend(&needs, part.size(), ":", part);
  }
  for (const std::string& root : DataRootsOf(spec, begins)) {
    absl::StrAppend(&needs, root.size(), ":", root);
  }
  return needs;
}

bool WaitsForRetry(const JobRecord& record, int64_t now_unix_micros) {
  const int64_t wait = record.not_before_unix_micros() - now_unix_micros;
  return wait > 0 && wait <= absl::ToInt64Microseconds(kMaxRetryDelay);
}

std::optional<v1::Checkpoint> StartPoint(const JobRecord& record) {
  if (!record.job().checkpoints().empty()) {
    return *record.job().checkpoints().rbegin();
  }
  if (record.has_clone_start()) {
    return record.clone_start();
  }
  return std::nullopt;
}

}  // namespace ampd::server
