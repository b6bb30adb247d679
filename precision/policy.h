#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_table.h"
#include "precision/formats.h"
#include "precision/fp8_recipe.h"
#include "precision/loss_scale.h"
#include "precision/preset.h"

namespace ampd::v1 {
class Device;
class PrecisionPolicy;
}  // namespace ampd::v1

// From what a user asks for to what every parameter and op does. Pure; no LibTorch.
namespace ampd::precision {

// `dtype` is what the autograd leaf and its gradient have.
struct ParameterRow {
  std::string name;
  graph::Dtype dtype = graph::Dtype::kFloat32;
  Masters master = Masters::kNone;  // beside a leaf below fp32
  // What the gradient's numbers were rounded to on their way to the leaf: its own format, or the narrower one that all
  // who read it cast it to.
  graph::Dtype gradient = graph::Dtype::kFloat32;
};

struct BufferRow {
  std::string name;
  graph::Dtype dtype = graph::Dtype::kFloat32;
};

struct OpDecision {
  graph::OpClass op_class = graph::OpClass::kAsInput;
  graph::Dtype compute = graph::Dtype::kFloat32;  // of kLower ops
  bool emulated = false;
  bool widened = false;                  // its product is computed in fp32
  std::optional<size_t> fp8_layer = {};  // an index of ResolvedPolicy::fp8_layers
};

struct OpRow {
  std::string op;
  std::string module_path;
  OpDecision decision;
};

struct OpRule {
  std::string match;  // glob on the op
  graph::OpClass op_class = graph::OpClass::kFp32;
};

// Whether a rule's linear layers compute in FP8.
enum class Fp8Rule { kDefault, kOn, kOff };

struct ModuleRule {
  std::string match;  // glob on the module path
  graph::Dtype compute = graph::Dtype::kFloat32;
  bool fp32_parameters = false;
  Fp8Rule fp8 = Fp8Rule::kDefault;
  Fp8Products fp8_products = {};
};

// The flat table. Rules stay in it because the evaluation program has nodes that the training program lacks.
struct ResolvedPolicy {
  std::string preset;
  Formats formats;
  OpList op_list = OpList::kAmpd;
  std::vector<graph::Dtype> emulated_dtypes;  // of those that are used
  std::vector<graph::Dtype> widened_dtypes;   // of those, whose products the device computes in fp32
  // The same of convolutions of images that are narrower than the stride, alone (LosesNarrowImages).
  std::vector<graph::Dtype> widened_narrow_dtypes;
  LossScaleConfig loss_scale;
  std::optional<Fp8Recipe> fp8;
  std::vector<Fp8Layer> fp8_layers;
  std::map<std::string, size_t> fp8_layers_by_module;  // their places in fp8_layers
  std::vector<OpRule> op_rules;
  std::vector<ModuleRule> module_rules;
  std::vector<ParameterRow> parameters;
  std::vector<BufferRow> buffers;
  std::vector<OpRow> ops;
  std::vector<std::string> warnings;  // what runs and is likely not meant; the trainer tells each as an event

  bool emulated() const { return !emulated_dtypes.empty(); }
};

// Names of all presets, "auto" included.
std::vector<std::string> PresetNames();

// Every value out of its range, with paths beginning with "precision."; empty when the message is well formed.
std::vector<FieldViolation> ValidatePolicy(const v1::PrecisionPolicy& policy);

// The table for a graph on a device. INVALID_ARGUMENT with violations, UNIMPLEMENTED naming a field that is known and
// not supported, FAILED_PRECONDITION as CheckCapability.
absl::StatusOr<ResolvedPolicy> ResolvePolicy(const v1::PrecisionPolicy& policy, const graph::Graph& graph,
                                             const v1::Device& device, OptimizerKind optimizer);

// The rule for a module, or null: the first that matches.
const ModuleRule* FindModuleRule(const ResolvedPolicy& policy, const std::string& module_path);

// What the policy does with one node of the graph.
OpDecision DecideOp(const ResolvedPolicy& policy, const graph::Graph& graph, const graph::Node& node);

// The table as people read it; equal for equal policies.
std::string ToText(const ResolvedPolicy& policy);

}  // namespace ampd::precision
