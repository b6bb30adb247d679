// Counts the kernels, copies and fills that a training step of GPT-2 124M launches on a GPU, with and without ampd's
// fused ops. docs/gpu.md has the table that this test prints.
//
// The engine runs on the CPU: LibTorch's ops are counted where they are called, and ampd's kernels run over the
// emulated CUDA, which counts their launches. The tensors are small, because the number of launches does not depend on
// sizes. There is one exception: without the fused loss head, the loss is computed in parts of the rows.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Reduction.h"
#include "ATen/ops/ones_like.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/randn.h"
#include "absl/functional/function_ref.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/cost/loss_memory.h"
#include "graph/passes.h"
#include "models/gpt2.h"
#include "precision/policy.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/engine.h"
#include "worker/amp/ops/cross_entropy.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {
namespace {

constexpr int64_t kVocabulary = 4099;
constexpr int64_t kPositions = 4;
// The number of parts in which the loss of 8 x 1024 tokens was computed when the loss head was not fused, as in the
// trace docs/gpu/h100-1.jsonl.
constexpr int64_t kLossParts = 13;
// The tokens, the labels and the results of a step, which an engine on the CPU does not copy to or from a device.
constexpr int64_t kHostCopies = 3;

// Returns how many launches one call of each op makes on a GPU in deterministic mode. The numbers come from the traces
// of an H100 (docs/gpu/h100-1.jsonl, docs/gpu/h100-3.jsonl). A trace counts the kernels by name, which shows the op
// that launched them. Some ops launch several:
//
//   * the backward pass of flash attention launches three kernels,
//   * the backward pass of a layer norm launches one kernel for the gradient of the input, and one kernel for the
//     gradients of weight and bias,
//   * the backward pass of an embedding sorts the tokens, and adds up the gradients of equal tokens,
//   * scatter_ becomes an indexed write, which checks and sorts the indices.
//
// A trace does not show which op launched a fill. In the trace with all fused ops, a step has 64 fills. This table
// divides them among the ops so that both traces nearly add up: four for the backward pass of attention, one for a sum,
// one for zero_, and the rest for the backward pass of an embedding. So for these fills, the comparison with the traces
// in the test below proves nothing.
const std::map<std::string, int64_t>& LaunchesOfOps() {
  static const std::map<std::string, int64_t> table = {
      {"aten::_log_softmax", 1},
      {"aten::_log_softmax_backward_data", 1},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", 1},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", 7},
      {"aten::_to_copy", 1},
      {"aten::_unsafe_view", 0},
      {"aten::add", 1},
      {"aten::add_", 1},
      {"aten::addmm", 1},
      {"aten::cat", 1},
      {"aten::copy_", 1},
      {"aten::detach", 0},
      {"aten::div", 1},
      {"aten::embedding", 1},
      {"aten::embedding_dense_backward", 31},
      {"aten::empty", 0},
      {"aten::empty_like", 0},
      {"aten::eq", 1},
      {"aten::expand", 0},
      {"aten::gather", 1},
      {"aten::gelu", 1},
      {"aten::gelu_backward", 1},
      {"aten::logical_not", 1},
      {"aten::masked_fill", 2},
      {"aten::masked_fill_", 1},
      {"aten::mm", 1},
      {"aten::native_layer_norm", 1},
      {"aten::native_layer_norm_backward", 2},
      {"aten::neg", 1},
      {"aten::nll_loss_forward", 1},
      {"aten::scatter_", 22},
      {"aten::slice", 0},
      {"aten::split", 0},
      {"aten::sum", 2},
      {"aten::t", 0},
      {"aten::transpose", 0},
      {"aten::unsqueeze", 0},
      {"aten::view", 0},
      {"aten::zero_", 1},
      {"aten::zeros_like", 1},
  };
  return table;
}

// Runs `work` and returns its launches: those of LibTorch's ops by the table, and those of ampd's kernels as counted.
int64_t CountLaunches(absl::FunctionRef<void()> work) {
  std::map<std::string, int> ops;
  int64_t launches = kernels::RunBackwards([&] { ops = CountOps(work); });
  for (const auto& [name, num_calls] : ops) {
    const auto row = LaunchesOfOps().find(name);
    const bool is_known = row != LaunchesOfOps().end();
    EXPECT_TRUE(is_known) << name << " is not in the table";
    launches += is_known ? num_calls * row->second : 0;
  }
  return launches;
}

// The fused ops that a step has.
struct Fusions {
  bool loss_head = true;    // The loss is fused with the linear layer before it.
  bool layer_norms = true;  // Layer norms are fused with the additions and casts around them.
  bool linears = true;      // Linear layers compute their bias gradients with ampd's kernel.
  bool amaxes = true;       // Layer norms find the largest magnitudes of the FP8 layers that read them.
};

constexpr Fusions kNone = {.loss_head = false, .layer_norms = false, .linears = false};

