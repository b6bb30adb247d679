#include "worker/train/device/compute_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "c10/core/CachingDeviceAllocator.h"
#include "worker/train/device/cuda_graphs.h"

namespace ampd::train {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(OpenComputeDevice, TheCpuNeedsNothing) {
  for (const char* id : {"", "cpu"}) {
    const auto device = OpenComputeDevice(id);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_TRUE(device->device.is_cpu());
    EXPECT_EQ(device->cuda_kernels, nullptr);
    EXPECT_EQ(NameOf(*device), "cpu");
    EXPECT_GE(GetMemory(*device).peak_bytes, 0);
  }
}

TEST(OpenComputeDevice, AnUnknownName_IsADeviceError) {
  for (const char* id : {"gpu", "gpu-1", "gpux", "tpu0", "CPU"}) {
    const auto device = OpenComputeDevice(id);
    EXPECT_EQ(ReasonOf(device.status()), "DEVICE_ERROR") << id;
    EXPECT_THAT(std::string(device.status().message()), HasSubstr("it may be cpu, gpu0, gpu1")) << id;
  }
}

TEST(CheckPlacedHere, ACpuAttemptIsNotForAGpu) {
  v1::Device placed;
  placed.set_id("cpu");
  placed.set_kind(v1::Device::CPU);
  EXPECT_TRUE(CheckPlacedHere(placed, {}).ok());
  placed.set_id("gpu0");
  placed.set_kind(v1::Device::GPU);
  EXPECT_EQ(ReasonOf(CheckPlacedHere(placed, {})), "DEVICE_ERROR");
}

TEST(OpenStepGraphs, AMissingLibrary_IsNamed) {
  const auto graphs = OpenStepGraphs("/nowhere/libampd_cuda_graph.so");
  EXPECT_EQ(ReasonOf(graphs.status()), "DEVICE_ERROR");
  EXPECT_THAT(std::string(graphs.status().message()), HasSubstr("/nowhere/libampd_cuda_graph.so"));
}

#ifdef AMPD_CUDA_PLUGIN
TEST(OpenStepGraphs, AnotherLibrary_IsRefused) {
  EXPECT_THAT(std::string(OpenStepGraphs(AMPD_CUDA_PLUGIN).status().message()), HasSubstr("lacks ampd_step_graphs"));
}

// The fake driver reports a GPU, so all libraries for a GPU are loaded. Then LibTorch finds no GPU, and the test
// expects LibTorch's error. The test also expects that the library for step graphs (recorded training steps) can be
// loaded only after LibTorch's CUDA part. Libraries stay loaded until the program ends. So this test must be the last
// of its suite, and this suite must be the first of the program.
TEST(OpenComputeDevice, WithoutAGpuBehindTheDriver_LibTorchSaysSo) {
  EXPECT_THAT(std::string(OpenStepGraphs(AMPD_CUDA_GRAPH_PLUGIN).status().message()), HasSubstr("undefined symbol"));
  const auto device = OpenComputeDevice("gpu99", {.driver = AMPD_FAKE_DRIVER, .plugin = AMPD_CUDA_PLUGIN});
  EXPECT_EQ(ReasonOf(device.status()), "DEVICE_ERROR");
  EXPECT_THAT(std::string(device.status().message()),
              AnyOf(HasSubstr("LibTorch finds no CUDA device"), HasSubstr("LibTorch's CUDA part can't be loaded")));
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "99");
  if (std::string(device.status().message()).find("can't be loaded") != std::string::npos) {
    GTEST_SKIP() << "this host has LibTorch without its CUDA part";
  }
  EXPECT_NE(dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA)), nullptr);
  const auto graphs = OpenStepGraphs(AMPD_CUDA_GRAPH_PLUGIN);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  EXPECT_NE((*graphs)->make, nullptr);
}
#endif

}  // namespace
}  // namespace ampd::train
