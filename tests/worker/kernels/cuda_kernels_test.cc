// The CUDA kernels against the plain loops. Compiled twice: over the emulated CUDA of this folder, which runs
// everywhere, and over the real one, which skips where there is no GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/kernels/cpu/plain_kernels.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kGuardBytes = 64;
constexpr Format kFormats[] = {Format::kFloat32, Format::kBFloat16, Format::kFloat16};

size_t BytesOf(Format format) { return format == Format::kFloat32 ? 4 : 2; }
const char* NameOf(Format format) {
  return format == Format::kFloat32 ? "fp32" : format == Format::kBFloat16 ? "bf16" : "fp16";
}

// Numbers over many binades, both signs.
std::vector<float> RandomNumbers(uint64_t seed, int64_t count) {
  SeededRandom random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) {
    const uint64_t bits = random.Next();
    const double mantissa = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
    const auto exponent = static_cast<int>(bits & 0xf) - 12;
    number = static_cast<float>(std::ldexp((bits & 0x400) != 0 ? mantissa : -mantissa, exponent));
  }
  return numbers;
}

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes BytesFrom(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes Stored(const std::vector<float>& numbers, Format format) {
  Bytes stored(numbers.size() * BytesOf(format));
  TensorRow row;
  row.parameter = const_cast<float*>(numbers.data());  // only read
  row.working = stored.data();
  row.working_format = format;
  kPlainKernels.round(row, 0, static_cast<int64_t>(numbers.size()));
  return stored;
}

// Device memory between two guards that no kernel may touch. `misaligned_by` moves the first byte off the alignment
// that wide accesses need.
class DeviceBytes {
 public:
  explicit DeviceBytes(const Bytes& content, size_t misaligned_by = 0)
      : size_(content.size()), begin_(kGuardBytes + misaligned_by) {
    Bytes whole(begin_ + size_ + kGuardBytes, std::byte{0xa5});
    std::copy(content.begin(), content.end(), whole.begin() + static_cast<int64_t>(begin_));
    EXPECT_EQ(cudaMalloc(&data_, whole.size()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, whole.data(), whole.size(), cudaMemcpyDefault), cudaSuccess);
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + begin_);
  }

  Bytes Read() const {
    Bytes whole(begin_ + size_ + kGuardBytes);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(whole.data(), data_, whole.size(), cudaMemcpyDefault), cudaSuccess);
    for (size_t i = 0; i < whole.size(); ++i) {
      if ((i < begin_ || i >= begin_ + size_) && whole[i] != std::byte{0xa5}) {
        ADD_FAILURE() << "a kernel wrote outside its tensor, at byte " << i << " of " << whole.size();
        break;
      }
    }
    return {whole.begin() + static_cast<int64_t>(begin_), whole.begin() + static_cast<int64_t>(begin_ + size_)};
  }

 private:
  void* data_ = nullptr;
  size_t size_;
  size_t begin_;
};

// One tensor on the host as the CPU's loops take it, and on the device.
struct Tensor {
  Tensor(uint64_t seed, int64_t count, Format gradient_format, Format working_format, size_t misaligned_by)
      : count(count),
        gradient_format(gradient_format),
        working_format(working_format),
        gradient(Stored(RandomNumbers(seed, count), gradient_format)),
        parameter(RandomNumbers(seed + 1, count)),
        first(RandomNumbers(seed + 2, count)),
        second(RandomNumbers(seed + 3, count)),
        working(static_cast<size_t>(count) * BytesOf(working_format)) {
    for (float& value : second) {
      value = std::abs(value);
    }
    Upload(misaligned_by);
  }

  void Upload(size_t misaligned_by) {
    const bool narrow = gradient_format != Format::kFloat32;
    on_device["gradient"] = std::make_unique<DeviceBytes>(gradient, narrow ? misaligned_by / 2 : misaligned_by);
    on_device["parameter"] = std::make_unique<DeviceBytes>(BytesFrom(parameter), misaligned_by);
    on_device["first"] = std::make_unique<DeviceBytes>(BytesFrom(first), misaligned_by);
    on_device["second"] = std::make_unique<DeviceBytes>(BytesFrom(second), misaligned_by);
    on_device["working"] = std::make_unique<DeviceBytes>(working, misaligned_by);
  }

  TensorRow Row() const {
    TensorRow row;
    row.gradient = on_device.at("gradient")->as<void>();
    row.accumulated = on_device.at("parameter")->as<float>();
    row.parameter = on_device.at("parameter")->as<float>();
    row.first_moment = on_device.at("first")->as<float>();
    row.second_moment = on_device.at("second")->as<float>();
    row.working = on_device.at("working")->as<void>();
    TakeNumbers(row);
    return row;
  }

  TensorRow HostRow() {
    TensorRow row;
    row.gradient = gradient.data();
    row.accumulated = parameter.data();
    row.parameter = parameter.data();
    row.first_moment = first.data();
    row.second_moment = second.data();
    row.working = working.data();
    TakeNumbers(row);
    return row;
  }

