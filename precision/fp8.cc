#include "precision/fp8.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "graph/blocks.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Node;
using v1::PrecisionPolicy;
using Scaling = Fp8Recipe::Scaling;

constexpr std::string_view kLinear = "aten.linear.default";

// The numbers of a layer's input and output features must be multiples of kMultiple, because tensor cores need that.
// With one scale per block they must be multiples of kBlockMultiple, the width of a block.
constexpr int64_t kMultiple = 16;
constexpr int64_t kBlockMultiple = 128;

Scaling ScalingOf(v1::Fp8Recipe::Scaling scaling, Scaling otherwise) {
  switch (scaling) {
    case v1::Fp8Recipe::DELAYED:
      return Scaling::kDelayed;
    case v1::Fp8Recipe::CURRENT:
      return Scaling::kCurrent;
    case v1::Fp8Recipe::BLOCK:
      return Scaling::kBlock;
    default:
      return otherwise;
  }
}

// The recipe of the preset for this scaling: "fp8", "fp8-delayed" or "fp8-block".
const Fp8Recipe& RecipeOf(Scaling scaling) {
  const char* name = scaling == Scaling::kDelayed ? "fp8-delayed" : scaling == Scaling::kBlock ? "fp8-block" : "fp8";
  return *FindPreset(name)->fp8;
}

// A linear layer that could compute in FP8 if its size and its position in the model allow it.
struct Candidate {
  std::string module_path;
  std::string block;
  int64_t out_features = 0;
  int64_t in_features = 0;
  const ModuleRule* rule = nullptr;
};

std::vector<Candidate> Candidates(const graph::Graph& graph, const ResolvedPolicy& resolved) {
  std::vector<Candidate> candidates;
  std::set<std::string> known;
  for (const Node& node : graph.nodes()) {
    const OpDecision decision = DecideOp(resolved, graph, node);
    const bool wide_enough = decision.compute == Dtype::kBFloat16 || decision.compute == Dtype::kFloat32;
    const auto weight = node.ValueOf("weight");
    if (node.op != kLinear || decision.op_class != graph::OpClass::kLower || !wide_enough || !weight.has_value() ||
        node.module_path.empty() || !known.insert(node.module_path).second) {
      continue;
    }
    const graph::Shape& shape = graph.type(*weight).shape;
    const ModuleRule* rule = FindModuleRule(resolved, node.module_path);
    candidates.push_back(
        {node.module_path, graph::BlockOf(node.module_path), shape[0].factor(), shape[1].factor(), rule});
  }
  return candidates;
}

class LayerSelection {
 public:
  // If `by_default`, layers that no rule names are selected too.
  LayerSelection(const graph::Graph& graph, bool by_default, ResolvedPolicy& resolved)
      : by_default_(by_default),
        resolved_(resolved),
        candidates_(Candidates(graph, resolved)),
        multiple_(Fp8Multiple(*resolved.fp8)) {
    std::vector<std::string> blocks;
    for (const Candidate& candidate : candidates_) {
      if (!candidate.block.empty()) {
        blocks.push_back(candidate.block);
      }
    }
    if (!blocks.empty()) {
      outer_blocks_ = {blocks.front(), blocks.back()};
    }
  }

  std::vector<FieldViolation> Run() {
    for (const Candidate& candidate : candidates_) {
      Consider(candidate);
    }
    return std::move(violations_);
  }

 private:
  void Consider(const Candidate& candidate) {
    const Fp8Rule says = candidate.rule == nullptr ? Fp8Rule::kDefault : candidate.rule->fp8;
    const bool fits = candidate.in_features % multiple_ == 0 && candidate.out_features % multiple_ == 0;
    const bool outer =
        candidate.module_path == candidates_.back().module_path || outer_blocks_.contains(candidate.block);
    if (says == Fp8Rule::kOff || (says == Fp8Rule::kDefault && (outer || !by_default_))) {
      return;
    }
    if (!fits) {
      const std::string why = absl::StrCat(candidate.out_features, " x ", candidate.in_features, " features of ",
                                           candidate.module_path, " are not multiples of ", multiple_);
      if (says == Fp8Rule::kOn) {
        violations_.push_back({"precision.module_rules", absl::StrCat(candidate.rule->match, ": the ", why)});
      } else {
        resolved_.warnings.push_back(absl::StrCat("no FP8 there: the ", why));
      }
      return;
    }
    const Fp8Products products = candidate.rule == nullptr ? Fp8Products() : candidate.rule->fp8_products;
    if (products.any()) {
      resolved_.fp8_layers_by_module.emplace(candidate.module_path, resolved_.fp8_layers.size());
      resolved_.fp8_layers.push_back({candidate.module_path, products});
    }
  }

  const bool by_default_;
  ResolvedPolicy& resolved_;
  const std::vector<Candidate> candidates_;
  const int64_t multiple_;
  std::set<std::string> outer_blocks_;
  std::vector<FieldViolation> violations_;
};

