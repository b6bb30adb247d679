// Compares the CUDA kernels with the plain loops. This file is compiled twice: over the emulated CUDA of this folder,
// where the tests run everywhere, and over the real CUDA, where they are skipped if there is no GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/worker/kernels/cuda_fixture.h"
#include "tests/worker/kernels/device_bytes.h"
#include "tests/worker/kernels/row_fixtures.h"
#include "worker/kernels/cpu/plain_kernels.h"

namespace ampd::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// One tensor twice: on the host, for the plain loops, and on the device, for the kernels.
struct Tensor {
  Tensor(uint64_t seed, int64_t count, const Layout& layout, size_t misaligned_by)
      : layout(layout), host(seed, count, layout), misaligned_by(misaligned_by) {
    Upload();
  }

  void Upload() {
    for (const auto& [name, bytes] : host.arrays()) {
      // Arrays of 16-bit elements are shifted by half as many bytes as other arrays, so that the elements stay aligned
      // to their own size.
      const bool narrow = name == "remainder" || (name == "gradient" && layout.gradient != Format::kFloat32);
      on_device[name] = std::make_unique<DeviceBytes>(bytes, narrow ? misaligned_by / 2 : misaligned_by);
    }
  }

  TensorRow Row() const {
    return host.RowAt([this](const std::string& name) -> void* {
      const auto it = on_device.find(name);
      return it == on_device.end() ? nullptr : it->second->as<std::byte>() + kGuardBytes;
    });
  }

  // Checks that the arrays on the device have the same bits as those on the host, including the guards.
  void ExpectEqual() const {
    for (const auto& [name, bytes] : host.arrays()) {
      EXPECT_TRUE(on_device.at(name)->Read() == bytes) << host.Name() << ": " << name;
    }
  }

  Layout layout;
  HostTensor host;
  size_t misaligned_by;
  std::map<std::string, std::unique_ptr<DeviceBytes>> on_device;
};

class CudaKernelsTest : public CudaTest {
 protected:
  // Makes tensors with every storage layout and every critical size, aligned and not.
  void MakeTensors() {
    for (const Layout& layout : Layouts()) {
      for (const int64_t count : {1, 3, 8, 15, 2047, 2049, 16385}) {
        Add(tensors_.size() * 10, count, layout, 0);
      }
      Add(tensors_.size() * 10, 1001, layout, 4);
    }
  }

  void Add(uint64_t seed, int64_t count, const Layout& layout, size_t misaligned_by) {
    tensors_.push_back(std::make_unique<Tensor>(seed, count, layout, misaligned_by));
  }

  // Returns a table, in device memory, with one row for each tensor. If `with_momentum` is false, the rows have no
  // first moments. A row's `number` is the index of its tensor's statistics. If `numbered` is true, row i has the
  // number i; otherwise it has the tensor's own number.
  CudaTable Table(bool with_momentum = true, bool numbered = false) {
    std::vector<TensorRow> rows;
    CudaTable table;
    for (const auto& tensor : tensors_) {
      TensorRow row = tensor->Row();
      row.first_chunk = table.num_chunks;
      row.number = numbered ? static_cast<uint32_t>(rows.size()) : row.number;
      row.first_moment = with_momentum ? row.first_moment : nullptr;
      table.num_chunks += NumChunks(row.count);
      rows.push_back(row);
    }
    EXPECT_GT(rows.size(), 0u);
    rows_ = std::make_unique<DeviceBytes>(BytesFrom(rows));
    table.tensors = rows_->as<TensorRow>();
    table.num_tensors = static_cast<int32_t>(rows.size());
    return table;
  }

  std::vector<GradientStats> GradStats() {
    const CudaTable table = Table(/*with_momentum=*/true, /*numbered=*/true);
    const DeviceBytes chunks(BytesFrom(std::vector<GradientStats>(static_cast<size_t>(table.num_chunks), {-1, -1})));
    const DeviceBytes stats(BytesFrom(std::vector<GradientStats>(tensors_.size(), {-1, -1})));
    EXPECT_EQ(kernels_->compute_grad_stats(table, chunks.as<GradientStats>(), stats.as<GradientStats>(), nullptr), 0);
    return stats.ReadAs<GradientStats>();
  }

  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::unique_ptr<DeviceBytes> rows_;
};

