#pragma once

#include <string>

#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"

// Devices and presets for tests that resolve policies.
namespace ampd::precision {

inline v1::Device Cpu(bool native_bf16 = true) {
  v1::Device device;
  device.set_id("cpu");
  device.set_kind(v1::Device::CPU);
  device.add_instruction_sets("avx2");
  if (native_bf16) {
    device.add_instruction_sets("avx512_bf16");
  }
  return device;
}

// A CPU that has bf16 products but computes them more slowly than fp32 products.
inline v1::Device CpuWithHiddenAmx() {
  v1::Device device = Cpu();
  device.set_name("Intel(R) Xeon(R) Processor");
  device.add_instruction_sets("avx512_fp16");
  return device;
}

inline v1::Device Gpu(int major, int minor) {
  v1::Device device;
  device.set_id("gpu0");
  device.set_kind(v1::Device::GPU);
  device.set_capability_major(major);
  device.set_capability_minor(minor);
  return device;
}

inline v1::PrecisionPolicy PresetNamed(const std::string& name) {
  v1::PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

}  // namespace ampd::precision
