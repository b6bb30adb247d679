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

  // Computes the statistics of the gradient's elements [begin, end). Squares are summed in 32 lanes: element begin + i
  // is added to lane i % 32. Then lanes l and l + 16 are added, and these 16 sums are added up in order.
  GradientStats (*compute_grad_stats)(const TensorRow& row, int64_t begin, int64_t end);

  // accumulated[i] += gradient[i]
  void (*accumulate)(const TensorRow& row, int64_t begin, int64_t end);

  // Update parameter, moments and average, and write the rounded parameter to `working` if set. Each tensor is read and
  // written once. The average uses the parameter before it is rounded.
  void (*update_adam)(const AdamStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin,
                      int64_t end);
  void (*update_sgd)(const SgdStep& step, const StepScalars& scalars, const TensorRow& row, int64_t begin, int64_t end);

  // Sets working[i] to parameter[i], rounded, and remainder[i], if set, to the lower half of parameter[i]. REQUIRES:
  // the parameter is fp32 and `working` is set; with a remainder `working` is bf16.
  void (*round)(const TensorRow& row, int64_t begin, int64_t end);
};

enum class InstructionSet { kPortable, kAvx2, kAvx512 };
inline constexpr InstructionSet kInstructionSets[] = {InstructionSet::kPortable, InstructionSet::kAvx2,
                                                      InstructionSet::kAvx512};

// Returns null if this machine cannot run the set. The result for the portable set is never null.
const CpuKernels* KernelsFor(InstructionSet set);

// The kernels of the widest set that this machine can run.
const CpuKernels& BestKernels();

}  // namespace ampd::kernels
