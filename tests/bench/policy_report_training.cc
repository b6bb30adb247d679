#include "tests/bench/policy_report_training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/status_macros.h"
#include "c10/core/CachingDeviceAllocator.h"
#include "c10/util/Exception.h"
#include "graph/passes.h"
#include "precision/capability.h"
#include "precision/policy.h"
#include "tests/bench/policy_report_kernels.h"
#include "tests/bench/this_cpu.h"
#include "worker/amp/engine.h"
#include "worker/amp/program_facts.h"
#include "worker/train/device/compute_device.h"

namespace ampd::bench {
namespace {

using nlohmann::ordered_json;

constexpr size_t kProfiledSteps = 2;
constexpr size_t kUntimedSteps = 5;  // In these steps, the engine chooses algorithms and records CUDA graphs.
constexpr uint64_t kWeightSeed = 7;  // The same seed as in tools/gpu/gpu_peers.py.

// While an object of this class exists, LibTorch may choose nondeterministic algorithms.
class Nondeterministic {
 public:
  explicit Nondeterministic(const amp::ComputeDevice& device) : device_(device) {
    train::UseAlgorithms(device_, /*deterministic=*/false);
  }
  ~Nondeterministic() { train::UseAlgorithms(device_, /*deterministic=*/true); }
  Nondeterministic(const Nondeterministic&) = delete;
  Nondeterministic& operator=(const Nondeterministic&) = delete;

 private:
  const amp::ComputeDevice& device_;
};

// Describes the device as a worker describes it to the server.
v1::Device Described(const amp::ComputeDevice& device) {
  if (!device.device.is_cuda()) {
    return ThisCpu();
  }
  v1::Device described;
  described.set_id("gpu");
  described.set_kind(v1::Device::GPU);
  kernels::CudaDevice properties;
  (void)device.cuda_kernels->describe_device(0, &properties);
  described.set_capability_major(properties.capability_major);
  described.set_capability_minor(properties.capability_minor);
  return described;
}

v1::PrecisionPolicy PolicyOf(const std::string& preset) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  return policy;
}

absl::StatusOr<precision::ResolvedPolicy> Resolve(const std::string& preset, const Network& network,
                                                  const amp::ComputeDevice& device) {
  AMPD_ASSIGN_OR_RETURN(const graph::Graph with_loss, graph::WithLossHead(network.model));
  return precision::ResolvePolicy(PolicyOf(preset), with_loss, Described(device), precision::OptimizerKind::kAdam);
}

absl::StatusOr<std::unique_ptr<amp::Engine>> MakeEngine(const precision::ResolvedPolicy& policy, const Network& network,
                                                        const amp::ComputeDevice& device) {
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3, .weight_decay = 0.1};
  options.clip_grad_norm = 1.0;
  options.seed = kWeightSeed;
  options.device = device;
  options.eval_model = network.eval;
  AMPD_ASSIGN_OR_RETURN(std::unique_ptr<amp::Engine> engine, amp::Engine::Create(network.model, policy, options));
  if (!network.state.empty()) {
    amp::EngineState state = engine->ExportState();
    for (const auto& [name, tensor] : network.state) {
      state.model.insert_or_assign(name, tensor);
    }
    AMPD_RETURN_IF_ERROR(engine->ImportState(state));
  }
  return engine;
}

// Frees memory that earlier trainings left in the allocator, so that the measured peaks belong to the next training
// only.
void StartMemory(const amp::ComputeDevice& device) {
  if (device.device.is_cuda()) {
    c10::getDeviceAllocator(device.device.type())->emptyCache();
  }
}

// Takes steps in the same way as the trainer: on a GPU, a step starts before the results of the previous step are read.
// Returns the losses.
std::vector<float> TakeSteps(amp::Engine& engine, const std::vector<amp::Batch>& batches, bool on_gpu) {
  std::vector<float> losses;
  const auto take_down_to = [&](int num_left) {
    while (engine.num_pending() > num_left) {
      losses.push_back(engine.AwaitStep().loss);
    }
  };
  for (const amp::Batch& batch : batches) {
    engine.Enqueue({batch});
    take_down_to(on_gpu ? engine.max_pending() : 0);
  }
  take_down_to(0);
  return losses;
}

