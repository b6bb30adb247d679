#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "c10/core/Device.h"
#include "worker/amp/step/tensor_copy.h"

namespace ampd::amp {

// The work of a step on a GPU, recorded once and then launched as a whole: a CUDA graph. A recording holds the device's
// work and the addresses it uses. What the host does happens only once, during the recording. So the recorded step must
// read its input from tensors that persist, copy nothing from the host and read nothing back; the memory that it
// allocates belongs to the graph.
//
// 1. WarmUp() a few steps, in which libraries choose algorithms and allocate memory; a recording allows neither.
// 2. Capture() one step. Capturing records the work and computes nothing.
// 3. Replay() it as often as wanted.
//
// Every replay sets the seeds of the random ops again: UseSeed() marks, within the step, where a seed starts to apply.
// A graph may be destroyed while a replay is in flight; the replay still completes. Single-threaded; owner: the engine.
// WarmUp and Replay throw LibTorch's errors as c10::Error.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Runs the step without recording it, on the stream that Capture will use. The step runs after the work already given
  // to LibTorch's current stream, and before later work on that stream.
  virtual void WarmUp(absl::FunctionRef<void()> step) = 0;

  // Records the step, with `num_seeds` seeds. Returns an empty string on success. Otherwise returns the reason in one
  // line, and the graph is unusable. REQUIRES: called once.
  virtual std::string Capture(size_t num_seeds, absl::FunctionRef<void()> step) = 0;
  // Called by the step while it is recorded: random ops after this call use seed `number` of a replay. REQUIRES:
  // `number` is less than `num_seeds`.
  virtual void UseSeed(size_t number) = 0;

  // Launches the recorded step on LibTorch's current stream. REQUIRES: Capture recorded a step with as many seeds.
  virtual void Replay(const std::vector<uint64_t>& seeds) = 0;

  struct Memory {
    int64_t own_bytes = 0;   // Kept for the recorded step, also between its replays.
    int64_t free_bytes = 0;  // Memory that everything else may still allocate on the device.
  };
  // Returns the current memory use. Does not wait for the device. REQUIRES: Capture recorded a step.
  virtual Memory memory() const = 0;
};

// Copies the inputs of steps from the host to a GPU. The transfer over the bus runs on a stream of its own, while the
// GPU computes the previous step. Single-threaded; owner: the engine.
class InputCopies {
 public:
  virtual ~InputCopies() = default;

  // Makes each `to`, on the GPU, equal to its `from`, for work that is launched after this call on LibTorch's current
  // stream. Does not wait for the GPU; `from` must not change before that work has ended.
  virtual void Copy(const std::vector<TensorCopy>& copies) = 0;
};

// Incremented with every change to StepGraph, InputCopies, TensorCopy or StepGraphs.
inline constexpr uint32_t kStepGraphsVersion = 3;
inline constexpr char kStepGraphsSymbol[] = "ampd_step_graphs";

// The table of functions that libampd_cuda_graph.so exports. The library comes from the same build as the program that
// opens it.
struct StepGraphs {
  uint32_t version;
  std::unique_ptr<StepGraph> (*make)(c10::Device device);
  std::unique_ptr<InputCopies> (*make_copies)(c10::Device device);
  // Forbids or permits waits. While they are forbidden, LibTorch throws where it would make the host wait for the
  // device. For tests.
  void (*forbid_waits)(bool forbidden);
};

}  // namespace ampd::amp

extern "C" {
using AmpdStepGraphsFunction = const ampd::amp::StepGraphs*();
}
