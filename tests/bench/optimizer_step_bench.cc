// Measures the optimizer step over GPT-2 124M's parameters: fp32 masters, bf16 working copies and scaled bf16
// gradients. Compares ampd (a pre-pass, then one pass that unscales, clips, updates and rounds) with LibTorch's C++
// optimizer, which makes the same update. Also times a copy, a read and a triad (STREAM's a = b + s * c) of buffers of
// the same sizes.
//
//   optimizer_step_bench THREADS LAYERS VOCABULARY   (GPT-2 124M has 12 layers and 50257 tokens)
//       Each line on stdin is a command. For "ours", "libtorch", "copy", "read" and "triad", the program runs this work
//       once and prints the seconds. For "check", it prints the sum of the absolute values of all masters, once for
//       ampd and once for LibTorch.
//
// scripts/bench alternates between this program and PyTorch.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/_amp_foreach_non_finite_check_and_unscale.h"
#include "ATen/ops/add.h"
#include "ATen/ops/full.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/sum.h"
#include "ATen/ops/zeros.h"
#include "torch/nn/utils/clip_grad.h"
#include "torch/optim/adamw.h"
#include "worker/amp/optimizer.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd {
namespace {

constexpr double kLossScale = 65536;
constexpr double kMaxNorm = 1;
constexpr double kLearningRate = 6e-4;
constexpr double kWeightDecay = 0.1;
constexpr int64_t kWidth = 768;

std::vector<std::vector<int64_t>> Gpt2Shapes(int num_layers, int64_t vocabulary) {
  std::vector<std::vector<int64_t>> shapes = {{vocabulary, kWidth}, {1024, kWidth}};
  for (int layer = 0; layer < num_layers; ++layer) {
    for (const auto& [in, out] :
         {std::pair(kWidth, 3 * kWidth), {kWidth, kWidth}, {kWidth, 4 * kWidth}, {4 * kWidth, kWidth}}) {
      shapes.push_back({in, out});
      shapes.push_back({out});
    }
    shapes.insert(shapes.end(), 4, {kWidth});  // The weights and biases of two norms.
  }
  shapes.insert(shapes.end(), 2, {kWidth});
  return shapes;
}

// The initial values for the optimizers of ampd and LibTorch. PyTorch generates the same numbers from the same seed.
struct Start {
  std::vector<at::Tensor> masters;
  std::vector<at::Tensor> gradients;  // In bf16, multiplied by the loss scale.
};

Start MakeStart(int num_layers, int64_t vocabulary) {
  torch::manual_seed(0);
  Start start;
  for (const auto& shape : Gpt2Shapes(num_layers, vocabulary)) {
    start.masters.push_back(at::randn(shape).mul_(0.02));
    start.gradients.push_back(at::randn(shape).mul_(1e-3 * kLossScale).to(at::kBFloat16));
  }
  return start;
}

class Ours {
 public:
  explicit Ours(const Start& start) : gradients_(start.gradients) {
    for (const at::Tensor& master : start.masters) {
      parameters_.push_back({.name = "", .master = master.clone(), .leaf = master.to(at::kBFloat16), .remainder = {}});
    }
    optimizer_ = std::make_unique<amp::Optimizer>(
        amp::OptimizerConfig{
            .kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = kLearningRate, .weight_decay = kWeightDecay},
        parameters_, *kernels_);
    step_.scaler.scale = kLossScale;
    phase_.rule = optimizer_->rule();
    phase_.rule.max_norm = kMaxNorm;
    phase_.num_stats = static_cast<int64_t>(stats_.size());
  }

  void Step() {
    kernels_->ComputeGradStats(gradients_, stats_.data());
    kernels_->Decide(control_, 0, 1);
    optimizer_->Step(gradients_, &phase_.decision);
    kernels_->EndStep(control_);
  }

  const std::vector<amp::Parameter>& parameters() const { return parameters_; }

