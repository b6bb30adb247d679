#include "tests/bench/policy_report_ceilings.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/matmul.h"
#include "ATen/ops/randn.h"
#include "absl/time/clock.h"
#include "c10/util/Exception.h"
#include "precision/policy.h"
#include "worker/amp/optimizer.h"
#include "worker/amp/step/cuda_math.h"
#include "worker/amp/step/step_scalars.h"

namespace ampd::bench {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kCopiedNumbers = int64_t{256} << 20;
constexpr int64_t kTinyCopiedNumbers = int64_t{4} << 20;
constexpr int64_t kMatrixSize = 8192;
constexpr int64_t kTinyMatrixSize = 256;

// Returns the median time of several runs of `work`. Each run ends when the device has finished it.
double SecondsOf(const amp::ComputeDevice& device, const std::function<void()>& work) {
  constexpr int kRepeats = 10;
  const at::Tensor probe = at::empty({1}, at::TensorOptions(at::kFloat).device(device.device)).zero_();
  const auto finish = [&] { (void)probe.item<float>(); };  // Waits for the device's stream.
  work();
  finish();
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const absl::Time begin = absl::Now();
    work();
    finish();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double CopyGigabytesPerSecond(const amp::ComputeDevice& device, int64_t num_numbers) {
  const at::Tensor from = at::randn({num_numbers}, at::TensorOptions(at::kFloat).device(device.device));
  at::Tensor to = at::empty_like(from);
  const double seconds = SecondsOf(device, [&] { to.copy_(from); });
  return 2 * sizeof(float) * static_cast<double>(num_numbers) / seconds / 1e9;
}

void UseTf32(bool yes) {
  precision::ResolvedPolicy policy;
  policy.formats.tf32_matmul = yes;
  amp::UseCudaMath(policy);
}

ordered_json Product(const amp::ComputeDevice& device, const char* format, at::ScalarType dtype, int64_t size) {
  ordered_json report = {{"what", "product"}, {"format", format}, {"size", size}};
  try {
    const auto options = at::TensorOptions(at::kFloat).device(device.device);
    const at::Tensor a = at::randn({size, size}, options).to(dtype);
    const at::Tensor b = at::randn({size, size}, options).to(dtype);
    const double seconds = SecondsOf(device, [&] { (void)at::matmul(a, b.t()); });
    report["teraflops"] = 2.0 * static_cast<double>(size * size * size) / seconds / 1e12;
  } catch (const c10::Error& error) {
    report["error"] = error.what_without_backtrace();
  }
  return report;
}

}  // namespace

std::vector<ordered_json> MeasureCeilings(const amp::ComputeDevice& device, bool tiny) {
  const int64_t size = tiny ? kTinyMatrixSize : kMatrixSize;
  UseTf32(false);
  std::vector<ordered_json> lines = {
      {{"what", "copy"},
       {"gigabytes_per_second", CopyGigabytesPerSecond(device, tiny ? kTinyCopiedNumbers : kCopiedNumbers)}},
      Product(device, "fp32", at::kFloat, size)};
  if (device.device.is_cuda()) {
    UseTf32(true);
    lines.push_back(Product(device, "tf32", at::kFloat, size));
    UseTf32(false);
  }
  lines.push_back(Product(device, "bf16", at::kBFloat16, size));
  lines.push_back(Product(device, "fp16", at::kHalf, size));
  return lines;
}

ordered_json MeasureOptimizer(const amp::ComputeDevice& device, bool tiny) {
  // The optimizer step reads and writes 28 bytes per parameter: bf16 gradients and working copies, fp32 masters and
  // moments.
  constexpr double kBytes = 28;
  const int64_t num_parameters = tiny ? kTinyCopiedNumbers : kCopiedNumbers;
  const auto kernels = amp::StepKernels::Make(device);
  const auto options = at::TensorOptions(at::kFloat).device(device.device);
  const at::Tensor start = at::randn({num_parameters}, options);
  const std::vector<amp::Parameter> parameters = {
      {.name = "", .master = start, .leaf = start.to(at::kBFloat16), .remainder = {}}};
  const std::vector<at::Tensor> gradients = {at::randn({num_parameters}, options).to(at::kBFloat16)};
  amp::Optimizer optimizer({.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-4}, parameters, *kernels);
  amp::StepScalars scalars(device, {}, {optimizer.rule()}, {gradients.size()});
  scalars.Load({}, /*rate_factor=*/1, /*applied=*/{0});
  kernels->Decide(scalars.control(), 0, 1);
  const double seconds = SecondsOf(device, [&] { optimizer.Step(gradients, scalars.decision(0)); });
  return {{"what", "optimizer_step"},
          {"parameters", num_parameters},
          {"seconds", seconds},
          {"gigabytes_per_second", kBytes * static_cast<double>(num_parameters) / seconds / 1e9},
          {"copy_gigabytes_per_second", CopyGigabytesPerSecond(device, num_parameters)}};
}

}  // namespace ampd::bench
