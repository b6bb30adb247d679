#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "c10/core/Device.h"

namespace ampd::amp {

// The work of a step on a GPU, recorded once and from then on launched as one: a CUDA graph. Recorded is what the step
// gives to the device, with the addresses that it uses. What the host does besides happens once, while it is recorded.
// So that step takes its input from tensors that stay, copies nothing from the host and reads nothing back; the memory
// that it allocates belongs to the graph.
//
// 1. WarmUp() a few steps: libraries choose algorithms and take memory then, which a recording does not allow.
// 2. Capture() one, which computes nothing.
// 3. Replay() it as often as wanted.
//
// Random ops follow seeds that every replay gives anew: UseSeed() says, within the step, from where on which one
// counts. A graph may be destroyed while a replay is under way, which goes on. Single-threaded: owner is the engine.
// LibTorch's errors leave WarmUp and Replay as c10::Error.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Does the step where one will be recorded, behind all that LibTorch's current stream was given; what that is given
  // later comes behind the step.
  virtual void WarmUp(absl::FunctionRef<void()> step) = 0;

  // Records the step, with room for `num_seeds` seeds. Returns why it can't be recorded, in one line, and is of no more
  // use then; empty: it is. REQUIRES: called once.
  virtual std::string Capture(size_t num_seeds, absl::FunctionRef<void()> step) = 0;
  // REQUIRES: called by the step that is recorded; `number` is less than `num_seeds`.
  virtual void UseSeed(size_t number) = 0;

  // Gives LibTorch's current stream the recorded step. REQUIRES: Capture recorded one with as many seeds.
  virtual void Replay(const std::vector<uint64_t>& seeds) = 0;

  struct Memory {
    int64_t own_bytes = 0;   // kept for the recorded step, also between its replays
    int64_t free_bytes = 0;  // what everything else may still take of the device beside that
  };
  // As it is now; waits for nothing. REQUIRES: Capture recorded a step.
  virtual Memory memory() const = 0;
};

// Changes with every change of StepGraph and of what follows.
inline constexpr uint32_t kStepGraphsVersion = 2;
inline constexpr char kStepGraphsSymbol[] = "ampd_step_graphs";

// What libampd_cuda_graph.so exports, from the same build as the program that opens it.
struct StepGraphs {
  uint32_t version;
  std::unique_ptr<StepGraph> (*make)(c10::Device device);
  // While it is forbidden, LibTorch throws where it would make the host wait for the device. For tests.
  void (*forbid_waits)(bool forbidden);
};

}  // namespace ampd::amp

extern "C" {
using AmpdStepGraphsFunction = const ampd::amp::StepGraphs*();
}