TEST_F(CudaKernelsTest, GradStats_GivesTheNormOfEveryTensorAndTheSameBitsEachTime) {
  for (const Format format : kFormats) {
    for (const int64_t count : {1, 3, 8, 15, 2047, 2049, 16384, 16385}) {
      Add(tensors_.size() * 10, count, {.gradient = format}, 0);
    }
    Add(tensors_.size() * 10, 1001, {.gradient = format}, 4);
  }
  Add(5, (1 << 20) + 3, {.gradient = Format::kFloat16}, 0);
  const std::vector<GradientStats> stats = GradStats();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    HostTensor& host = tensors_[i]->host;
    const GradientStats expected = kPlainKernels.compute_grad_stats(host.Row(), 0, host.count());
    EXPECT_NEAR(stats[i].sum_squares, expected.sum_squares, 1e-13 * expected.sum_squares) << host.Name();
    EXPECT_EQ(stats[i].num_non_finite, 0) << host.Name();
  }
  const std::vector<GradientStats> again = GradStats();
  EXPECT_EQ(std::memcmp(again.data(), stats.data(), stats.size() * sizeof(GradientStats)), 0);
}

TEST_F(CudaKernelsTest, GradStats_CountsEveryKindOfNonFiniteElementWhereverItIs) {
  for (const Format format : kFormats) {
    for (const int64_t at : {0, 7, 8, 5000, 40000, 40002}) {
      Add(static_cast<uint64_t>(at) + 1, 40003, {.gradient = format}, 0);
      std::vector<float> numbers = RandomNumbers(9, 40003);
      numbers[static_cast<size_t>(at)] = at % 3 == 0 ? kInf : at % 3 == 1 ? -kInf : std::nanf("");
      numbers[20000] = kInf;
      tensors_.back()->host.SetGradient(numbers);
      tensors_.back()->Upload();
    }
    Add(77, 40003, {.gradient = format}, 0);
  }
  const std::vector<GradientStats> stats = GradStats();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool finite = i % 7 == 6;
    EXPECT_EQ(stats[i].num_non_finite, finite ? 0 : 2) << tensors_[i]->host.Name();
    EXPECT_EQ(std::isfinite(stats[i].sum_squares), finite) << tensors_[i]->host.Name();
  }
}