// Returns the launches of the loss, forward and backward, over logits in bf16. With the kernels, there are no parts.
int64_t LaunchesOfLoss(bool with_kernels) {
  ComputeDevice device;
  device.cuda_kernels = with_kernels ? RecordableKernels() : nullptr;
  executor::OpRegistry registry;
  RegisterCrossEntropy(registry, device);
  const int64_t num_rows = kLossParts * graph::CrossEntropyRows(kVocabulary);
  const at::Tensor logits = at::randn({with_kernels ? 2 : num_rows, kVocabulary}, at::kBFloat16).requires_grad_(true);
  const at::Tensor labels = at::randint(kVocabulary, {logits.size(0)}, at::kLong);
  at::Tensor loss;
  const int64_t forward = CountLaunches([&] {
    std::vector<c10::IValue> stack = {logits, labels, int64_t{at::Reduction::Mean}};
    (*registry.Find("ampd.cross_entropy"))(stack);
    loss = stack[0].toTensor();
  });
  const at::Tensor upstream = at::ones_like(loss);
  return forward + CountLaunches([&] { loss.backward(upstream); });
}

// Returns an engine for a language model with 12 blocks, under the preset as it is on a GPU.
std::unique_ptr<Engine> MakeEngine(const Fusions& fusions, const std::string& preset) {
  v1::Gpt2Spec spec;
  spec.set_n_layer(12);
  spec.set_n_embd(16);
  spec.set_n_head(2);
  spec.set_vocab_size(kVocabulary);
  spec.set_n_positions(kPositions);
  spec.set_dropout(0);
  const graph::Graph model = models::BuildGpt2(spec, 0).value();
  v1::Device gpu;
  gpu.set_kind(v1::Device::GPU);
  gpu.set_capability_major(9);
  precision::ResolvedPolicy policy = precision::ResolvePolicy(PresetNamed(preset), graph::WithLossHead(model).value(),
                                                              gpu, precision::OptimizerKind::kAdam)
                                         .value();
  policy.fuses_linear_cross_entropy = fusions.loss_head;
  policy.fuses_layer_norms = fusions.layer_norms;
  policy.fuses_linears = fusions.linears;
  policy.norms_find_amaxes = policy.norms_find_amaxes && fusions.amaxes;
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.clip_grad_norm = 1;
  options.device.cuda_kernels = RecordableKernels();
  return Engine::Create(model, policy, options).value();
}

Batch RandomBatch() {
  const auto tokens = [] { return at::randint(kVocabulary, {1, kPositions}, at::kLong); };
  return {tokens(), tokens()};
}

int64_t LaunchesOfStep(const Fusions& fusions) {
  const auto engine = MakeEngine(fusions, "bf16");
  const Batch batch = RandomBatch();
  const int64_t launches = kHostCopies + CountLaunches([&] { engine->Step({batch}); });
  // An engine with kernels also has one for the loss if the loss is an op of its own and not fused with the head.
  return fusions.loss_head ? launches : launches - LaunchesOfLoss(true) + LaunchesOfLoss(false);
}

TEST(Launches, Gpt2HasAtMost450WithFusedOps) {
  const int64_t none = LaunchesOfStep(kNone);
  std::printf("GPT-2 124M, 8 x 1024 tokens: %ld launches a step without fused ops\n", static_cast<long>(none));
  const std::vector<std::pair<const char*, bool Fusions::*>> kEach = {
      {"loss head", &Fusions::loss_head}, {"layer norms", &Fusions::layer_norms}, {"linear layers", &Fusions::linears}};
  int64_t left = none;
  for (const auto& [what, member] : kEach) {
    Fusions one = kNone;
    one.*member = true;
    const int64_t fewer = none - LaunchesOfStep(one);
    EXPECT_GT(fewer, 0) << what;
    std::printf("  %-13s %4ld fewer\n", what, static_cast<long>(fewer));
    left -= fewer;
  }
  const int64_t all = LaunchesOfStep({});
  std::printf("  all           %4ld are left\n", static_cast<long>(all));
  EXPECT_LE(all, 450);
  EXPECT_EQ(all, left) << "each fused op saves launches of its own";
  // In the traces, a step launches 1,041 without fused ops. With them it launches 508, of which 73 have been removed
  // since. Without fused ops the loss was computed by other ops at that time.
  EXPECT_NEAR(static_cast<double>(none), 1041, 0.05 * 1041);
  EXPECT_NEAR(static_cast<double>(all), 508 - 73, 0.02 * (508 - 73));
}

// Counts only the launches of ampd's kernels: for products in FP8, LibTorch calls other ops on a CPU than on a GPU. Ten
// of the twelve blocks compute in FP8. In each of them, two layers read the result of a norm.
TEST(Launches, InFp8_EachLayerThatReadsANorm_MakesOneLaunchLess) {
  for (const char* const preset : {"fp8", "fp8-delayed"}) {
    const auto separate = MakeEngine({.amaxes = false}, preset), fused = MakeEngine({}, preset);
    const int64_t before = kernels::RunBackwards([&] { separate->Step({RandomBatch()}); });
    EXPECT_EQ(before - kernels::RunBackwards([&] { fused->Step({RandomBatch()}); }), 20) << preset;
  }
}

}  // namespace
}  // namespace ampd::amp