  void TakeNumbers(TensorRow& row) const {
    row.count = count;
    row.learning_rate = 1e-2 * static_cast<double>(1 + count % 3);
    row.weight_decay = 0.1 * static_cast<double>(count % 2);
    row.gradient_format = gradient_format;
    row.working_format = working_format;
  }

  // Bit for bit what the host has.
  void ExpectEqual(const std::string& where) const {
    EXPECT_EQ(on_device.at("parameter")->Read() == BytesFrom(parameter), true) << where << ": parameter";
    EXPECT_EQ(on_device.at("first")->Read() == BytesFrom(first), true) << where << ": first moment";
    EXPECT_EQ(on_device.at("second")->Read() == BytesFrom(second), true) << where << ": second moment";
    EXPECT_EQ(on_device.at("working")->Read() == working, true) << where << ": working copy";
    on_device.at("gradient")->Read();
  }

  int64_t count;
  Format gradient_format, working_format;
  Bytes gradient;
  std::vector<float> parameter, first, second;
  Bytes working;
  std::map<std::string, std::unique_ptr<DeviceBytes>> on_device;
};

class CudaKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    kernels_ = KernelsUnderTest(&why);
    if (kernels_ == nullptr) {
      GTEST_SKIP() << why;
    }
  }

  // Every size that can go wrong, in every pair of formats, aligned and not, as one table.
  void MakeTensors() {
    for (const Format working : kFormats) {
      MakeTensors(working);
    }
    Add(5, (1 << 20) + 3, Format::kBFloat16, Format::kBFloat16, 0);
  }

  void MakeTensors(Format working) {
    for (const Format gradient : kFormats) {
      for (const int64_t count : {1, 3, 8, 15, 2047, 2049, 16384, 16385}) {
        Add(tensors_.size() * 10, count, gradient, working, 0);
      }
      Add(tensors_.size() * 10, 1001, gradient, working, 4);
    }
  }

  void Add(uint64_t seed, int64_t count, Format gradient, Format working, size_t misaligned_by) {
    tensors_.push_back(std::make_unique<Tensor>(seed, count, gradient, working, misaligned_by));
  }

  static std::string Where(const Tensor& tensor) {
    return std::string(NameOf(tensor.gradient_format)) + " gradient, " + NameOf(tensor.working_format) +
           " working copy, " + std::to_string(tensor.count) + " elements";
  }

  // `with_momentum` false leaves the moments out.
  CudaTable Table(bool with_momentum = true) {
    std::vector<TensorRow> rows;
    CudaTable table;
    for (const auto& tensor : tensors_) {
      TensorRow row = tensor->Row();
      row.first_chunk = table.num_chunks;
      row.first_moment = with_momentum ? row.first_moment : nullptr;
      table.num_chunks += NumChunks(row.count);
      rows.push_back(row);
    }
    rows_ = std::make_unique<DeviceBytes>(BytesFrom(rows));
    table.tensors = rows_->as<TensorRow>();
    table.num_tensors = static_cast<int32_t>(rows.size());
    return table;
  }

  std::vector<GradientFacts> Examined() {
    const CudaTable table = Table();
    DeviceBytes chunks(BytesFrom(std::vector<GradientFacts>(static_cast<size_t>(table.num_chunks), {-1, -1})));
    DeviceBytes facts(BytesFrom(std::vector<GradientFacts>(tensors_.size(), {-1, -1})));
    EXPECT_EQ(kernels_->examine(table, chunks.as<GradientFacts>(), facts.as<GradientFacts>(), nullptr), 0);
    std::vector<GradientFacts> result(tensors_.size());
    std::memcpy(result.data(), facts.Read().data(), result.size() * sizeof(GradientFacts));
    return result;
  }

  const CudaKernels* kernels_ = nullptr;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::unique_ptr<DeviceBytes> rows_;
};

TEST_F(CudaKernelsTest, Examine_GivesTheNormOfEveryTensorAndTheSameBitsEachTime) {
  MakeTensors(Format::kFloat32);
  Add(5, (1 << 20) + 3, Format::kFloat16, Format::kFloat16, 0);
  const std::vector<GradientFacts> facts = Examined();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = *tensors_[i];
    const GradientFacts expected = kPlainKernels.examine(tensors_[i]->HostRow(), 0, tensor.count);
    EXPECT_NEAR(facts[i].sum_squares, expected.sum_squares, 1e-13 * expected.sum_squares) << Where(tensor);
    EXPECT_EQ(facts[i].num_non_finite, 0) << Where(tensor);
  }
  const std::vector<GradientFacts> again = Examined();
  EXPECT_EQ(std::memcmp(again.data(), facts.data(), facts.size() * sizeof(GradientFacts)), 0);
}

