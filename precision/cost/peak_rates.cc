#include "precision/cost/peak_rates.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ampd/v1/worker.pb.h"

namespace ampd::precision {
namespace {

using graph::Dtype;

// One kind of GPU and its rates in TFLOP/s. A rate of 0 means that the GPU does not multiply this format.
struct Gpu {
  std::string_view name;  // How NVML's name of the GPU begins.
  double fp32 = 0;
  double tf32 = 0;
  double fp16 = 0;
  double bf16 = 0;
  double fp8 = 0;
};

// The rates of the vendor's data sheets for the boost clock. If a data sheet gives only the rate with sparsity, half of
// it is used. If one name begins with another, the longer name comes first.
constexpr Gpu kGpus[] = {
    {"NVIDIA B200", 75, 1125, 2250, 2250, 4500},
    {"NVIDIA H200 NVL", 60, 417.5, 835.5, 835.5, 1671},
    {"NVIDIA H200", 66.9, 494.7, 989.4, 989.4, 1978.9},
    {"NVIDIA H100 NVL", 60, 417.5, 835.5, 835.5, 1671},
    {"NVIDIA H100 PCIe", 51.2, 378, 756, 756, 1513},
    {"NVIDIA H100", 66.9, 494.7, 989.4, 989.4, 1978.9},
    {"NVIDIA GH200", 66.9, 494.7, 989.4, 989.4, 1978.9},
    {"NVIDIA A100", 19.5, 156, 312, 312, 0},
    {"NVIDIA A40", 37.4, 74.8, 149.7, 149.7, 0},
    {"NVIDIA A30", 10.3, 82, 165, 165, 0},
    {"NVIDIA A10G", 31.5, 35, 70, 70, 0},
    {"NVIDIA A10", 31.2, 62.5, 125, 125, 0},
    {"NVIDIA L40S", 91.6, 183, 362, 362, 733},
    {"NVIDIA L40", 90.5, 90.5, 181, 181, 362},
    {"NVIDIA L4", 30.3, 60, 121, 121, 242},
    {"NVIDIA GeForce RTX 4090", 82.6, 82.6, 165.2, 165.2, 330.3},
    {"NVIDIA GeForce RTX 3090", 35.6, 35.6, 71, 71, 0},
    {"Tesla V100-SXM2", 15.7, 0, 125, 0, 0},
    {"Tesla V100-PCIE", 14, 0, 112, 0, 0},
    {"Tesla T4", 8.1, 0, 65, 0, 0},
};

double TeraflopsOf(const Gpu& gpu, Dtype format, bool in_tf32) {
  switch (format) {
    case Dtype::kFloat32:
      return in_tf32 ? gpu.tf32 : gpu.fp32;
    case Dtype::kFloat16:
      return gpu.fp16;
    case Dtype::kBFloat16:
      return gpu.bf16;
    case Dtype::kFloat8E4M3:
    case Dtype::kFloat8E5M2:
      return gpu.fp8;
    default:
      return 0;
  }
}

}  // namespace

std::optional<double> PeakFlopsPerSecond(const v1::Device& device, Dtype format, bool in_tf32) {
  constexpr double kTera = 1e12;
  if (device.kind() != v1::Device::GPU) {
    return std::nullopt;
  }
  const auto* const gpu = std::find_if(std::begin(kGpus), std::end(kGpus),
                                       [&](const Gpu& one) { return device.name().starts_with(one.name); });
  const double teraflops = gpu == std::end(kGpus) ? 0 : TeraflopsOf(*gpu, format, in_tf32);
  return teraflops > 0 ? std::optional(kTera * teraflops) : std::nullopt;
}

}  // namespace ampd::precision
