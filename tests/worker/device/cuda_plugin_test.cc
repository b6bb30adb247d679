#include "worker/device/cuda_plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::device {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string TestLibrary(const std::string& name) { return std::string(AMPD_TEST_LIBRARIES) + "/lib" + name + ".so"; }

// Checks that opening the libraries fails with a typed error, whose message is one line and contains `text`.
void ExpectRefusal(const CudaLibraries& libraries, const std::string& text) {
  const auto kernels = OpenCudaKernels(libraries);
  ASSERT_FALSE(kernels.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(kernels.status())) << kernels.status();
  EXPECT_EQ(ReasonOf(kernels.status()), "DEVICE_ERROR");
  const std::string message(kernels.status().message());
  EXPECT_THAT(message, HasSubstr(text));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

bool IsLoaded(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr; }

TEST(OpenCudaKernels, HostWithoutADriver_SaysSoAndLoadsNothing) {
  const std::string plugin = TestLibrary("fake_cuda_plugin_unopened");
  ExpectRefusal({.driver = "libampd-there-is-no-such-driver.so", .plugin = plugin}, "this host has no CUDA driver");
  EXPECT_FALSE(IsLoaded(plugin));
}

TEST(OpenCudaKernels, DriverWithoutDevices_SaysSoAndLoadsNothing) {
  const std::string plugin = TestLibrary("fake_cuda_plugin_unopened");
  ExpectRefusal({.driver = TestLibrary("fake_cuda_driver_empty"), .plugin = plugin}, "shows no device");
  ExpectRefusal({.driver = TestLibrary("fake_cuda_driver_broken"), .plugin = plugin}, "cuInit returns 999");
  ExpectRefusal({.driver = plugin, .plugin = plugin}, "is no CUDA driver");
}

TEST(OpenCudaKernels, MissingPlugin_IsNamedWithItsPath) {
  const std::string driver = TestLibrary("fake_cuda_driver");
  ExpectRefusal({.driver = driver, .plugin = "/nowhere/libampd_cuda.so"}, "/nowhere/libampd_cuda.so");
  ExpectRefusal({.driver = driver, .plugin = driver}, "lacks ampd_cuda_kernels");
}

TEST(OpenCudaKernels, PluginOfAnotherVersion_IsRefusedWithBothVersions) {
  ExpectRefusal({.driver = TestLibrary("fake_cuda_driver"), .plugin = TestLibrary("fake_cuda_plugin")},
                absl::StrCat("has version ", kernels::kCudaKernelsVersion + 1, " and this program needs ",
                             kernels::kCudaKernelsVersion));
}

#ifdef AMPD_CUDA_PLUGIN
TEST(OpenCudaKernels, OurPlugin_LoadsWithoutADriverAndHasEveryFunction) {
  const auto kernels = OpenCudaKernels({.driver = TestLibrary("fake_cuda_driver"), .plugin = AMPD_CUDA_PLUGIN});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ((*kernels)->version, kernels::kCudaKernelsVersion);
  EXPECT_GE((*kernels)->runtime_version, 12000);
  for (const void* function :
       {reinterpret_cast<const void*>((*kernels)->compute_grad_stats),
        reinterpret_cast<const void*>((*kernels)->accumulate), reinterpret_cast<const void*>((*kernels)->update_adam),
        reinterpret_cast<const void*>((*kernels)->update_sgd), reinterpret_cast<const void*>((*kernels)->round),
        reinterpret_cast<const void*>((*kernels)->fp8), reinterpret_cast<const void*>((*kernels)->loss)}) {
    EXPECT_NE(function, nullptr);
  }
  EXPECT_STREQ((*kernels)->error_text(2), "out of memory");
}

TEST(OpenCudaKernels, DriverOfAnEarlierCuda_IsRefusedWithBothVersions) {
  ExpectRefusal({.driver = TestLibrary("fake_cuda_driver_old"), .plugin = AMPD_CUDA_PLUGIN},
                "the driver is for CUDA 11.4");
}
#endif

}  // namespace
}  // namespace ampd::device
