#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "precision/fp8_recipe.h"
#include "precision/loss_scale.h"
#include "precision/op_list.h"

namespace ampd::precision {

// What an optimizer keeps beside a parameter that is stored below fp32.
enum class Masters {
  kNone,         // nothing: the stored parameter is updated itself
  kFloat32,      // a fp32 copy
  kRemainder16,  // the lower 16 bits of a fp32 copy whose upper half is the bf16 parameter
};

std::string_view MastersName(Masters masters);

// The number formats of a policy, outside of what rules say of single ops and modules. A parameter's gradient has the
// format that the parameter is stored in.
struct Formats {
  graph::Dtype compute = graph::Dtype::kFloat32;
  // What parameters are stored in. fp32 below a narrower `compute`: they are cast in the graph, as torch.amp does.
  graph::Dtype parameter = graph::Dtype::kFloat32;
  // Every parameter is stored in `parameter`, and buffers too. Otherwise only parameters that nothing but ops in
  // `compute` reads.
  bool whole_model = false;
  bool fp32_batch_norm = false;  // with whole_model: batch norms' parameters and statistics stay fp32
  Masters master = Masters::kNone;
  graph::Dtype accumulation = graph::Dtype::kFloat32;  // of gradients over micro-batches
  graph::Dtype reduction = graph::Dtype::kFloat32;     // of gradients over devices
  graph::Dtype optimizer_state = graph::Dtype::kFloat32;
  bool stochastic_rounding = false;  // of parameters without a master
  bool tf32_matmul = false;          // products of fp32 matrices on a GPU
};

// A policy by name.
struct Preset {
  std::string_view name;
  std::string_view summary;  // one line for people
  Formats formats;
  OpList ops = OpList::kAmpd;
  LossScaleConfig loss_scale;
  // Why it trains badly on purpose; empty for presets that one would train with.
  std::string_view caveat = {};
  std::optional<Fp8Recipe> fp8 = {};  // of linear layers; nothing: none computes in FP8
};

// All presets, in the order in which people are shown them.
const std::vector<Preset>& AllPresets();

// Null for a name of no preset.
const Preset* FindPreset(std::string_view name);

// Whether it names a preset or is "auto".
bool IsPresetName(std::string_view name);

// "auto": the first of these that the device computes natively.
inline constexpr std::string_view kAuto = "auto";
const std::vector<std::string_view>& AutoPresets();

}  // namespace ampd::precision