TEST_F(CudaKernelsTest, Accumulate_AddsAsTheCpuDoes) {
  MakeTensors();
  ASSERT_EQ(kernels_->accumulate(Table(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    kPlainKernels.accumulate(tensor->host.Row(), 0, tensor->host.count());
    tensor->ExpectEqual();
  }
}

TEST_F(CudaKernelsTest, Round_WritesTheCpusBits) {
  const float specials[] = {kInf, -kInf, std::nanf(""), -0.0f, 65519.0f, 65520.0f, 0x1p-24f, 0x1p-25f, 3.4e38f};
  for (const Format working : kFormats) {
    for (const int64_t count : {3, 8, 2047, 16385}) {
      Add(tensors_.size() * 10, count, {.working = working, .has_working = true}, 0);
      std::vector<float> numbers = RandomNumbers(tensors_.size(), count);
      std::copy_n(specials, std::min<size_t>(numbers.size(), std::size(specials)), numbers.begin());
      tensors_.back()->host.SetParameter(numbers);
      tensors_.back()->Upload();
    }
    Add(tensors_.size() * 10, 1001, {.working = working, .has_working = true}, 4);
  }
  ASSERT_EQ(kernels_->round(Table(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    kPlainKernels.round(tensor->host.Row(), 0, tensor->host.count());
    tensor->ExpectEqual();
  }
}

TEST_F(CudaKernelsTest, Round_SplitsMastersIntoWeightsAndRemainder) {
  const std::vector<float> numbers = RandomNumbers(3, 1001);
  const DeviceBytes masters(BytesFrom(numbers));
  const DeviceBytes weights(Bytes(numbers.size() * 2)), remainder(Bytes(numbers.size() * 2));
  TensorRow row;
  row.parameter = masters.as<void>();
  row.working = weights.as<void>();
  row.remainder = remainder.as<uint16_t>();
  row.working_format = Format::kBFloat16;
  row.count = 1001;
  const DeviceBytes rows = DeviceBytes::Of(row);
  ASSERT_EQ(kernels_->round({rows.as<TensorRow>(), 1, 1}, nullptr), 0);
  const std::vector<uint16_t> upper = weights.ReadAs<uint16_t>(), lower = remainder.ReadAs<uint16_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(Join(upper[i], lower[i]), numbers[i]);
  }
}

// The kernel copies if the decision is to skip the step, or if there is no decision. It copies nothing if the decision
// is to update.
TEST_F(CudaKernelsTest, Copy_KeepsEveryBitAndWaitsForASkippedStep) {
  for (const Format format : kFormats) {
    for (const int64_t count : {1, 8, 2047, 16385}) {
      Add(tensors_.size() * 10, count,
          {.gradient = format, .parameter = format, .working = format, .has_working = true}, 0);
    }
    Add(tensors_.size() * 10, 1001, {.gradient = format, .parameter = format, .working = format, .has_working = true},
        4);
  }
  const auto parameter = [](const Tensor& tensor) { return tensor.on_device.at("parameter")->Read(); };
  const auto working = [](const Tensor& tensor) { return tensor.on_device.at("working")->Read(); };
  StepDecision decision;
  const DeviceBytes updates = DeviceBytes::Of(decision);
  ASSERT_EQ(kernels_->copy(Table(), updates.as<StepDecision>(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    tensor->ExpectEqual();
  }
  decision.skip = true;
  const DeviceBytes skips = DeviceBytes::Of(decision);
  for (const StepDecision* const if_skipped :
       {skips.as<const StepDecision>(), static_cast<const StepDecision*>(nullptr)}) {
    for (const auto& tensor : tensors_) {
      tensor->Upload();
    }
    ASSERT_EQ(kernels_->copy(Table(), if_skipped, nullptr), 0);
    for (const auto& tensor : tensors_) {
      EXPECT_EQ(working(*tensor), parameter(*tensor)) << tensor->host.Name();
    }
  }
}

StepDecision Decision(int64_t step) {
  StepDecision decision;
  decision.scalars = {.gradient_scale = 0.37f,
                      .rate_factor = 0.9,
                      .average_decay = 0.9,
                      .rounding_seed = 0x123456789abcdefu,
                      .step = step};
  decision.correction1 = 1 - std::pow(0.9, step);
  decision.sqrt_correction2 = std::sqrt(1 - std::pow(0.999, step));
  return decision;
}

TEST_F(CudaKernelsTest, UpdateAdam_GivesTheCpusBits) {
  for (const bool l2 : {false, true}) {
    tensors_.clear();
    MakeTensors();
    for (int t = 1; t <= 2; ++t) {
      const AdamStep step{.l2 = l2};
      StepDecision decision = Decision(t);
      const DeviceBytes decided = DeviceBytes::Of(decision);
      ASSERT_EQ(kernels_->update_adam(Table(), &step, decided.as<StepDecision>(), nullptr), 0);
      for (const auto& tensor : tensors_) {
        kPlainKernels.update_adam(Decided(step, decision), decision.scalars, tensor->host.Row(), 0,
                                  tensor->host.count());
      }
    }
    for (const auto& tensor : tensors_) {
      tensor->ExpectEqual();
    }
  }
}

TEST_F(CudaKernelsTest, UpdateSgd_GivesTheCpusBitsWithAndWithoutMomentum) {
  for (const auto& [with_momentum, nesterov] : {std::pair(true, false), {true, true}, {false, false}}) {
    tensors_.clear();
    MakeTensors();
    for (const int t : {1, 2}) {
      const SgdStep step{.momentum = with_momentum ? 0.9 : 0, .dampening = nesterov ? 0 : 0.2, .nesterov = nesterov};
      const StepDecision decision = Decision(t);
      const DeviceBytes decided = DeviceBytes::Of(decision);
      ASSERT_EQ(kernels_->update_sgd(Table(with_momentum), &step, decided.as<StepDecision>(), nullptr), 0);
      for (const auto& tensor : tensors_) {
        TensorRow row = tensor->host.Row();
        row.first_moment = with_momentum ? row.first_moment : nullptr;
        kPlainKernels.update_sgd(Decided(step, decision), decision.scalars, row, 0, tensor->host.count());
      }
    }
    for (const auto& tensor : tensors_) {
      tensor->ExpectEqual();
    }
  }
}

TEST_F(CudaKernelsTest, ADecisionToSkip_LeavesEverythingAsItWas) {
  MakeTensors();
  StepDecision decision = Decision(1);
  decision.skip = true;
  const DeviceBytes decided = DeviceBytes::Of(decision);
  const AdamStep adam;
  const SgdStep sgd;
  ASSERT_EQ(kernels_->update_adam(Table(), &adam, decided.as<StepDecision>(), nullptr), 0);
  ASSERT_EQ(kernels_->update_sgd(Table(), &sgd, decided.as<StepDecision>(), nullptr), 0);
  for (const auto& tensor : tensors_) {
    tensor->ExpectEqual();
  }
}

// The state of a training step with two phases. (A phase is the part of a step that belongs to one loss and its
// optimizer; a GAN's step has two.) The first phase has more gradients than a block has threads. The gradients of the
// second phase overflow in every other step.
class Steps {
 public:
  static constexpr int64_t kFacts[] = {300, 5};

  Steps() {
    step.scaler_rule = {.dynamic = true, .hysteresis = 2, .floor = 1, .cap = 65536};
    step.scaler = {.scale = 1024, .hysteresis_left = 2, .growth_interval = 2};
    step.rate_factor = 0.5;
    for (const int64_t count : kFacts) {
      PhaseBlock& phase = phases.emplace_back();
      phase.rule = {.schedule = {.shape = ScheduleConfig::Shape::kCosine, .warmup_steps = 2, .total_steps = 9},
                    .max_norm = 0.5,
                    .average_decay = 0.9,
                    .rounding_seed = 7,
                    .beta1 = 0.9,
                    .beta2 = 0.999};
      phase.first_stat = static_cast<int64_t>(stats.size());
      phase.num_stats = count;
      stats.resize(stats.size() + static_cast<size_t>(count));
    }
  }

  void SetFacts(int number) {
    for (size_t i = 0; i < stats.size(); ++i) {
      stats[i] = {.sum_squares = 1e3 * static_cast<double>(i + 1) * number, .num_non_finite = 0};
    }
    stats.back().num_non_finite = number % 2;
  }

  StepBlock step;
  std::vector<PhaseBlock> phases;
  std::vector<GradientStats> stats;
};

// The results of CUDA's pow and cos may differ from the host's by about 1e-16, the last bit of a number near 1. Then
// 1 - 0.999^t has the same error. This number can be as small as 0.001, and there its square root has an absolute error
// 16 times as large.
constexpr double kPowError = 1e-14;

void ExpectSameDecision(const PhaseBlock& expected, const PhaseBlock& actual) {
  EXPECT_EQ(actual.applied_steps, expected.applied_steps);
  EXPECT_EQ(actual.decision.skip, expected.decision.skip);
  EXPECT_NEAR(actual.decision.norm, expected.decision.norm, 1e-13 * expected.decision.norm);
  EXPECT_FLOAT_EQ(actual.decision.scalars.gradient_scale, expected.decision.scalars.gradient_scale);
  EXPECT_NEAR(actual.decision.scalars.rate_factor, expected.decision.scalars.rate_factor, kPowError);
  EXPECT_EQ(actual.decision.scalars.step, expected.decision.scalars.step);
  EXPECT_EQ(actual.decision.scalars.rounding_seed, expected.decision.scalars.rounding_seed);
  EXPECT_NEAR(actual.decision.correction1, expected.decision.correction1, kPowError);
  EXPECT_NEAR(actual.decision.sqrt_correction2, expected.decision.sqrt_correction2, kPowError);
}

// The expected values come from calls on the host of the same functions that the kernels call. The decision to update
// or to skip is made for each of the two phases separately, or for both together.
TEST_F(CudaKernelsTest, DecideAndEndStep_GiveWhatTheHostDecides) {
  for (const bool together : {false, true}) {
    Steps host, device;
    for (int number = 1; number <= 8; ++number) {
      host.SetFacts(number);
      device.SetFacts(number);
      const DeviceBytes step = DeviceBytes::Of(device.step);
      const DeviceBytes phases(BytesFrom(device.phases)), stats(BytesFrom(device.stats));
      const StepControl there = {step.as<StepBlock>(), phases.as<PhaseBlock>(), stats.as<GradientStats>(), 2};
      const StepControl here = {&host.step, host.phases.data(), host.stats.data(), 2};
      for (PhaseBlock& phase : host.phases) {
        GradientStats sum;
        for (int64_t k = phase.first_stat; k < phase.first_stat + phase.num_stats; ++k) {
          sum.sum_squares += host.stats[static_cast<size_t>(k)].sum_squares;
          sum.num_non_finite += host.stats[static_cast<size_t>(k)].num_non_finite;
        }
        CheckFinite(host.step, sum, phase);
      }
      for (int first = 0; first < 2; first += together ? 2 : 1) {
        FinalizeTogether(here, first, together ? 2 : 1);
        ASSERT_EQ(kernels_->decide(there, first, together ? 2 : 1, nullptr), 0);
      }
      EndStep(here);
      ASSERT_EQ(kernels_->end_step(there, nullptr), 0);
      device.step = step.ReadAs<StepBlock>()[0];
      device.phases = phases.ReadAs<PhaseBlock>();
      EXPECT_EQ(device.step.scaler, host.step.scaler);
      EXPECT_EQ(device.step.scale_change, host.step.scale_change);
      EXPECT_EQ(device.step.loss_scale, host.step.loss_scale);
      ExpectSameDecision(host.phases[0], device.phases[0]);
      ExpectSameDecision(host.phases[1], device.phases[1]);
    }
    EXPECT_EQ(host.phases[0].applied_steps, together ? 4 : 8);
    EXPECT_EQ(host.phases[1].applied_steps, 4);
    EXPECT_LT(host.step.scaler.scale, 1024);
  }
}

TEST_F(CudaKernelsTest, EmptyTable_LaunchesNothing) {
  const AdamStep step;
  EXPECT_EQ(kernels_->update_adam({}, &step, nullptr, nullptr), 0);
  EXPECT_EQ(kernels_->compute_grad_stats({}, nullptr, nullptr, nullptr), 0);
}

}  // namespace
}  // namespace ampd::kernels