TEST_F(CudaKernelsTest, Examine_CountsEveryKindOfNonFiniteElementWhereverItIs) {
  for (const Format format : kFormats) {
    for (const int64_t at : {0, 7, 8, 5000, 40000, 40002}) {
      Add(static_cast<uint64_t>(at) + 1, 40003, format, format, 0);
      Tensor& tensor = *tensors_.back();
      std::vector<float> numbers = RandomNumbers(9, tensor.count);
      numbers[static_cast<size_t>(at)] = at % 3 == 0 ? kInf : at % 3 == 1 ? -kInf : std::nanf("");
      numbers[20000] = kInf;
      tensor.gradient = Stored(numbers, format);
      tensor.Upload(0);
    }
    Add(77, 40003, format, format, 0);
  }
  const std::vector<GradientFacts> facts = Examined();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool finite = i % 7 == 6;
    EXPECT_EQ(facts[i].num_non_finite, finite ? 0 : 2) << Where(*tensors_[i]);
    EXPECT_EQ(std::isfinite(facts[i].sum_squares), finite) << Where(*tensors_[i]);
  }
}

TEST_F(CudaKernelsTest, Accumulate_AddsAsTheCpuDoes) {
  MakeTensors();
  ASSERT_EQ(kernels_->accumulate(Table(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    kPlainKernels.accumulate(tensor->HostRow(), 0, tensor->count);
    tensor->ExpectEqual(Where(*tensor));
  }
}

TEST_F(CudaKernelsTest, Round_WritesTheCpusBits) {
  MakeTensors();
  for (const auto& tensor : tensors_) {
    if (tensor->count > 8) {
      const float special[] = {kInf, -kInf, std::nanf(""), -0.0f, 65519.0f, 65520.0f, 0x1p-24f, 0x1p-25f, 3.4e38f};
      std::copy(std::begin(special), std::end(special), tensor->parameter.begin());
      tensor->Upload(0);
    }
  }
  ASSERT_EQ(kernels_->round(Table(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    kPlainKernels.round(tensor->HostRow(), 0, tensor->count);
    tensor->ExpectEqual(Where(*tensor));
  }
}

TEST_F(CudaKernelsTest, UpdateAdam_GivesTheCpusBits) {
  for (const bool l2 : {false, true}) {
    tensors_.clear();
    MakeTensors();
    for (int t = 1; t <= 2; ++t) {
      const AdamStep step{
          .l2 = l2, .correction1 = 1 - std::pow(0.9, t), .sqrt_correction2 = std::sqrt(1 - std::pow(0.999, t))};
      const StepScalars scalars{.gradient_scale = 0.37f, .rate_factor = 0.9};
      ASSERT_EQ(kernels_->update_adam(Table(), &step, &scalars, nullptr), 0);
      for (const auto& tensor : tensors_) {
        kPlainKernels.update_adam(step, scalars, tensor->HostRow(), 0, tensor->count);
      }
    }
    for (const auto& tensor : tensors_) {
      tensor->ExpectEqual(Where(*tensor) + (l2 ? ", Adam" : ", AdamW"));
    }
  }
}

TEST_F(CudaKernelsTest, UpdateSgd_GivesTheCpusBitsWithAndWithoutMomentum) {
  for (const bool with_momentum : {false, true}) {
    for (const bool nesterov : {false, true}) {
      tensors_.clear();
      MakeTensors();
      for (const bool first : {true, false}) {
        const SgdStep step{
            .momentum = with_momentum ? 0.9 : 0, .dampening = nesterov ? 0 : 0.2, .nesterov = nesterov, .first = first};
        const StepScalars scalars{.gradient_scale = 1.7f};
        ASSERT_EQ(kernels_->update_sgd(Table(with_momentum), &step, &scalars, nullptr), 0);
        for (const auto& tensor : tensors_) {
          TensorRow row = tensor->HostRow();
          row.first_moment = with_momentum ? row.first_moment : nullptr;
          kPlainKernels.update_sgd(step, scalars, row, 0, tensor->count);
        }
      }
      for (const auto& tensor : tensors_) {
        tensor->ExpectEqual(Where(*tensor) + (with_momentum ? ", momentum" : ""));
      }
    }
  }
}

TEST_F(CudaKernelsTest, EmptyTable_LaunchesNothing) {
  const AdamStep step;
  const StepScalars scalars;
  EXPECT_EQ(kernels_->update_adam({}, &step, &scalars, nullptr), 0);
  EXPECT_EQ(kernels_->examine({}, nullptr, nullptr, nullptr), 0);
}

TEST_F(CudaKernelsTest, ParameterWithoutWorkingCopy_IsUpdatedAlone) {
  Add(5, 1000, Format::kFloat16, Format::kFloat16, 0);
  TensorRow row = tensors_[0]->Row();
  row.working = nullptr;
  const DeviceBytes rows(BytesFrom(std::vector<TensorRow>{row}));
  const SgdStep step;
  const StepScalars scalars;
  ASSERT_EQ(kernels_->update_sgd({rows.as<TensorRow>(), 1, 1}, &step, &scalars, nullptr), 0);
  TensorRow host = tensors_[0]->HostRow();
  host.working = nullptr;
  kPlainKernels.update_sgd(step, scalars, host, 0, 1000);
  tensors_[0]->ExpectEqual("no working copy");
}

}  // namespace
}  // namespace ampd::kernels
