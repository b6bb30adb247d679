#include "worker/kernels/cpu/step_kernels.h"

#include "worker/kernels/cpu/instruction_sets.h"

namespace ampd::kernels {

const CpuKernels* KernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return &kPortableKernels;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") ? &kAvx2Kernels : nullptr;
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                 ? &kAvx512Kernels
                 : nullptr;
  }
  return nullptr;
}

const CpuKernels& BestKernels() {
  const CpuKernels* best = &kPortableKernels;
  for (const InstructionSet set : kInstructionSets) {
    const CpuKernels* const kernels = KernelsFor(set);
    best = kernels != nullptr ? kernels : best;
  }
  return *best;
}

}  // namespace ampd::kernels
