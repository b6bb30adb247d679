#include "worker/agent/gpu_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace ampd::agent {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string PageOf(const std::vector<device::GpuReadings>& gpus) {
  return prometheus::TextSerializer().Serialize(GpuMetrics(gpus, "580.65.06"));
}

TEST(GpuMetrics, EveryReadingHasASeries) {
  device::GpuReadings gpu = {.id = "gpu0", .uuid = "GPU-1", .name = "NVIDIA H100"};
  gpu.memory_total_bytes = int64_t{80} << 30;
  gpu.memory_used_bytes = 1 << 20;
  gpu.utilization = 0.5;
  gpu.temperature_celsius = 61;
  gpu.power_watts = 312.5;
  gpu.power_limit_watts = 700;
  gpu.sm_clock_hertz = 1.98e9;
  gpu.memory_clock_hertz = 2.6e9;
  gpu.energy_joules = 12.25;
  gpu.ecc_errors_corrected = 3;
  gpu.ecc_errors_uncorrected = 0;
  gpu.num_xid_errors = {{79, 2}};
  const std::string page = PageOf({gpu});
  for (const char* line :
       {R"(ampd_gpu_info{gpu="gpu0",UUID="GPU-1",name="NVIDIA H100",driver="580.65.06"} 1)",
        R"(ampd_gpu_memory_total_bytes{gpu="gpu0",UUID="GPU-1"} 85899345920)",
        R"(ampd_gpu_memory_used_bytes{gpu="gpu0",UUID="GPU-1"} 1048576)",
        R"(ampd_gpu_utilization_ratio{gpu="gpu0",UUID="GPU-1"} 0.5)",
        R"(ampd_gpu_temperature_celsius{gpu="gpu0",UUID="GPU-1"} 61)",
        R"(ampd_gpu_power_watts{gpu="gpu0",UUID="GPU-1"} 312.5)",
        R"(ampd_gpu_power_limit_watts{gpu="gpu0",UUID="GPU-1"} 700)",
        R"(ampd_gpu_sm_clock_hertz{gpu="gpu0",UUID="GPU-1"} 1980000000)",
        R"(ampd_gpu_memory_clock_hertz{gpu="gpu0",UUID="GPU-1"} 2600000000)",
        "# TYPE ampd_gpu_energy_joules_total counter", R"(ampd_gpu_energy_joules_total{gpu="gpu0",UUID="GPU-1"} 12.25)",
        R"(ampd_gpu_ecc_errors_total{gpu="gpu0",UUID="GPU-1",type="corrected"} 3)",
        R"(ampd_gpu_ecc_errors_total{gpu="gpu0",UUID="GPU-1",type="uncorrected"} 0)",
        R"(ampd_gpu_xid_errors_total{gpu="gpu0",UUID="GPU-1",xid="79"} 2)"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(GpuMetrics, WhatAGpuDoesNotReport_HasNoSeries) {
  device::GpuReadings known = {.id = "gpu0", .uuid = "GPU-1"};
  known.power_watts = 100;
  const std::string page = PageOf({known, {.id = "gpu1", .uuid = "GPU-2"}});
  EXPECT_THAT(page, HasSubstr(R"(ampd_gpu_power_watts{gpu="gpu0")"));
  EXPECT_THAT(page, Not(HasSubstr(R"(ampd_gpu_power_watts{gpu="gpu1")")));
  EXPECT_THAT(page, HasSubstr(R"(ampd_gpu_info{gpu="gpu1")"));
  EXPECT_THAT(page, Not(HasSubstr("ampd_gpu_ecc")));
  EXPECT_THAT(page, Not(HasSubstr("ampd_gpu_temperature")));
}

}  // namespace
}  // namespace ampd::agent
