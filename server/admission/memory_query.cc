#include "server/admission/memory_query.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/exported/import.h"
#include "models/exported.h"
#include "models/models.h"
#include "precision/capability.h"
#include "precision/cost/memory.h"
#include "precision/cost/memory_message.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "server/admission/admission.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

using precision::TrainedPrograms;
using Candidate = v1::EstimateJobResponse::Candidate;

constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;

// One example device for each kind that the job may run on.
std::vector<v1::Device> ExamplesFor(const v1::ResourceSpec& resources) {
  std::vector<v1::Device> devices;
  if (resources.kind() != v1::ResourceSpec::GPU) {
    devices.push_back(precision::ExampleCpu());
  }
  if (resources.kind() != v1::ResourceSpec::CPU) {
    devices.push_back(precision::ExampleGpu());
  }
  return devices;
}

// One way to train: a preset on a device, with its memory model.
struct Way {
  precision::ResolvedPolicy policy;
  precision::MemoryModel memory;
  int64_t num_micro_batches = 1;
  int64_t micro_batch_size = 1;

  precision::MemoryEstimate Peak() const { return memory.At(micro_batch_size); }
  // Returns the largest batch size that fits into the memory. It is at most the limit of data.batch_size, and a
  // multiple of the number of micro-batches.
  int64_t LargestBatch(int64_t memory_bytes) const {
    return std::min(memory.LargestBatch(memory_bytes), kMaxBatchSize / num_micro_batches) * num_micro_batches;
  }
};

// Plans how the job would train under this policy on this device: its micro-batches, checkpoint segments and memory.
// REQUIRES: the policy names one preset.
absl::StatusOr<Way> Plan(const v1::JobSpec& spec, const TrainedPrograms& programs, const v1::PrecisionPolicy& policy,
                         const v1::Device& device, graph::Work* work) {
  AMPD_ASSIGN_OR_RETURN(precision::ResolvedPolicy resolved,
                        precision::ResolvePolicy(policy, programs.train, device, precision::KindOf(spec)));
  precision::TrainingSetup setup = precision::TrainingSetup::Of(spec, device);
  const int64_t micro_batch_size = spec.data().batch_size() / setup.num_micro_batches;
  if (const int64_t budget = spec.train().memory_budget_bytes(); budget > 0) {
    AMPD_ASSIGN_OR_RETURN(const precision::SegmentChoice choice,
                          precision::ChooseSegments(programs, resolved, setup, micro_batch_size, budget, work));
    setup.checkpoint_segments = choice.segments;
  }
  AMPD_ASSIGN_OR_RETURN(precision::MemoryModel memory, precision::MemoryModel::Create(programs, resolved, setup, work));
  return Way{std::move(resolved), std::move(memory), setup.num_micro_batches, micro_batch_size};
}

Candidate CandidateOf(const Way& way, const v1::Device& device, int64_t memory_bytes) {
  Candidate candidate = precision::ToMessage(way.Peak());
  candidate.set_precision(way.policy.preset);
  candidate.set_device_kind(v1::Device::Kind_Name(device.kind()));
  candidate.set_emulated(way.policy.emulated());
  candidate.set_largest_batch_size(way.LargestBatch(memory_bytes));
  return candidate;
}

// A device and its worker.
struct Place {
  const v1::Worker* worker = nullptr;
  const v1::Device* device = nullptr;
};

// Returns two of the devices of this kind that can run the policy: the one with the least memory and the one with the
// most. Returns only one if all have the same memory.
std::vector<Place> Extremes(const std::vector<v1::Worker>& workers, v1::Device::Kind kind,
                            const v1::PrecisionPolicy& policy) {
  std::vector<Place> places;
  for (const v1::Worker& worker : workers) {
    for (const v1::Device& device : worker.devices()) {
      if (device.kind() == kind && !precision::FindCapabilityGap(policy, device).has_value()) {
        places.push_back({&worker, &device});
      }
    }
  }
  if (places.empty()) {
    return places;
  }
  const auto has_less = [](const Place& a, const Place& b) {
    return a.device->memory_total_bytes() < b.device->memory_total_bytes();
  };
  const auto [least, most] = std::minmax_element(places.begin(), places.end(), has_less);
  return has_less(*least, *most) ? std::vector<Place>{*least, *most} : std::vector<Place>{*least};
}

void AddFit(const Way& way, const Place& place, Candidate* candidate) {
  v1::EstimateJobResponse::Fit& fit = *candidate->add_fits();
  fit.set_worker(place.worker->name());
  fit.set_device(place.device->id());
  fit.set_memory_bytes(place.device->memory_total_bytes());
  fit.set_largest_batch_size(way.LargestBatch(fit.memory_bytes()));
}

