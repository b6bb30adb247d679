#pragma once

#include <cstdint>

#include "worker/kernels/step_math.h"
#include "worker/kernels/tensor_row.h"

// The loops of one training step on a CPU, once per instruction set. Every loop works on the elements [begin, end) of
// one row, allocates nothing, and gives the same bits on every set: those of plain_kernels.h. Thread-safe on rows and
// ranges that do not overlap.
namespace ampd::kernels {

struct CpuKernels {
  const char* name;

  // Statistics of the gradient. Sums the squares in 32 lanes, element begin + i in lane i % 32; then adds lanes l and l
  // + 16, and sums these pairs in order.
  GradientStats (*compute_grad_stats)(const TensorRow& row, int64_t begin, int64_t end);

  // accumulated[i] += gradient[i]
  void (*accumulate)(const TensorRow& row, int64_t begin, int64_t end);

  // Update parameter, moments and average, and write the rounded parameter to `working` if set: one read and one write
  // of each. The average uses the parameter before it is rounded.
  void (*update_adam)(const AdamStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin,
                      int64_t end);
  void (*update_sgd)(const SgdStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end);

  // working[i] = parameter[i], rounded, and remainder[i] = its lower half, if set. REQUIRES: the parameter is fp32 and
  // `working` is set; with a remainder `working` is bf16.
  void (*round)(const TensorRow& row, int64_t begin, int64_t end);
};

enum class InstructionSet { kPortable, kAvx2, kAvx512 };
inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                                      InstructionSet::kAvx512};

// Returns null if this machine cannot run the set. The portable one is never null.
const CpuKernels* KernelsFor(InstructionSet set);

// The kernels of the widest set that this machine can run.
const CpuKernels& BestKernels();

}  // namespace ampd::kernels
