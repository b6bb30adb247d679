#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "precision/fp8_recipe.h"
#include "precision/loss_scale.h"
#include "precision/op_list.h"

namespace ampd::precision {

// What an optimizer keeps in addition to a parameter that is stored below fp32.
enum class Masters {
  kNone,         // Nothing: the stored parameter itself is updated.
  kFloat32,      // An fp32 copy.
  kRemainder16,  // The lower 16 bits of an fp32 copy whose upper half is the bf16 parameter.
};

std::string_view MastersName(Masters masters);

// The number formats of a policy, apart from rules for single ops and modules. A parameter's gradient has the format in
// which the parameter is stored.
struct Formats {
  graph::Dtype compute = graph::Dtype::kFloat32;
  // Storage format of parameters. If it is fp32 and `compute` is narrower, parameters are cast in the graph, as in
  // torch.amp.
  graph::Dtype parameter = graph::Dtype::kFloat32;
  // All parameters and buffers are stored in `parameter`. Otherwise only parameters that are read exclusively by ops in
  // `compute`.
  bool whole_model = false;
  bool fp32_batch_norm = false;  // With whole_model: batch norms' parameters and statistics stay fp32.
  Masters master = Masters::kNone;
  graph::Dtype accumulation = graph::Dtype::kFloat32;  // Sums of gradients over micro-batches.
  graph::Dtype reduction = graph::Dtype::kFloat32;     // Sums of gradients over devices.
  graph::Dtype optimizer_state = graph::Dtype::kFloat32;
  bool stochastic_rounding = false;  // For parameters without a master.
  bool tf32_matmul = false;          // For products of fp32 matrices on a GPU.
};

// A policy by name.
struct Preset {
  std::string_view name;
  std::string_view summary;  // One line for people.
  Formats formats;
  OpList ops = OpList::kAmpd;
  LossScaleConfig loss_scale;
  // Why it intentionally trains badly; empty for presets meant for training.
  std::string_view caveat = {};
  std::optional<Fp8Recipe> fp8 = {};  // For linear layers; nothing: no layer computes in FP8.
};

// All presets, in the order in which they are shown.
const std::vector<Preset>& AllPresets();

// Returns null if no preset has the name.
const Preset* FindPreset(std::string_view name);

// Whether the name is a preset's or "auto".
bool IsPresetName(std::string_view name);

// The presets of "auto", which selects the first one that the device computes natively.
inline constexpr std::string_view kAuto = "auto";
const std::vector<std::string_view>& AutoPresets();

}  // namespace ampd::precision