// Whether the job runs the model's evaluation program: to evaluate, or to predict.
bool Evaluates(const v1::JobSpec& spec) { return spec.data().has_eval() || spec.has_predict(); }

absl::StatusOr<TrainedPrograms> ExportedPrograms(const v1::JobSpec& spec, const graph::ExportedModel* uploaded) {
  if (uploaded == nullptr) {
    return UnsupportedField("model.exported", WhyUnseen(spec.model().exported()));
  }
  AMPD_ASSIGN_OR_RETURN(
      const graph::ImportedPrograms imported,
      graph::ImportPrograms(*uploaded, models::ImportOptionsOf(spec.model().exported(),
                                                               models::SequenceLengthOf(models::MainSourceOf(spec)))));
  AMPD_ASSIGN_OR_RETURN(TrainedPrograms programs,
                        TrainedPrograms::Of(imported.train, Evaluates(spec) ? &imported.eval : nullptr));
  return programs;
}

absl::StatusOr<TrainedPrograms> ZooPrograms(const v1::JobSpec& spec) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph model, models::BuildModel(spec));
  return TrainedPrograms::Of(model, Evaluates(spec));
}

absl::StatusOr<TrainedPrograms> KnownPrograms(const v1::JobSpec& spec, const graph::ExportedModel* uploaded) {
  AMPD_ASSIGN_OR_RETURN(TrainedPrograms programs,
                        spec.model().has_exported() ? ExportedPrograms(spec, uploaded) : ZooPrograms(spec));
  const int64_t num_samples = std::max(spec.data().batch_size(), spec.data().eval_batch_size());
  if (!programs.AreCountable(num_samples)) {
    return InvalidFields(
        {{"data.batch_size",
          absl::StrCat("is ", spec.data().batch_size(), ", and that of evaluations ", spec.data().eval_batch_size(),
                       "; so many samples of the model are more than any machine has memory for")}});
  }
  return programs;
}

}  // namespace

absl::StatusOr<v1::EstimateJobResponse> AnswerMemoryQuery(const v1::EstimateJobRequest& request,
                                                          const std::vector<v1::Worker>& workers,
                                                          const graph::ExportedModel* uploaded, graph::Work* work) {
  if (request.memory_bytes() < 0 || request.memory_bytes() > kMaxMemoryBytes) {
    return InvalidFields(
        {{"memory_bytes", absl::StrCat("is ", request.memory_bytes(), "; must be 0 to ", kMaxMemoryBytes)}});
  }
  AMPD_ASSIGN_OR_RETURN(const v1::JobSpec spec, AdmitSpec(request.spec(), uploaded));
  AMPD_ASSIGN_OR_RETURN(const TrainedPrograms programs, KnownPrograms(spec, uploaded));
  v1::EstimateJobResponse response;
  response.set_memory_bytes(request.memory_bytes() > 0 ? request.memory_bytes() : spec.resources().memory_bytes());
  for (const std::string& preset : precision::CandidatePresets(spec.precision())) {
    const v1::PrecisionPolicy policy = precision::WithPreset(spec.precision(), preset);
    for (const v1::Device& example : ExamplesFor(spec.resources())) {
      if (precision::FindCapabilityGap(policy, example).has_value()) {
        continue;
      }
      const std::vector<Place> places = Extremes(workers, example.kind(), policy);
      const v1::Device& device = places.empty() ? example : *places.front().device;
      Candidate& candidate = *response.add_candidates();
      AMPD_ASSIGN_OR_RETURN(const Way way, Plan(spec, programs, policy, device, work));
      candidate = CandidateOf(way, device, response.memory_bytes());
      for (size_t i = 0; response.memory_bytes() == 0 && i < places.size(); ++i) {
        if (i == 0) {
          AddFit(way, places[i], &candidate);
          continue;
        }
        AMPD_ASSIGN_OR_RETURN(const Way other, Plan(spec, programs, policy, *places[i].device, work));
        AddFit(other, places[i], &candidate);
      }
    }
  }
  if (work != nullptr) {
    AMPD_RETURN_IF_ERROR(work->status());
  }
  return response;
}

absl::StatusOr<int64_t> PredictPeak(const v1::JobSpec& spec, const std::string& preset, const v1::Device& device,
                                    const graph::ExportedModel* uploaded, graph::Work* work) {
  AMPD_ASSIGN_OR_RETURN(const TrainedPrograms programs, KnownPrograms(spec, uploaded));
  AMPD_ASSIGN_OR_RETURN(const Way way,
                        Plan(spec, programs, precision::WithPreset(spec.precision(), preset), device, work));
  const int64_t bytes = way.Peak().total();
  if (work != nullptr) {
    AMPD_RETURN_IF_ERROR(work->status());
  }
  return bytes;
}

}  // namespace ampd::server
