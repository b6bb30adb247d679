#include "precision/preset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "tests/golden_file.h"
#include "tests/precision/devices.h"

namespace ampd::precision {
namespace {

using graph::Dtype;

constexpr OpList kLists[] = {OpList::kAmpd,  OpList::kTorchCuda, OpList::kTorchCpu, OpList::kApexO1,
                             OpList::kKeras, OpList::kModelCast, OpList::kMegatron};

// Returns a row of the table of op lists, without trailing blanks: "aten.mm.default  lower lower ...".
template <typename Cell>
std::string Line(std::string_view op, Cell cell) {
  std::string line = absl::StrFormat("%-48s", std::string(op));
  for (const OpList list : kLists) {
    absl::StrAppendFormat(&line, " %-10s", std::string(cell(list)));
  }
  return std::string(absl::StripTrailingAsciiWhitespace(line)) + "\n";
}

// The table of all op lists as text: one line per op, one column per list. parity_autocast_test checks PyTorch's two
// columns against the installed PyTorch.
std::string OpLists() {
  std::string text = Line("op", OpListName);
  for (const graph::OpRow& row : graph::AllOps()) {
    text += Line(row.op, [&](OpList list) { return graph::OpClassName(ClassIn(list, row)); });
  }
  return text;
}

TEST(OpLists, WhatEachSaysOfEveryAllowedOpIsTheGolden) {
  ExpectGolden("tests/precision/golden/op-lists.txt", OpLists());
}

TEST(OpLists, TheGoldenHasTheListOfEveryPreset) {
  for (const Preset& preset : AllPresets()) {
    EXPECT_NE(std::find(std::begin(kLists), std::end(kLists), preset.ops), std::end(kLists)) << preset.name;
  }
}

// A graph with products, a batch norm, a layer norm, a softmax, an op that only Apex lists (gelu), and a loss. Each of
// the ops reads the result of a product.
graph::Graph Small() {
  graph::GraphBuilder b("small");
  graph::ValueId x = b.Input("images", {Dtype::kFloat32, {graph::Dim::Batch(), 3, 8, 8}});
  x = b.BatchNorm2d("norm", b.Conv2d("conv", x, {.out_channels = 4, .kernel_size = 3, .padding = 1}));
  x = b.Linear("fc", b.Flatten("flat", x), 16);
  x = b.Add("sum", b.Add("add", b.LayerNorm("ln", x), b.Softmax("gate", x, 1)), b.Gelu("gelu", x));
  b.Output("logits", b.Linear("head", x, 10));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

std::string Short(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "f32";
    case Dtype::kFloat16:
      return "f16";
    case Dtype::kBFloat16:
      return "b16";
    default:
      return std::string(graph::DtypeName(dtype));
  }
}

// The storage format of a parameter and its master, for example "f16 over f32".
std::string Stored(const ResolvedPolicy& policy, std::string_view name) {
  for (const ParameterRow& row : policy.parameters) {
    if (row.name == name) {
      return Short(row.dtype) + (row.master == Masters::kNone
                                     ? ""
                                     : absl::StrCat(" over ", row.master == Masters::kFloat32 ? "f32" : "?"));
    }
  }
  return "missing";
}

std::string Buffer(const ResolvedPolicy& policy, std::string_view name) {
  const auto row = std::find_if(policy.buffers.begin(), policy.buffers.end(),
                                [&](const BufferRow& candidate) { return candidate.name == name; });
  return row == policy.buffers.end() ? "missing" : Short(row->dtype);
}

// Returns the dtype of the result of the first node with this op in the converted graph. If the result is cast again
// within the same module (the node computes in fp32 and returns a lower format), returns the dtype after that cast.
std::string Returned(const graph::Graph& graph, std::string_view op) {
  const auto& nodes = graph.nodes();
  const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const graph::Node& one) { return one.op == op; });
  if (node == nodes.end()) {
    return "missing";
  }
  const auto cast = std::find_if(node, nodes.end(), [&](const graph::Node& one) {
    return one.op == "aten.to.dtype" && one.module_path == node->module_path && one.ValueOf("self") == node->outputs[0];
  });
  return Short(graph.type((cast == nodes.end() ? node : cast)->outputs[0]).dtype);
}

