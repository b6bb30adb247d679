#include "precision/example_device.h"

namespace ampd::precision {

v1::Device ExampleCpu() {
  v1::Device cpu;
  cpu.set_id("a CPU");
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  return cpu;
}

v1::Device ExampleGpu() {
  v1::Device gpu;
  gpu.set_id("a GPU");
  gpu.set_kind(v1::Device::GPU);
  gpu.set_capability_major(9);
  return gpu;
}

}  // namespace ampd::precision
