// Runs every policy on a device: the losses of a small GPT, and the optimizer step relative to the memory's speed.
//
//   policy_report DEVICE [STEPS]   DEVICE: cpu or gpu<n>; prints one JSON object
//
// {"device": ..., "policies": [{"preset", "emulated", "replayed", "same_losses_op_by_op", "host_waits", "losses":
// [...],
//  "skipped_steps", "steps_per_second", "op_by_op_steps_per_second", "peak_bytes"}...], "optimizer_step":
//  {"parameters", "seconds", "gigabytes_per_second", "copy_gigabytes_per_second"}}
//
// scripts/gpu-check runs it on a GPU. A CPU can run all of it too.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/status_macros.h"
#include "c10/util/Exception.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/capability.h"
#include "precision/policy.h"
#include "worker/amp/engine.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd {
namespace {

constexpr int64_t kVocabulary = 512;
constexpr int64_t kSequence = 128;
constexpr int64_t kBatch = 8;
constexpr int kUntimedSteps = 5;  // These steps choose algorithms, allocate memory and record graphs.
constexpr const char* kPresets[] = {"fp32", "tf32", "bf16", "fp16", "fp8", "fp8-delayed", "fp8-block"};

graph::Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 4, .width = 256, .num_heads = 4, .vocabulary = kVocabulary, .sequence_length = kSequence})
      .value();
}

// Describes the device as placement knows it.
v1::Device Described(const amp::ComputeDevice& device) {
  v1::Device described;
  described.set_id(device.device.is_cuda() ? "gpu" : "cpu");
  described.set_kind(device.device.is_cuda() ? v1::Device::GPU : v1::Device::CPU);
  described.add_instruction_sets("avx512_bf16");
  if (device.cuda_kernels != nullptr) {
    kernels::CudaDevice properties;
    (void)device.cuda_kernels->describe_device(0, &properties);
    described.set_capability_major(properties.capability_major);
    described.set_capability_minor(properties.capability_minor);
  }
  return described;
}

// Makes batches in which the next token is a function of the last one.
std::vector<amp::Batch> Batches(int num_batches) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(11);
  std::vector<amp::Batch> batches;
  for (int i = 0; i < num_batches; ++i) {
    const at::Tensor tokens = at::randint(0, kVocabulary, {kBatch, kSequence}, at::kLong);
    batches.push_back({tokens, tokens.mul(3).add(1).remainder(kVocabulary)});
  }
  return batches;
}

struct Run {
  std::vector<float> losses;
  double steps_per_second = 0;
  int64_t skipped_steps = 0;
  int64_t peak_bytes = 0;
  bool replayed = false;
  std::string host_waits = "null";  // Whether the host waits between Enqueue and Take; null if nothing can detect it.
};

// Returns whether the host waits in one step. LibTorch's check throws at such a wait, and the step is then abandoned.
std::string HostWaits(amp::Engine& engine, const amp::StepGraphs& graphs, const amp::Batch& batch) {
  graphs.forbid_waits(true);
  bool waits = false;
  try {
    engine.Enqueue({batch});
  } catch (const c10::Error&) {
    waits = true;
  }
  graphs.forbid_waits(false);
  if (!waits) {
    (void)engine.Take();
  }
  return waits ? "true" : "false";
}

absl::StatusOr<Run> Train(const precision::ResolvedPolicy& policy, const amp::ComputeDevice& device,
                          const std::vector<amp::Batch>& batches) {
  amp::EngineOptions options;
  options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3, .weight_decay = 0.1};
  options.clip_grad_norm = 1.0;
  options.seed = 7;
  options.device = device;
  auto engine = amp::Engine::Create(Gpt(), policy, options);
  if (!engine.ok()) {
    return engine.status();
  }
  for (int i = 0; i < kUntimedSteps; ++i) {
    (*engine)->Step({batches[0]});
  }
  train::ResetPeakMemory(device);
  Run run;
  const absl::Time begin = absl::Now();
  for (const amp::Batch& batch : batches) {
    run.losses.push_back((*engine)->Step({batch}).loss);
  }
  run.steps_per_second = static_cast<double>(batches.size()) / absl::ToDoubleSeconds(absl::Now() - begin);
  run.skipped_steps = (*engine)->skipped_steps();
  run.peak_bytes = train::GetMemory(device).peak_bytes;
  run.replayed = (*engine)->replays();
  if (device.graphs != nullptr) {
    run.host_waits = HostWaits(**engine, *device.graphs, batches[0]);
  }
  return run;
}

const char* Text(bool yes) { return yes ? "true" : "false"; }