struct Run {
  std::vector<float> losses;  // losses of all steps, from the first step on
  double steps_per_second = 0;
  int64_t skipped_steps = 0;
  train::DeviceMemory memory;
  int64_t graph_bytes = 0;
  bool replayed = false;
  std::string graph_failure;
  ordered_json kernels;     // Result of TimeByKernel for kProfiledSteps steps; null if kernels were not measured.
  ordered_json host_waits;  // Whether the host waits while it enqueues a step; null if the device cannot detect it.
};

// Enqueues one step. During this, LibTorch throws an error if the host waits for the device. Returns whether it threw.
// A step that waits is not completed.
bool HostWaits(amp::Engine& engine, const amp::StepGraphs& graphs, const amp::Batch& batch) {
  graphs.forbid_waits(true);
  bool waits = false;
  try {
    engine.Enqueue({batch});
  } catch (const c10::Error&) {
    waits = true;
  }
  graphs.forbid_waits(false);
  if (!waits) {
    (void)engine.AwaitStep();
  }
  return waits;
}

absl::StatusOr<Run> Train(const precision::ResolvedPolicy& policy, const Network& network,
                          const amp::ComputeDevice& device, bool kernels = false) {
  const bool on_gpu = device.device.is_cuda();
  StartMemory(device);
  AMPD_ASSIGN_OR_RETURN(const std::unique_ptr<amp::Engine> engine, MakeEngine(policy, network, device));
  train::ResetPeakMemory(device);  // Reset before the first step, because replayed steps allocate no memory.
  Run run;
  run.losses = TakeSteps(*engine, std::vector<amp::Batch>(kUntimedSteps, network.batches[0]), on_gpu);
  const absl::Time begin = absl::Now();
  const std::vector<float> timed = TakeSteps(*engine, network.batches, on_gpu);
  run.steps_per_second = static_cast<double>(timed.size()) / absl::ToDoubleSeconds(absl::Now() - begin);
  run.losses.insert(run.losses.end(), timed.begin(), timed.end());
  run.skipped_steps = engine->skipped_steps();
  run.memory = train::GetMemory(device);
  run.graph_bytes = engine->graph_bytes();
  run.replayed = engine->replays();
  run.graph_failure = engine->graph_failure();
  if (kernels) {
    const std::vector<amp::Batch> batches(kProfiledSteps, network.batches[0]);
    run.kernels = TimeByKernel(device.device, [&] { (void)TakeSteps(*engine, batches, on_gpu); });
  }
  if (device.graphs != nullptr) {
    run.host_waits = HostWaits(*engine, *device.graphs, network.batches[0]);
  }
  return run;
}

// Returns the largest difference between the losses of two runs, divided by the first loss of the second run. If a loss
// is not finite, returns NaN, which JSON shows as null.
double LargestDifference(const std::vector<float>& losses, const std::vector<float>& others) {
  double largest = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    const double difference = std::abs(losses[i] - others[i]);
    if (!std::isfinite(difference)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    largest = std::max(largest, difference);
  }
  return largest / std::abs(others[0]);
}

absl::Status CompareWithCpu(const std::string& preset, const Network& network, const Run& run, ordered_json& report) {
  const std::string on_cpu = preset == "tf32" ? "fp32" : preset;
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy, Resolve(on_cpu, network, {}));
  AMPD_ASSIGN_OR_RETURN(const Run cpu, Train(policy, network, {}));
  report["largest_difference_from_cpu"] = LargestDifference(run.losses, cpu.losses);
  return absl::OkStatus();
}