 private:
  const std::vector<at::Tensor> gradients_;
  std::vector<amp::Parameter> parameters_;
  std::unique_ptr<amp::StepKernels> kernels_ = amp::StepKernels::Make({});
  std::unique_ptr<amp::Optimizer> optimizer_;
  std::vector<kernels::GradientStats> stats_ = std::vector<kernels::GradientStats>(gradients_.size());
  kernels::StepBlock step_;
  kernels::PhaseBlock phase_;
  const kernels::StepControl control_ = {.step = &step_, .phases = &phase_, .stats = stats_.data(), .num_phases = 1};
};

class LibTorch {
 public:
  explicit LibTorch(const Start& start) : gradients_(start.gradients) {
    for (const at::Tensor& master : start.masters) {
      masters_.push_back(master.clone().requires_grad_());
      working_.push_back(master.to(at::kBFloat16));
    }
    optimizer_ = std::make_unique<torch::optim::AdamW>(
        masters_, torch::optim::AdamWOptions(kLearningRate).weight_decay(kWeightDecay));
  }

  void Step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> widened;
    for (size_t i = 0; i < masters_.size(); ++i) {
      widened.push_back(gradients_[i].to(at::kFloat));
      masters_[i].mutable_grad() = widened.back();
    }
    at::Tensor found_inf = at::zeros({1});
    at::_amp_foreach_non_finite_check_and_unscale_(widened, found_inf, at::full({1}, 1 / kLossScale));
    if (found_inf.item<float>() != 0) {
      return;
    }
    torch::nn::utils::clip_grad_norm_(masters_, kMaxNorm);
    optimizer_->step();
    for (size_t i = 0; i < masters_.size(); ++i) {
      working_[i].copy_(masters_[i]);
    }
  }

  const std::vector<at::Tensor>& masters() const { return masters_; }

 private:
  const std::vector<at::Tensor> gradients_;
  std::vector<at::Tensor> masters_;
  std::vector<at::Tensor> working_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

// The buffers for measuring the copy, the read and the triad: for each parameter, three fp32 tensors of its shape.
struct Buffers {
  std::vector<at::Tensor> a, b, c;

  void Copy() {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i].copy_(b[i]);
    }
  }
  void Read() {
    for (const at::Tensor& tensor : a) {
      (void)at::sum(tensor);
    }
  }
  void Triad() {
    for (size_t i = 0; i < a.size(); ++i) {
      at::add_out(a[i], b[i], c[i], 3);
    }
  }
};

double SumOfMagnitudes(const at::Tensor& tensor) { return tensor.detach().abs().sum(at::kDouble).item<double>(); }

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: optimizer_step_bench THREADS LAYERS VOCABULARY < CONTESTANTS\n");
    return 2;
  }
  train::InstallCountingAllocator();  // as in the trainer
  at::set_num_threads(std::atoi(argv[1]));
  const Start start = MakeStart(std::atoi(argv[2]), std::atoi(argv[3]));
  Ours ours(start);
  LibTorch libtorch(start);
  Buffers buffers;
  for (const at::Tensor& master : start.masters) {
    buffers.a.push_back(master.clone());
    buffers.b.push_back(master.clone());
    buffers.c.push_back(master.clone());
  }
  const std::map<std::string, std::function<void()>> contestants = {{"ours", [&] { ours.Step(); }},
                                                                    {"libtorch", [&] { libtorch.Step(); }},
                                                                    {"copy", [&] { buffers.Copy(); }},
                                                                    {"read", [&] { buffers.Read(); }},
                                                                    {"triad", [&] { buffers.Triad(); }}};
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "check") {
      double of_ours = 0, of_libtorch = 0;
      for (size_t i = 0; i < start.masters.size(); ++i) {
        of_ours += SumOfMagnitudes(ours.parameters()[i].master);
        of_libtorch += SumOfMagnitudes(libtorch.masters()[i]);
      }
      std::printf("%.17g %.17g\n", of_ours, of_libtorch);
    } else {
      const auto begin = std::chrono::steady_clock::now();
      contestants.at(line)();
      std::printf("%.9f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ampd

int main(int argc, char** argv) { return ampd::Main(argc, argv); }