std::string LeafOf(const graph::Graph& graph, std::string_view name) {
  const auto& leaves = graph.parameters();
  const auto leaf =
      std::find_if(leaves.begin(), leaves.end(), [&](const graph::State& state) { return state.name == name; });
  return leaf == leaves.end() ? "missing" : Short(graph.type(leaf->value).dtype);
}

std::string Scale(const LossScaleConfig& scale) {
  return scale.kind == LossScaleConfig::Kind::kOff
             ? "off"
             : absl::StrCat(LossScaleText(scale.initial), " every ", scale.growth_interval, " x", scale.growth_factor,
                            " x", scale.backoff_factor, " floor ", scale.floor, " hysteresis ", scale.hysteresis);
}

// Describes a preset on a GPU as text, with the same parts as the entries of kProjects.
std::string Describe(const std::string& preset) {
  const auto policy = ResolvePolicy(PresetNamed(preset), Small(), Gpu(9, 0), OptimizerKind::kAdam);
  if (!policy.ok()) {
    return policy.status().ToString();
  }
  const auto converted = ApplyPrecision(Small(), *policy);
  if (!converted.ok()) {
    return converted.status().ToString();
  }
  const Formats& formats = policy->formats;
  return absl::StrCat(
      "product ", Returned(*converted, "ampd.linear"), "; weight ", Stored(*policy, "fc.weight"), "; gradient ",
      LeafOf(*converted, "fc.weight"), " sum ", Short(formats.accumulation), " wire ", Short(formats.reduction),
      "; moments ", Short(formats.optimizer_state), "; batch norm ", Stored(*policy, "norm.weight"), " statistics ",
      Buffer(*policy, "norm.running_mean"), " gives ", Returned(*converted, "aten.batch_norm.default"), "; layer norm ",
      Stored(*policy, "ln.weight"), " gives ", Returned(*converted, "ampd.layer_norm"), "; softmax ",
      Returned(*converted, "aten.softmax.int"), "; gelu ", Returned(*converted, "aten.gelu.default"), "; loss ",
      Returned(*converted, "aten.cross_entropy_loss.default"), "; scale ", Scale(policy->loss_scale));
}

struct Project {
  const char* preset;
  const char* does;
};

