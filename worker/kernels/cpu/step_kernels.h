#pragma once

#include <cstdint>

#include "worker/kernels/step_math.h"
#include "worker/kernels/tensor_row.h"

// The loops of one training step on a CPU, once for each instruction set. Every loop works on the elements from `begin`
// up to `end` of one row, allocates nothing, and gives the same bits on every set, as plain_kernels.h has them.
// Thread-safe on rows and ranges that do not overlap.
namespace ampd::kernels {

struct CpuKernels {
  const char* name;

  // Of the gradient. Sums the squares in 32 lanes, element begin + i in lane i % 32, and then the lanes, each with the
  // one 16 further.
  GradientFacts (*examine)(const TensorRow& row, int64_t begin, int64_t end);

  // accumulated[i] += gradient[i]
  void (*accumulate)(const TensorRow& row, int64_t begin, int64_t end);

  // Update parameter, moments and average, and write the parameter, rounded, to `working` where that is set: one read
  // and one write of each. The average takes the parameter before it is rounded.
  void (*update_adam)(const AdamStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin,
                      int64_t end);
  void (*update_sgd)(const SgdStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end);

  // working[i] = parameter[i], rounded, and remainder[i] what that leaves, where it is set. REQUIRES: the parameter is
  // fp32 and working is set; with a remainder it is bf16.
  void (*round)(const TensorRow& row, int64_t begin, int64_t end);
};

enum class InstructionSet { kPortable, kAvx2, kAvx512 };
inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                                      InstructionSet::kAvx512};

// Null where this machine cannot run the set. The portable one is never null.
const CpuKernels* KernelsFor(InstructionSet set);

// Those of the widest set that this machine runs.
const CpuKernels& BestKernels();

}  // namespace ampd::kernels