// Trains under the preset and reports it. If the device can replay steps from a graph, runs them both replayed and op
// by op.
absl::StatusOr<std::string> Report(const std::string& preset, const amp::ComputeDevice& device,
                                   const std::vector<amp::Batch>& batches) {
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy resolved,
                        precision::ResolvePolicy(policy, *graph::WithLossHead(Gpt()), Described(device),
                                                 precision::OptimizerKind::kAdam));
  AMPD_ASSIGN_OR_RETURN(const Run run, Train(resolved, device, batches));
  std::string op_by_op;
  if (device.graphs != nullptr) {
    amp::ComputeDevice without_graphs = device;
    without_graphs.graphs = nullptr;
    AMPD_ASSIGN_OR_RETURN(const Run other, Train(resolved, without_graphs, batches));
    op_by_op = absl::StrCat(", \"same_losses_op_by_op\": ", Text(other.losses == run.losses),
                            ", \"op_by_op_steps_per_second\": ", other.steps_per_second);
  }
  return absl::StrCat("{\"preset\": \"", preset, "\", \"emulated\": ", Text(resolved.emulated()),
                      ", \"replayed\": ", Text(run.replayed), op_by_op, ", \"host_waits\": ", run.host_waits,
                      ", \"losses\": [", absl::StrJoin(run.losses, ", "), "], \"skipped_steps\": ", run.skipped_steps,
                      ", \"steps_per_second\": ", run.steps_per_second, ", \"peak_bytes\": ", run.peak_bytes, "}");
}

double SecondsOf(const amp::ComputeDevice& device, const std::function<void()>& work) {
  constexpr int kRepeats = 10;
  const at::Tensor probe = at::empty({1}, at::TensorOptions(at::kFloat).device(device.device)).zero_();
  const auto finish = [&] { (void)probe.item<float>(); };  // waits for the device's stream
  work();
  finish();
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const absl::Time begin = absl::Now();
    work();
    finish();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// Measures one update. It reads and writes 28 bytes a parameter: bf16 gradients and working copies, fp32 masters and
// moments.
std::string OptimizerStep(const amp::ComputeDevice& device, int64_t num_parameters) {
  constexpr double kBytes = 28;
  const auto kernels = amp::StepKernels::Make(device);
  const auto options = at::TensorOptions(at::kFloat).device(device.device);
  const at::Tensor start = at::randn({num_parameters}, options);
  const std::vector<amp::Parameter> parameters = {
      {.name = "", .master = start, .leaf = start.to(at::kBFloat16), .remainder = {}}};
  const std::vector<at::Tensor> gradients = {at::randn({num_parameters}, options).to(at::kBFloat16)};
  amp::Optimizer optimizer({.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-4}, parameters, *kernels);
  amp::StepScalars scalars(device.device, {}, {optimizer.rule()}, {gradients.size()});
  scalars.Load({}, /*rate_factor=*/1, /*applied=*/{0});
  kernels->Decide(scalars.control(), 0, 1);
  const double update = SecondsOf(device, [&] { optimizer.Step(gradients, scalars.decision(0)); });
  at::Tensor copy = at::empty_like(start);
  const double copying = SecondsOf(device, [&] { copy.copy_(start); });
  const auto rate = [&](double bytes, double seconds) {
    return bytes * static_cast<double>(num_parameters) / seconds / 1e9;
  };
  return absl::StrCat("{\"parameters\": ", num_parameters, ", \"seconds\": ", update,
                      ", \"gigabytes_per_second\": ", rate(kBytes, update),
                      ", \"copy_gigabytes_per_second\": ", rate(2 * sizeof(float), copying), "}");
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: policy_report DEVICE [STEPS]\n");
    return 2;
  }
  const auto device = train::OpenComputeDevice(argv[1]);
  if (!device.ok()) {
    std::fprintf(stderr, "policy_report: %s\n", std::string(device.status().message()).c_str());
    return 2;
  }
  if (!device->device.is_cuda()) {
    train::InstallCountingAllocator();
  }
  const std::vector<amp::Batch> batches = Batches(argc == 3 ? std::max(1, std::atoi(argv[2])) : 50);
  std::vector<std::string> policies;
  for (const char* preset : kPresets) {
    v1::PrecisionPolicy policy;
    policy.set_preset(preset);
    if (precision::FindCapabilityGap(policy, Described(*device)).has_value()) {
      continue;
    }
    const auto trained = Report(preset, *device, batches);
    if (!trained.ok()) {
      std::fprintf(stderr, "policy_report: %s: %s\n", preset, std::string(trained.status().message()).c_str());
      return 1;
    }
    policies.push_back(*trained);
  }
  const int64_t num_parameters = device->device.is_cuda() ? 256 << 20 : 4 << 20;
  std::printf("{\"device\": \"%s\", \"policies\": [%s], \"optimizer_step\": %s}\n", train::NameOf(*device).c_str(),
              absl::StrJoin(policies, ", ").c_str(), OptimizerStep(*device, num_parameters).c_str());
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