// What each project does, written from its sources and documents and not from this code:
//   * torch.autocast: fp32 parameters. softmax and layer_norm are on its CUDA list of fp32 ops and return fp32;
//     batch_norm and gelu are on no list and keep their input's format. GradScaler starts at 2^16, grows x2 after 2000
//     steps, backs off x0.5, without a floor.
//   * Apex (apex/amp/frontend.py and lists): O1 patches batch norms, layer norms, softmax and gelu to fp32. O2 casts
//     the model except batch norms and keeps fp32 masters. O3 casts all and has neither masters nor a scale. fp32
//     moments under O3 are our deliberate choice, see docs/precision-reference.md.
//   * Keras: fp32 variables. Every layer casts its inputs and returns the compute format. This includes batch norms,
//     which compute in fp32. LossScaleOptimizer starts at 2^15.
//   * DeepSpeed: 16-bit model, fp32 masters and moments. Gradients are sent in the model's format, and summed in it or,
//     by BF16_Optimizer, in fp32. The scale starts at 2^16, with a window of 1000, minimum 1 and hysteresis 2.
//   * Megatron: 16-bit model, fp32 masters and moments, softmax in fp32. With bf16, gradients are summed and sent in
//     fp32. The scale starts at 2^32, with a window of 1000, minimum 1 and hysteresis 2.
// Losses are fp32 in all projects: by the lists of PyTorch and Apex, and by the models of the others.
constexpr Project kProjects[] = {
    {"torch-amp-fp16",
     "product f16; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives f16; "
     "layer norm f32 gives f32; softmax f32; gelu f16; loss f32; scale 65536 every 2000 x2 x0.5 floor 0 hysteresis 1"},
    {"torch-amp-bf16",
     "product b16; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives b16; "
     "layer norm f32 gives f32; softmax f32; gelu b16; loss f32; scale off"},
    {"apex-o0",
     "product f32; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives f32; "
     "layer norm f32 gives f32; softmax f32; gelu f32; loss f32; scale off"},
    {"apex-o1",
     "product f16; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives f32; "
     "layer norm f32 gives f32; softmax f32; gelu f32; loss f32; scale 65536 every 2000 x2 x0.5 floor 0 hysteresis 1"},
    {"apex-o2",
     "product f16; weight f16 over f32; gradient f16 sum f32 wire f16; moments f32; batch norm f32 statistics f32 "
     "gives f16; layer norm f16 over f32 gives f16; softmax f16; gelu f16; loss f32; "
     "scale 65536 every 2000 x2 x0.5 floor 0 hysteresis 1"},
    {"apex-o3",
     "product f16; weight f16; gradient f16 sum f16 wire f16; moments f32; batch norm f16 statistics f16 gives f16; "
     "layer norm f16 gives f16; softmax f16; gelu f16; loss f32; scale off"},
    {"keras-mixed-float16",
     "product f16; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives f16; "
     "layer norm f32 gives f16; softmax f16; gelu f16; loss f32; scale 32768 every 2000 x2 x0.5 floor 0 hysteresis 1"},
    {"keras-mixed-bfloat16",
     "product b16; weight f32; gradient f32 sum f32 wire f32; moments f32; batch norm f32 statistics f32 gives b16; "
     "layer norm f32 gives b16; softmax b16; gelu b16; loss f32; scale off"},
    {"deepspeed-fp16",
     "product f16; weight f16 over f32; gradient f16 sum f16 wire f16; moments f32; batch norm f16 over f32 statistics "
     "f16 gives f16; layer norm f16 over f32 gives f16; softmax f16; gelu f16; loss f32; "
     "scale 65536 every 1000 x2 x0.5 floor 1 hysteresis 2"},
    {"deepspeed-bf16",
     "product b16; weight b16 over f32; gradient b16 sum f32 wire b16; moments f32; batch norm b16 over f32 statistics "
     "b16 gives b16; layer norm b16 over f32 gives b16; softmax b16; gelu b16; loss f32; scale off"},
    {"megatron-fp16",
     "product f16; weight f16 over f32; gradient f16 sum f16 wire f16; moments f32; batch norm f16 over f32 statistics "
     "f16 gives f16; layer norm f16 over f32 gives f16; softmax f32; gelu f16; loss f32; "
     "scale 4294967296 every 1000 x2 x0.5 floor 1 hysteresis 2"},
    {"megatron-bf16",
     "product b16; weight b16 over f32; gradient b16 sum f32 wire f32; moments f32; batch norm b16 over f32 statistics "
     "b16 gives b16; layer norm b16 over f32 gives b16; softmax f32; gelu b16; loss f32; scale off"},
};

TEST(Presets, DoWhatTheProjectsDoThatTheyAreNamedAfter) {
  for (const Project& project : kProjects) {
    EXPECT_EQ(Describe(project.preset), project.does) << project.preset;
  }
}

TEST(Presets, EveryPresetNamedAfterAProjectIsStated) {
  for (const Preset& preset : AllPresets()) {
    const std::string name(preset.name);
    const bool of_a_project = name.starts_with("torch-") || name.starts_with("apex-") || name.starts_with("keras-") ||
                              name.starts_with("deepspeed-") || name.starts_with("megatron-");
    const bool stated = std::any_of(std::begin(kProjects), std::end(kProjects),
                                    [&](const Project& project) { return name == project.preset; });
    EXPECT_EQ(stated, of_a_project) << name;
  }
}

}  // namespace
}  // namespace ampd::precision
