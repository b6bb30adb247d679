#include "precision/preset.h"

#include <algorithm>
#include <limits>

namespace ampd::precision {
namespace {

using graph::Dtype;
using Kind = LossScaleConfig::Kind;
using OptimizerSkip = LossScaleConfig::OptimizerSkip;

constexpr double kNoCap = std::numeric_limits<double>::infinity();  // The scale may grow to infinity.

// Formats with parameters stored below fp32: if all ops that read a parameter compute in the format `compute`, the
// parameter is stored in `compute`, with an fp32 master.
Formats WithMasters(Dtype compute) { return {.compute = compute, .parameter = compute, .master = Masters::kFloat32}; }

// Formats in which parameters are fp32 and are cast to `compute` in the graph.
Formats WithCasts(Dtype compute) { return {.compute = compute}; }

// Formats in which the whole model is stored in `compute`, with fp32 masters. Gradients are summed over micro-batches
// and reduced over devices in the given formats.
Formats WholeModel(Dtype compute, Dtype accumulation, Dtype reduction) {
  return {.compute = compute,
          .parameter = compute,
          .whole_model = true,
          .master = Masters::kFloat32,
          .accumulation = accumulation,
          .reduction = reduction};
}

// Formats for FP8 in which each weight is stored only once. The bf16 parameter, from which the FP8 weight is made, is
// the upper half of the fp32 master; the lower 16 bits are stored beside it.
Formats WithHalvedMasters() {
  return {.compute = Dtype::kBFloat16, .parameter = Dtype::kBFloat16, .master = Masters::kRemainder16};
}

// The loss-scale rules of ampd and of other projects. ampd's rule has a cap, and a floor of 1. With this floor, a model
// that fp16 cannot train is detected after 16 halvings of the scale instead of 165.
LossScaleConfig Own() { return {.kind = Kind::kDynamic, .initial = 65536, .floor = 1, .cap = 0x1p24}; }
LossScaleConfig Torch() { return {.kind = Kind::kDynamic, .initial = 65536}; }
LossScaleConfig Apex() {
  return {.kind = Kind::kDynamic, .initial = 65536, .cap = 0x1p24, .optimizer_skip = OptimizerSkip::kAllTogether};
}
LossScaleConfig ApexWithoutScale() { return {.optimizer_skip = OptimizerSkip::kAllTogether}; }
LossScaleConfig Keras() { return {.kind = Kind::kDynamic, .initial = 32768, .cap = kNoCap}; }
LossScaleConfig DeepSpeed() {
  return {.kind = Kind::kDynamic,
          .initial = 65536,
          .growth_interval = 1000,
          .floor = 1,
          .hysteresis = 2,
          .at_floor = LossScaleConfig::AtFloor::kFail};
}
LossScaleConfig Megatron() {
  return {
      .kind = Kind::kDynamic, .initial = 0x1p32, .growth_interval = 1000, .floor = 1, .cap = kNoCap, .hysteresis = 2};
}

std::vector<Preset> MakeOwn() {
  return {
      {"fp32", "everything in fp32, matmuls in full fp32", {}, OpList::kAmpd, {}},
      {"tf32", "fp32, matmuls rounded to tf32 on a GPU", {.tf32_matmul = true}, OpList::kAmpd, {}},
      {"bf16",
       "bf16 matmuls over fp32 master weights, no loss scaling",
       WithMasters(Dtype::kBFloat16),
       OpList::kAmpd,
       {}},
      {"fp16", "fp16 matmuls over fp32 master weights, dynamic loss scaling", WithMasters(Dtype::kFloat16),
       OpList::kAmpd, Own()},
  };
}

std::vector<Preset> MakeFp8() {
  const auto preset = [](std::string_view name, std::string_view summary, const Fp8Recipe& recipe) {
    return Preset{name, summary, WithHalvedMasters(), OpList::kAmpd, {}, {}, recipe};
  };
  using Scaling = Fp8Recipe::Scaling;
  return {
      preset("fp8", "bf16, inner linear layers in FP8, each tensor scaled by its own maximum",
             {.scaling = Scaling::kCurrent}),
      preset("fp8-delayed", "bf16, inner linear layers in FP8, scaled by the maxima of past steps",
             {.scaling = Scaling::kDelayed, .power_of_two_scales = false}),
      preset("fp8-block", "bf16, inner linear layers in FP8 (E4M3), scaled in blocks of 128",
             {.scaling = Scaling::kBlock, .gradient = Dtype::kFloat8E4M3}),
  };
}

std::vector<Preset> MakeOfTorchApexKeras() {
  Formats apex_o2 = WholeModel(Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat16);
  apex_o2.fp32_batch_norm = true;
  Formats apex_o3 = WholeModel(Dtype::kFloat16, Dtype::kFloat16, Dtype::kFloat16);
  apex_o3.master = Masters::kNone;
  return {
      {"torch-amp-fp16", "torch.autocast in fp16 with GradScaler", WithCasts(Dtype::kFloat16), OpList::kTorchCuda,
       Torch()},
      {"torch-amp-bf16", "torch.autocast in bf16", WithCasts(Dtype::kBFloat16), OpList::kTorchCuda, {}},
      {"apex-o0", "Apex's fp32 baseline", {}, OpList::kAmpd, ApexWithoutScale()},
      {"apex-o1", "Apex's patched functions in fp16, fp32 parameters", WithCasts(Dtype::kFloat16), OpList::kApexO1,
       Apex()},
      {"apex-o2", "an fp16 model with fp32 batch norms and fp32 master weights", apex_o2, OpList::kModelCast, Apex()},
      {"apex-o3", "everything in fp16 without master weights, to see how fast it could be", apex_o3, OpList::kModelCast,
       ApexWithoutScale(),
       "apex-o3 updates fp16 weights without masters: updates below half a unit in the last place are lost"},
      {"keras-mixed-float16", "Keras's mixed_float16 with its LossScaleOptimizer", WithCasts(Dtype::kFloat16),
       OpList::kKeras, Keras()},
      {"keras-mixed-bfloat16", "Keras's mixed_bfloat16", WithCasts(Dtype::kBFloat16), OpList::kKeras, {}},
  };
}

std::vector<Preset> MakeOfDeepSpeedMegatron() {
  const Dtype fp16 = Dtype::kFloat16;
  const Dtype bf16 = Dtype::kBFloat16;
  return {
      {"deepspeed-fp16", "DeepSpeed's fp16: an fp16 model, fp32 master weights, gradients summed in fp16",
       WholeModel(fp16, fp16, fp16), OpList::kModelCast, DeepSpeed()},
      {"deepspeed-bf16",
       "DeepSpeed's bf16: a bf16 model, fp32 master weights, gradients summed in fp32",
       WholeModel(bf16, Dtype::kFloat32, bf16),
       OpList::kModelCast,
       {}},
      {"megatron-fp16", "Megatron's fp16: an fp16 model, fp32 master weights, scale from 2^32",
       WholeModel(fp16, fp16, fp16), OpList::kMegatron, Megatron()},
      {"megatron-bf16",
       "Megatron's bf16: a bf16 model, fp32 master weights, gradients summed and reduced in fp32",
       WholeModel(bf16, Dtype::kFloat32, Dtype::kFloat32),
       OpList::kMegatron,
       {}},
  };
}

}  // namespace

std::string_view MastersName(Masters masters) {
  switch (masters) {
    case Masters::kNone:
      return "none";
    case Masters::kFloat32:
      return "float32";
    case Masters::kRemainder16:
      return "remainder16";
  }
  return "unknown";
}

const std::vector<Preset>& AllPresets() {
  static const auto* const presets = [] {
    auto* all = new std::vector<Preset>(MakeOwn());
    for (const std::vector<Preset>& some : {MakeFp8(), MakeOfTorchApexKeras(), MakeOfDeepSpeedMegatron()}) {
      all->insert(all->end(), some.begin(), some.end());
    }
    return all;
  }();
  return *presets;
}

const Preset* FindPreset(std::string_view name) {
  const std::vector<Preset>& all = AllPresets();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Preset& preset) { return preset.name == name; });
  return it == all.end() ? nullptr : &*it;
}

bool IsPresetName(std::string_view name) { return name == kAuto || FindPreset(name) != nullptr; }

const std::vector<std::string_view>& AutoPresets() {
  static const auto* const presets = new std::vector<std::string_view>{"bf16", "fp16", "fp32"};
  return *presets;
}

}  // namespace ampd::precision
