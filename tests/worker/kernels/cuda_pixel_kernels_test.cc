// Compares the CUDA kernel for pixels with its definition (pixel_kernels.h), computed by a plain loop. This file is
// compiled twice: over the emulated CUDA of this folder, and over the real CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"

namespace ampd::kernels {
namespace {

struct Images {
  int64_t num = 1;
  int64_t channels = 1;
  int64_t plane = 1;
  size_t misaligned_by = 0;
};

// The mean and the deviation of each channel. The last deviation is so small that its reciprocal is infinite in fp32.
const std::vector<float> kScales = {0.4914F, 0.247F, 0, 1, -3, 1e-3F, 0.5F, 1e-40F};

class CudaPixelKernelsTest : public CudaTest {
 protected:
  // Checks every number, and that nothing was written before the first or behind the last.
  void ExpectRight(const Images& images) const {
    const int64_t count = images.num * images.channels * images.plane;
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(i * 37 + i / 256);
    }
    const std::vector<float> scales(kScales.begin(), kScales.begin() + 2 * images.channels);
    const DeviceBytes given(BytesFrom(bytes.empty() ? std::vector<uint8_t>(1) : bytes), images.misaligned_by);
    const DeviceBytes given_scales(BytesFrom(scales));
    const DeviceBytes numbers(Bytes(bytes.size() * sizeof(float) + 2 * kGuardBytes, kGuard));
    const CudaPixels pass = {.bytes = given.as<uint8_t>(),
                             .count = count,
                             .plane = images.plane,
                             .channels = images.channels,
                             .scales = given_scales.as<float>(),
                             .numbers = reinterpret_cast<float*>(numbers.as<std::byte>() + kGuardBytes)};
    ASSERT_EQ(kernels_->pixels->map(&pass, nullptr), 0);
    const std::vector<float> found = ValuesFrom<float>(Inner(numbers.Read()));
    ASSERT_EQ(found.size(), bytes.size());
    int64_t num_wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t channel = i / static_cast<size_t>(images.plane) % static_cast<size_t>(images.channels);
      volatile float share = static_cast<float>(bytes[i]) / 255.0F;  // volatile prevents fused operations.
      volatile float centred = share - scales[2 * channel];
      const float expected = centred / scales[2 * channel + 1];
      num_wrong += std::memcmp(&found[i], &expected, sizeof(float)) != 0;
    }
    EXPECT_EQ(num_wrong, 0) << images.num << "x" << images.channels << "x" << images.plane;
  }

 private:
  // Returns the bytes between the guards, after a check that the guards are unchanged.
  static Bytes Inner(const Bytes& all) {
    const auto guarded = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, guarded)) << "written before it";
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), guarded)) << "written behind it";
    return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
  }
};

TEST_F(CudaPixelKernelsTest, EveryByteOfEveryChannel_HasTheBitsOfTheDefinition) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const int64_t plane : {1, 7, 8, 49, 256, 784}) {
      ExpectRight({.num = 3, .channels = channels, .plane = plane});
    }
  }
  ExpectRight({.num = 2, .channels = 3, .plane = 64, .misaligned_by = 1});
  ExpectRight({.num = 0, .channels = 1, .plane = 8});
}

TEST_F(CudaPixelKernelsTest, MoreBytesThanTheThreadsOfALaunch_AreAllConverted) {
  ExpectRight({.num = 3, .channels = 3, .plane = 512 * 1024});
}

}  // namespace
}  // namespace ampd::kernels
