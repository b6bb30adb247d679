// Trains networks under presets on a device. Reports the losses, speed and memory of each training, and whether
// replayed steps give the same losses as steps that run op by op. Also measures the device itself, and the optimizer
// step in comparison with a copy of memory.
//
//   policy_report DEVICE [FLAG...]   DEVICE: cpu or gpu<n>
//   policy_report presets            prints the names of all presets
//
//   --networks=A,B       the networks to train (default gpt); "all": the small ones; "none". A name with a slash is the
//                        path of an exported model, without .pt2 (policy_report_imported.h).
//   --presets=A,B        the presets (default: those of PyTorch's formats and FP8); "all"
//   --steps=N            timed steps of each training (default 50)
//   --batch=N            samples in a batch (default: the network's own)
//   --tiny               small networks, batches and buffers, to see on a CPU that everything runs
//   --nondeterministic   also time algorithms that need not be deterministic
//   --compare-cpu=A,B    under these presets, compare losses on a GPU with those on the CPU; "all". Networks that draw
//                        random numbers are left out, because a GPU and a CPU draw different numbers.
//   --kernels            report the time of each kernel in two further steps
//   --no-op-by-op        do not repeat replayed steps op by op
//   --ceilings           also measure the speed of a memory copy, and of matrix products in each format
//   --optimizer          also measure the optimizer step
//   --turns              do nothing but train one network under one preset: for each line "N" on stdin, take N steps on
//                        one batch and print the seconds per step, the last loss and the peak of allocated bytes. With
//                        --no-replay these steps run op by op; --nondeterministic allows nondeterministic algorithms.
//
// The program opens the device as the trainer does. Each line of the output is a JSON object. It is printed as soon as
// its measurement ends, so that a crash loses only the measurement that was running:
//   {"what": "device", "device", "replays", "why_not"}
//   {"what": "training", "network", "preset"} and one of
//     "skipped": why the device does not support the preset
//     "error": the first line of the error
//     "emulated", "replayed", "graph_failure", "host_waits", "losses", "skipped_steps", "steps_per_second",
//     "allocated_peak_bytes" (from the first step on), "reserved_peak_bytes", "graph_bytes"; if steps are replayed,
//     "same_losses_op_by_op", "op_by_op_steps_per_second", "op_by_op_allocated_peak_bytes";
//     with --nondeterministic, "nondeterministic_steps_per_second" and "nondeterministic_difference"; with
//     --compare-cpu, "largest_difference_from_cpu"; with --kernels, "profiled_steps" and "kernels", a list of {"name",
//     "count", "milliseconds"}, the longest time first. A loss that is not finite is null, and so is a difference from
//     such a loss.
//   {"what": "copy", "gigabytes_per_second"}, {"what": "product", "format", "size", "teraflops" or "error"}
//   {"what": "optimizer_step", "parameters", "seconds", "gigabytes_per_second", "copy_gigabytes_per_second"}
// Exits with 1 if there was an error. scripts/gpu-check runs it on a GPU. A CPU can run all of it too.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "c10/util/Exception.h"
#include "precision/preset.h"
#include "tests/bench/policy_report_ceilings.h"
#include "tests/bench/policy_report_imported.h"
#include "tests/bench/policy_report_networks.h"
#include "tests/bench/policy_report_training.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/run_attempt.h"