absl::Status Fill(const std::string& preset, const Network& network, const amp::ComputeDevice& device,
                  const TrainingOptions& options, ordered_json& report) {
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy, Resolve(preset, network, device));
  report["emulated"] = policy.emulated();
  AMPD_ASSIGN_OR_RETURN(const Run run, Train(policy, network, device, options.kernels));
  report["replayed"] = run.replayed;
  report["graph_failure"] =
      device.device.is_cuda() && device.graphs == nullptr ? device.why_no_graphs : run.graph_failure;
  report["host_waits"] = run.host_waits;
  report["losses"] = run.losses;
  report["skipped_steps"] = run.skipped_steps;
  report["steps_per_second"] = run.steps_per_second;
  report["allocated_peak_bytes"] = run.memory.peak_bytes;
  report["reserved_peak_bytes"] = run.memory.reserved_peak_bytes;
  report["graph_bytes"] = run.graph_bytes;
  if (options.kernels) {
    report["profiled_steps"] = kProfiledSteps;
    report["kernels"] = run.kernels;
  }
  if (options.op_by_op && device.graphs != nullptr) {
    amp::ComputeDevice without_graphs = device;
    without_graphs.graphs = nullptr;
    AMPD_ASSIGN_OR_RETURN(const Run other, Train(policy, network, without_graphs));
    report["same_losses_op_by_op"] = other.losses == run.losses;
    report["op_by_op_steps_per_second"] = other.steps_per_second;
    report["op_by_op_allocated_peak_bytes"] = other.memory.peak_bytes;
  }
  if (options.nondeterministic) {
    const Nondeterministic here(device);
    AMPD_ASSIGN_OR_RETURN(const Run other, Train(policy, network, device));
    report["nondeterministic_steps_per_second"] = other.steps_per_second;
    report["nondeterministic_difference"] = LargestDifference(other.losses, run.losses);
  }
  const bool compares = options.compare_cpu && device.device.is_cuda() && !amp::IsRandom(network.model);
  return compares ? CompareWithCpu(preset, network, run, report) : absl::OkStatus();
}

// Returns the first line of an error's text, without LibTorch's stack trace.
std::string FirstLine(const char* text) {
  const std::string_view all = text;
  return std::string(all.substr(0, all.find('\n')));
}

}  // namespace

ordered_json ReportPreset(std::string_view network_name, const std::string& preset, const Network& network,
                          const amp::ComputeDevice& device, const TrainingOptions& options) {
  ordered_json report = {{"what", "training"}, {"network", network_name}, {"preset", preset}};
  if (const auto gap = precision::FindCapabilityGap(PolicyOf(preset), Described(device)); gap.has_value()) {
    report["skipped"] = gap->message;
    return report;
  }
  try {
    if (const absl::Status status = Fill(preset, network, device, options, report); !status.ok()) {
      report["error"] = status.message();
    }
  } catch (const c10::Error& error) {
    report["error"] = FirstLine(error.what_without_backtrace());
  } catch (const std::exception& error) {
    report["error"] = FirstLine(error.what());
  }
  return report;
}

absl::Status TakeTurns(const std::string& preset, const Network& network, const amp::ComputeDevice& device,
                       const TurnOptions& options) {
  amp::ComputeDevice used = device;
  used.graphs = options.replays ? device.graphs : nullptr;
  std::optional<Nondeterministic> nondeterministic;
  if (options.nondeterministic) {
    nondeterministic.emplace(device);
  }
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy, Resolve(preset, network, used));
  AMPD_ASSIGN_OR_RETURN(const std::unique_ptr<amp::Engine> engine, MakeEngine(policy, network, used));
  train::ResetPeakMemory(used);
  for (std::string line; std::getline(std::cin, line);) {
    int num_steps = 0;
    if (!absl::SimpleAtoi(line, &num_steps) || num_steps < 1) {
      return absl::InvalidArgumentError(absl::StrCat("not a number of steps: ", line));
    }
    const std::vector<amp::Batch> batches(static_cast<size_t>(num_steps), network.batches[0]);
    const absl::Time begin = absl::Now();
    const float loss = TakeSteps(*engine, batches, used.device.is_cuda()).back();
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin) / num_steps;
    std::printf("%.9f %.6f %lld\n", seconds, loss, static_cast<long long>(train::GetMemory(used).peak_bytes));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace ampd::bench