// Whether a layer with these numbers of features is too small to gain speed from FP8.
bool IsTooSmallToWin(Scaling scaling, int64_t outputs, int64_t inputs) {
  if (scaling == Scaling::kBlock) {
    return outputs <= 2048 || inputs <= 1024 || (outputs <= 4096 && inputs <= 2048);
  }
  return outputs <= 1024 && inputs <= 4096;
}

}  // namespace

std::string_view ScalingName(Scaling scaling) {
  switch (scaling) {
    case Scaling::kDelayed:
      return "delayed";
    case Scaling::kCurrent:
      return "current";
    case Scaling::kBlock:
      return "block";
  }
  return "unknown";
}

bool UsesFp8(const PrecisionPolicy& policy, const Preset& preset) {
  const auto& rules = policy.module_rules();
  return preset.fp8.has_value() || policy.has_fp8() || std::any_of(rules.begin(), rules.end(), [](const auto& rule) {
           return rule.compute() == PrecisionPolicy::fp8_e4m3;
         });
}

std::optional<Fp8Recipe> ResolveFp8Recipe(const PrecisionPolicy& policy, const Preset& preset) {
  if (!UsesFp8(policy, preset)) {
    return std::nullopt;
  }
  const v1::Fp8Recipe& fields = policy.fp8();
  const Scaling of_preset = preset.fp8.has_value() ? preset.fp8->scaling : Scaling::kCurrent;
  const Scaling scaling = ScalingOf(fields.scaling(), of_preset);
  Fp8Recipe recipe = RecipeOf(scaling);
  recipe.amax_history_length =
      fields.has_amax_history_length() ? fields.amax_history_length() : recipe.amax_history_length;
  recipe.margin = fields.has_margin() ? fields.margin() : recipe.margin;
  recipe.power_of_two_scales =
      fields.has_power_of_two_scales() ? fields.power_of_two_scales() : recipe.power_of_two_scales;
  recipe.amax_epsilon = fields.has_amax_epsilon() ? fields.amax_epsilon() : recipe.amax_epsilon;
  recipe.canary_every_steps = fields.has_canary_every_steps() ? fields.canary_every_steps() : recipe.canary_every_steps;
  recipe.canary_bound = fields.has_canary_bound() ? fields.canary_bound() : recipe.canary_bound;
  return recipe;
}

int64_t Fp8Multiple(const Fp8Recipe& recipe) { return recipe.scaling == Scaling::kBlock ? kBlockMultiple : kMultiple; }

absl::Status SelectFp8Layers(const PrecisionPolicy& policy, const graph::Graph& graph, ResolvedPolicy& resolved) {
  if (!resolved.fp8.has_value()) {
    return absl::OkStatus();
  }
  const bool by_default = policy.has_fp8() || FindPreset(resolved.preset)->fp8.has_value();
  const std::vector<FieldViolation> violations = LayerSelection(graph, by_default, resolved).Run();
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

std::string WhyNoFp8(const ResolvedPolicy& resolved) {
  if (!resolved.fp8.has_value() || !resolved.fp8_layers.empty()) {
    return "";
  }
  const auto& ops = resolved.ops;
  if (std::none_of(ops.begin(), ops.end(), [](const OpRow& row) { return row.op == kLinear; })) {
    return "the model has no linear layer, and others do not compute in FP8";
  }
  return absl::StrCat("no linear layer computes in FP8: products must be in bf16 or fp32 and features multiples of ",
                      Fp8Multiple(*resolved.fp8),
                      "; the last layer and those of the first and the last numbered block take part only when "
                      "precision.module_rules name them");
}

std::string WhyFp8IsSlow(const ResolvedPolicy& resolved, const graph::Graph& graph) {
  std::set<std::string> small;
  std::string first;
  for (const Node& node : graph.nodes()) {
    const auto weight = node.ValueOf("weight");
    if (!weight.has_value() || !DecideOp(resolved, graph, node).fp8_layer.has_value()) {
      continue;
    }
    const graph::Shape& shape = graph.type(*weight).shape;
    const int64_t outputs = shape[0].factor();
    const int64_t inputs = shape[1].factor();
    if (IsTooSmallToWin(resolved.fp8->scaling, outputs, inputs) && small.insert(node.module_path).second &&
        small.size() == 1) {
      first = absl::StrCat(node.module_path, " with its ", outputs, " x ", inputs, " features");
    }
  }
  if (small.empty()) {
    return "";
  }
  return absl::StrCat("FP8 is likely slower than bf16 in ", small.size(), " of ", resolved.fp8_layers.size(),
                      " layers, too small for their products to win back the casts: ", first,
                      small.size() > 1 ? " and others" : "",
                      "; precision.module_rules with compute bf16 leave them out");
}

}  // namespace ampd::precision
