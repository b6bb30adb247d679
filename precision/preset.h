#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "precision/fp8_recipe.h"
#include "precision/loss_scale.h"
#include "precision/op_list.h"

namespace ampd::precision {

// What an optimizer keeps as the master of a parameter that is stored below fp32.
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
  // If true, all parameters and buffers are stored in the format `parameter`. If false, this holds only for parameters
  // that are read exclusively by ops in the format `compute`.
  bool whole_model = false;
  bool fp32_batch_norm = false;  // With whole_model: the parameters and statistics of batch norms stay fp32.
  Masters master = Masters::kNone;
  graph::Dtype accumulation = graph::Dtype::kFloat32;  // Sums of gradients over micro-batches.
  graph::Dtype reduction = graph::Dtype::kFloat32;     // Sums of gradients over devices.
  graph::Dtype optimizer_state = graph::Dtype::kFloat32;
  bool stochastic_rounding = false;  // For updated parameters below fp32 without a master.
  bool tf32_matmul = false;          // Products of fp32 matrices on a GPU use tf32.
};

// A precision policy with a name, which a job can select.
struct Preset {
  std::string_view name;
  std::string_view summary;  // One line for people.
  Formats formats;
  OpList ops = OpList::kAmpd;
  LossScaleConfig loss_scale;
  // For a preset that intentionally trains badly, the reason; empty for presets meant for training.
  std::string_view caveat = {};
  std::optional<Fp8Recipe> fp8 = {};  // Recipe for linear layers; nothing: no layer computes in FP8.
};

// All presets, in the order in which they are shown.
const std::vector<Preset>& AllPresets();

// Returns null if no preset has the name.
const Preset* FindPreset(std::string_view name);

// Whether `name` is the name of a preset, or "auto".
bool IsPresetName(std::string_view name);

// The policy name "auto" means the first of AutoPresets that the device computes natively.
inline constexpr std::string_view kAuto = "auto";
const std::vector<std::string_view>& AutoPresets();

}  // namespace ampd::precision
