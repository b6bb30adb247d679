#include "worker/kernels/cpu/attention.h"

#include "worker/kernels/cpu/instruction_sets.h"

namespace ampd::kernels {

const AttentionKernels* BestAttention() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512bf16")
             ? &kAvx512Bf16Attention
             : nullptr;
}

}  // namespace ampd::kernels
