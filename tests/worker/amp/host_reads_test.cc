// Tests that the host reads no number of a step while it enqueues the step. This needs no GPU: LibTorch reports every
// op that would make the host wait for a number.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ATen/ops/empty.h"
#include "base/random.h"
#include "models/gpt.h"
#include "tests/worker/amp/cpu_engine.h"

namespace ampd::amp {
namespace {

constexpr int64_t kVocabulary = 64;
constexpr int64_t kSequence = 16;
constexpr uint64_t kCanaryEverySteps = 2;

// Counts, on all threads, the ops whose result the host must know before it can continue. It does not detect direct
// reads of a CPU tensor's memory.
class HostReads {
 public:
  HostReads()
      : before_(num_reads_),
        callback_(
            at::addGlobalCallback(at::RecordFunctionCallback(&HostReads::Count).scopes({at::RecordScope::FUNCTION}))) {}
  ~HostReads() { at::removeCallback(callback_); }
  HostReads(const HostReads&) = delete;
  HostReads& operator=(const HostReads&) = delete;

  int num() const { return num_reads_ - before_; }

 private:
  static std::unique_ptr<at::ObserverContext> Count(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    for (const std::string_view op : {"aten::_local_scalar_dense", "aten::equal", "aten::nonzero"}) {
      num_reads_ += op == name ? 1 : 0;
    }
    return nullptr;
  }

  static inline std::atomic<int> num_reads_ = 0;
  const int before_;
  const at::CallbackHandle callback_;
};

Batch BatchOf(uint64_t seed) {
  SeededRandom random(seed);
  Batch batch{at::empty({4, kSequence}, at::kLong), at::empty({4, kSequence}, at::kLong)};
  for (int64_t i = 0; i < batch.images.numel(); ++i) {
    const auto token = static_cast<int64_t>(random.Next() % kVocabulary);
    batch.images.mutable_data_ptr<int64_t>()[i] = token;
    batch.labels.mutable_data_ptr<int64_t>()[i] = (token * 3 + 1) % kVocabulary;
  }
  return batch;
}

std::unique_ptr<Engine> MakeEngine(const std::string& preset) {
  const graph::Graph model =
      models::BuildGpt(
          {.num_layers = 3, .width = 128, .num_heads = 4, .vocabulary = kVocabulary, .sequence_length = kSequence})
          .value();
  v1::PrecisionPolicy policy = PresetNamed(preset);
  if (preset.starts_with("fp8")) {
    policy.mutable_fp8()->set_canary_every_steps(static_cast<int>(kCanaryEverySteps));
  }
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  options.clip_grad_norm = 1;
  return CpuEngine(model, policy, options);
}

class HostReadsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, HostReadsTest,
                         testing::Values("fp32", "bf16", "fp16", "fp8", "fp8-delayed", "fp8-block"));

TEST_P(HostReadsTest, ThereAreNoneWhileAStepBegins) {
  const auto engine = MakeEngine(GetParam());
  for (uint64_t step = 0; step < 2 * kCanaryEverySteps; ++step) {
    const std::vector<Batch> micro_batches = {BatchOf(2 * step), BatchOf(2 * step + 1)};
    const HostReads reads;
    engine->Enqueue(micro_batches, step);
    EXPECT_EQ(reads.num(), 0) << "step " << step;
    engine->AwaitStep();
  }
  const HostReads reads;
  engine->Evaluate(BatchOf(99));
  EXPECT_EQ(reads.num(), 3) << "its three sums: reads are seen";
}

}  // namespace
}  // namespace ampd::amp