namespace ampd::bench {
namespace {

using nlohmann::ordered_json;

struct Flags {
  std::string device;
  std::vector<std::string> networks = {"gpt"};
  std::vector<std::string> presets = {"fp32", "tf32", "bf16", "fp16", "fp8", "fp8-delayed", "fp8-block"};
  std::vector<std::string> compared_presets;
  NetworkOptions network;
  TrainingOptions training;
  bool ceilings = false;
  bool optimizer = false;
  bool turns = false;
  bool replays = true;
};

std::vector<std::string> SmallNetworks() {
  std::vector<std::string> names;
  for (const std::string_view name : NetworkNames()) {
    if (name != "gpt2-124m" && name != "resnet50") {
      names.emplace_back(name);
    }
  }
  return names;
}

std::vector<std::string> Presets() {
  std::vector<std::string> names;
  for (const precision::Preset& preset : precision::AllPresets()) {
    names.emplace_back(preset.name);
  }
  return names;
}

// Returns the comma-separated names in a flag's value. "all" stands for all names, "none" for no names.
std::vector<std::string> Listed(absl::string_view value, std::vector<std::string> (*all)()) {
  return value == "all" ? all() : value == "none" ? std::vector<std::string>() : absl::StrSplit(value, ',');
}

bool ReadSwitch(absl::string_view flag, Flags& flags) {
  const std::pair<absl::string_view, bool*> switches[] = {
      {"--tiny", &flags.network.tiny},        {"--nondeterministic", &flags.training.nondeterministic},
      {"--kernels", &flags.training.kernels}, {"--ceilings", &flags.ceilings},
      {"--optimizer", &flags.optimizer},      {"--turns", &flags.turns}};
  for (const auto& [name, value] : switches) {
    if (flag == name) {
      *value = true;
      return true;
    }
  }
  flags.training.op_by_op = flag != "--no-op-by-op" && flags.training.op_by_op;
  flags.replays = flag != "--no-replay" && flags.replays;
  return flag == "--no-op-by-op" || flag == "--no-replay";
}

bool ReadFlag(absl::string_view flag, Flags& flags) {
  if (absl::ConsumePrefix(&flag, "--networks=")) {
    flags.networks = Listed(flag, SmallNetworks);
  } else if (absl::ConsumePrefix(&flag, "--presets=")) {
    flags.presets = Listed(flag, Presets);
  } else if (absl::ConsumePrefix(&flag, "--compare-cpu=")) {
    flags.compared_presets = Listed(flag, Presets);
  } else if (absl::ConsumePrefix(&flag, "--steps=")) {
    return absl::SimpleAtoi(flag, &flags.network.num_batches) && flags.network.num_batches > 0;
  } else if (absl::ConsumePrefix(&flag, "--batch=")) {
    return absl::SimpleAtoi(flag, &flags.network.batch_size) && flags.network.batch_size > 0;
  } else {
    return ReadSwitch(flag, flags);
  }
  return true;
}

bool ReadFlags(int argc, char** argv, Flags& flags) {
  flags.device = argc > 1 ? argv[1] : "";
  return argc > 1 && !absl::StartsWith(flags.device, "-") &&
         std::all_of(argv + 2, argv + argc, [&](const char* flag) { return ReadFlag(flag, flags); }) &&
         (!flags.turns || (flags.networks.size() == 1 && flags.presets.size() == 1));
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "policy_report: %s\n", std::string(status.message()).c_str());
  return 2;
}

// Prints a line immediately. Returns whether the line reports an error.
bool Print(const ordered_json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  std::fflush(stdout);
  return line.contains("error");
}

// Trains one network under every preset. Returns whether any training had an error.
absl::StatusOr<bool> ReportNetwork(const std::string& name, const amp::ComputeDevice& device, const Flags& flags) {
  AMPD_ASSIGN_OR_RETURN(const Network network, absl::StrContains(name, '/')
                                                   ? ImportNetwork(name, flags.network.num_batches)
                                                   : MakeNetwork(name, flags.network));
  bool any_error = false;
  for (const std::string& preset : flags.presets) {
    TrainingOptions options = flags.training;
    options.compare_cpu = std::count(flags.compared_presets.begin(), flags.compared_presets.end(), preset) > 0;
    any_error |= Print(ReportPreset(name, preset, network, device, options));
  }
  return any_error;
}

// Runs a measurement that prints its own lines. Returns whether it had an error.
template <typename Measurement>
bool Measure(const char* what, Measurement measurement) {
  try {
    return measurement();
  } catch (const c10::Error& error) {
    return Print({{"what", what}, {"error", error.what_without_backtrace()}});
  }
}

int Report(const amp::ComputeDevice& device, const Flags& flags) {
  Print({{"what", "device"},
         {"device", train::NameOf(device)},
         {"replays", device.graphs != nullptr},
         {"why_not", device.why_no_graphs}});
  bool any_error = false;
  if (flags.ceilings) {
    any_error |= Measure("copy", [&] {
      bool failed = false;
      for (const ordered_json& line : MeasureCeilings(device, flags.network.tiny)) {
        failed |= Print(line);
      }
      return failed;
    });
  }
  if (flags.optimizer) {
    any_error |= Measure("optimizer_step", [&] { return Print(MeasureOptimizer(device, flags.network.tiny)); });
  }
  for (const std::string& name : flags.networks) {
    const absl::StatusOr<bool> failed = ReportNetwork(name, device, flags);
    if (!failed.ok()) {
      return Fail(failed.status());
    }
    any_error |= *failed;
  }
  return any_error ? 1 : 0;
}

int Turns(const amp::ComputeDevice& device, const Flags& flags) {
  NetworkOptions options = flags.network;
  options.num_batches = 1;
  const absl::StatusOr<Network> network = MakeNetwork(flags.networks[0], options);
  if (!network.ok()) {
    return Fail(network.status());
  }
  try {
    const absl::Status status =
        TakeTurns(flags.presets[0], *network, device,
                  {.replays = flags.replays, .nondeterministic = flags.training.nondeterministic});
    return status.ok() ? 0 : Fail(status);
  } catch (const c10::Error& error) {
    return Fail(absl::InternalError(error.what_without_backtrace()));
  }
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "presets") {
    for (const std::string& preset : Presets()) {
      std::printf("%s\n", preset.c_str());
    }
    return 0;
  }
  Flags flags;
  if (!ReadFlags(argc, argv, flags)) {
    std::fprintf(stderr, "usage: policy_report DEVICE [FLAG...], as described in tests/bench/policy_report.cc\n");
    return 2;
  }
  const auto device = train::WarmUp(flags.device);
  if (!device.ok()) {
    return Fail(device.status());
  }
  return flags.turns ? Turns(*device, flags) : Report(*device, flags);
}

}  // namespace
}  // namespace ampd::bench

int main(int argc, char** argv) { return ampd::bench::Main(argc, argv); }
