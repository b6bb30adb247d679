#include "worker/amp/step/step_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "ATen/Parallel.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "c10/core/Device.h"

namespace ampd::amp {
namespace {

// Returns tensors of less than a chunk, of exactly one chunk, and of several chunks with and without a remainder; and
// an empty tensor.
std::vector<StepTensors> SomeTensors(at::ScalarType format) {
  std::vector<StepTensors> tensors;
  for (const int64_t count : {int64_t{1}, int64_t{1000}, int64_t{0}, kernels::kChunkElements,
                              3 * kernels::kChunkElements + 5, int64_t{17}, 2 * kernels::kChunkElements}) {
    const at::Tensor master = at::randn({count});
    tensors.push_back({.gradient = at::randn({count}).to(format),
                       .master = master,
                       .leaf = format == at::kFloat ? master : master.to(format),
                       .first = at::randn({count}),
                       .second = at::rand({count}),
                       .learning_rate = 1e-2,
                       .weight_decay = 0.1});
  }
  tensors[1].gradient = at::Tensor();
  return tensors;
}

std::vector<StepTensors> CopyOf(const std::vector<StepTensors>& tensors) {
  std::vector<StepTensors> copies;
  for (const StepTensors& one : tensors) {
    StepTensors copy = one;
    copy.master = one.master.clone();
    copy.leaf = one.leaf.is_same(one.master) ? copy.master : one.leaf.clone();
    copy.first = one.first.clone();
    copy.second = one.second.clone();
    copies.push_back(copy);
  }
  return copies;
}

std::string BytesOf(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

std::vector<kernels::GradientStats> ComputeGradStats(StepKernels& passes, const std::vector<at::Tensor>& gradients) {
  std::vector<kernels::GradientStats> stats(gradients.size(), {-1, -1});
  passes.ComputeGradStats(gradients, stats.data());
  return stats;
}

// Runs all passes and returns all bits that they write as one string.
std::string BitsAfterAllPasses(const kernels::CpuKernels* loops, int num_threads,
                               const std::vector<StepTensors>& start) {
  at::set_num_threads(num_threads);
  const auto passes = StepKernels::Make({.cpu_kernels = loops});
  std::vector<StepTensors> tensors = CopyOf(start);
  std::vector<at::Tensor> gradients, sums;
  for (const StepTensors& one : tensors) {
    gradients.push_back(one.gradient);
    sums.push_back(at::zeros(one.master.sizes()));
  }
  std::string bits;
  for (const kernels::GradientStats& stats : ComputeGradStats(*passes, gradients)) {
    bits.append(reinterpret_cast<const char*>(&stats), sizeof(stats));
  }
  passes->Accumulate(gradients, sums);
  kernels::StepDecision decision;
  decision.scalars.gradient_scale = 0.5f;
  decision.correction1 = 0.1;
  decision.sqrt_correction2 = 0.03;
  passes->UpdateAdam({}, &decision, tensors);
  passes->UpdateSgd({.momentum = 0.9}, &decision, tensors);
  passes->Round(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StepTensors& one = tensors[i];
    for (const at::Tensor& tensor : {one.master, one.leaf, one.first, one.second, sums[i]}) {
      bits += BytesOf(tensor);
    }
  }
  return bits;
}

TEST(StepKernels, GiveTheSameBitsForEveryNumberOfThreadsAndEveryInstructionSet) {
  for (const at::ScalarType format : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const std::vector<StepTensors> start = SomeTensors(format);
    const std::string expected = BitsAfterAllPasses(nullptr, 1, start);
    for (const kernels::InstructionSet set : kernels::kInstructionSets) {
      const kernels::CpuKernels* const loops = kernels::KernelsFor(set);
      for (int num_threads = 1; loops != nullptr && num_threads <= 4; ++num_threads) {
        EXPECT_TRUE(BitsAfterAllPasses(loops, num_threads, start) == expected)
            << loops->name << " on " << num_threads << " threads, " << format;
      }
    }
  }
}

TEST(StepKernels, CopyKeepsEveryBitAndWaitsForASkippedStep) {
  for (const at::ScalarType format : {at::kFloat, at::kBFloat16, at::kHalf}) {
    std::vector<TensorCopy> copies;
    for (const int64_t count : {0, 3, 40'000}) {
      copies.push_back({at::randn({count}).to(format), at::zeros({count}, format)});
    }
    kernels::StepDecision decision;
    const auto passes = StepKernels::Make({});
    passes->Copy(copies, &decision);
    EXPECT_EQ(copies[2].to.count_nonzero().item<int64_t>(), 0);
    decision.skip = true;
    for (const kernels::StepDecision* const if_skipped : {&decision, static_cast<kernels::StepDecision*>(nullptr)}) {
      passes->Copy(copies, if_skipped);
      for (const TensorCopy& copy : copies) {
        EXPECT_EQ(BytesOf(copy.to), BytesOf(copy.from));
        copy.to.zero_();
      }
    }
  }
}

TEST(StepKernels, GradStatsFindsTheTensorWithNonFiniteElements) {
  std::vector<at::Tensor> gradients = {at::randn({3 * kernels::kChunkElements}), at::Tensor(),
                                       at::randn({2 * kernels::kChunkElements}), at::randn({5})};
  gradients[2].data_ptr<float>()[kernels::kChunkElements + 1] = std::numeric_limits<float>::infinity();
  gradients[2].data_ptr<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  at::set_num_threads(2);
  const auto stats = ComputeGradStats(*StepKernels::Make({}), gradients);
  ASSERT_EQ(stats.size(), 4u);
  EXPECT_EQ(stats[0].num_non_finite, 0);
  EXPECT_NEAR(stats[0].sum_squares, gradients[0].to(at::kDouble).square().sum().item<double>(), 1e-9 * 49152);
  EXPECT_EQ(stats[1].sum_squares, 0);
  EXPECT_EQ(stats[2].num_non_finite, 2);
  EXPECT_EQ(stats[3].num_non_finite, 0);
}

TEST(StepKernels, AnUpdateThatIsToBeSkippedWritesNothing) {
  const auto passes = StepKernels::Make({});
  const std::vector<StepTensors> start = SomeTensors(at::kBFloat16);
  const std::vector<StepTensors> tensors = CopyOf(start);
  kernels::StepDecision decision;
  decision.skip = true;
  passes->UpdateAdam({}, &decision, tensors);
  passes->UpdateSgd({.momentum = 0.9}, &decision, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(BytesOf(tensors[i].master), BytesOf(start[i].master));
    EXPECT_EQ(BytesOf(tensors[i].leaf), BytesOf(start[i].leaf));
    EXPECT_EQ(BytesOf(tensors[i].first), BytesOf(start[i].first));
  }
}

std::mutex seen_mutex;
std::set<std::thread::id> seen_threads;

TEST(StepKernels, PassesRunOnTheThreadsOfLibTorch) {
  static constexpr kernels::CpuKernels kSpy = {
      .name = "spy", .compute_grad_stats = [](const kernels::TensorRow&, int64_t, int64_t) -> kernels::GradientStats {
        const std::lock_guard lock(seen_mutex);
        seen_threads.insert(std::this_thread::get_id());
        return {};
      }};
  const auto passes = StepKernels::Make({.cpu_kernels = &kSpy});
  for (const int num_threads : {1, 2, 3}) {
    at::set_num_threads(num_threads);
    seen_threads.clear();
    ComputeGradStats(*passes, {at::zeros({6 * kernels::kChunkElements})});
    EXPECT_EQ(seen_threads.size(), static_cast<size_t>(num_threads));
  }
}

}  // namespace
}  // namespace ampd::amp
