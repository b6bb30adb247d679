#include "worker/train/checkpoint/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/ones.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd::train {
namespace {

std::string Joined(const TensorFile& file) {
  std::string bytes;
  for (const std::string_view part : file.parts()) {
    bytes.append(part);
  }
  return bytes;
}

TEST(TensorFile, EveryDtypeAndLayout_ComesBack) {
  executor::TensorMap tensors;
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kLong, at::kInt,
        at::kShort, at::kChar, at::kByte, at::kUInt16, at::kUInt32, at::kUInt64, at::kBool}) {
    tensors[c10::toString(type)] = at::arange(6).to(type).view({2, 3});
  }
  tensors["transposed"] = at::arange(6).to(at::kFloat).view({2, 3}).t();
  tensors["scalar"] = at::ones({});
  tensors["empty"] = at::ones({0, 4});
  const auto file = TensorFile::Of(tensors);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = ReadTensors(Joined(*file));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read->at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(read->at(name).sizes(), tensor.sizes()) << name;
    const at::Tensor expected = tensor.contiguous();
    EXPECT_EQ(std::memcmp(read->at(name).const_data_ptr(), expected.const_data_ptr(), expected.nbytes()), 0) << name;
  }
}

TEST(TensorFile, ABooleanThatIsNeitherZeroNorOne_IsAnError) {
  const std::string json = "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}";
  const std::string header = std::string(1, static_cast<char>(json.size())) + std::string(7, '\0') + json;
  EXPECT_TRUE(ReadTensors(header + std::string("\0\1", 2)).ok());
  EXPECT_EQ(ReadTensors(header + std::string("\0\2", 2)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(CountingAllocator, CountsTensorsToTheByte) {
  InstallCountingAllocator();
  const int64_t before = GetCpuMemory().allocated_bytes;
  ResetPeakCpuMemory();
  {
    const at::Tensor first = at::empty({1000}, at::kFloat);
    { const at::Tensor second = at::empty({500}, at::kByte); }
    EXPECT_EQ(GetCpuMemory().allocated_bytes - before, 4000);
  }
  EXPECT_EQ(GetCpuMemory().allocated_bytes, before);
  EXPECT_EQ(GetCpuMemory().peak_bytes - before, 4500);
  const at::Tensor aligned = at::empty({3}, at::kFloat);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.data_ptr()) % 64, 0u);
}

// Returns the flags (proc_pid_smaps(5), VmFlags) of the memory mapping that contains an address.
std::string FlagsOfMappingAt(uintptr_t address) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      is_inside = begin <= address && address < end;
    } else if (is_inside && line.starts_with("VmFlags:")) {
      return line;
    }
  }
  return "";
}

TEST(CountingAllocator, AsksForLargePagesForLargeTensors) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
    GTEST_SKIP() << "this kernel has no transparent large pages";
  }
  InstallCountingAllocator();
  const at::Tensor large = at::empty({9'000'000}, at::kFloat);
  for (const int64_t at : {int64_t{0}, int64_t{4'500'000}, int64_t{8'999'999}}) {
    const auto address = reinterpret_cast<uintptr_t>(large.data_ptr<float>() + at);
    EXPECT_THAT(FlagsOfMappingAt(address), testing::HasSubstr(" hg")) << "element " << at;
  }
}

}  // namespace
}  // namespace ampd::train
