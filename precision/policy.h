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

// Resolves a user's precision policy into a decision for every parameter and op. Pure functions, without LibTorch.
namespace ampd::precision {

// The decision for one parameter. `dtype` is the dtype of the autograd leaf and its gradient.
struct ParameterRow {
  std::string name;
  graph::Dtype dtype = graph::Dtype::kFloat32;
  Masters master = Masters::kNone;  // The master kept beside a leaf that is below fp32.
  // The format to which the gradient's numbers are rounded before they reach the leaf: the leaf's own format, or a
  // narrower one if all ops that read the leaf cast it to that.
  graph::Dtype gradient = graph::Dtype::kFloat32;
};

struct BufferRow {
  std::string name;
  graph::Dtype dtype = graph::Dtype::kFloat32;
};

struct OpDecision {
  graph::OpClass op_class = graph::OpClass::kAsInput;
  graph::Dtype compute = graph::Dtype::kFloat32;  // The format of products; only for ops of class kLower.
  bool emulated = false;
  bool upcast = false;                   // The device computes the product in fp32.
  std::optional<size_t> fp8_layer = {};  // Index into ResolvedPolicy::fp8_layers.
};

struct OpRow {
  std::string op;
  std::string module_path;
  OpDecision decision;
};

struct OpRule {
  std::string match;  // Glob on the op.
  graph::OpClass op_class = graph::OpClass::kFp32;
};

// Whether a module rule makes the module's linear layers compute in FP8.
enum class Fp8Rule { kDefault, kOn, kOff };

struct ModuleRule {
  std::string match;  // Glob on the module path.
  graph::Dtype compute = graph::Dtype::kFloat32;
  bool fp32_parameters = false;
  Fp8Rule fp8 = Fp8Rule::kDefault;
  Fp8Products fp8_products = {};
};

// A policy resolved into a flat table: a row for every parameter, buffer and op. The rules stay in the table too,
// because the evaluation program has nodes that the training program lacks.
struct ResolvedPolicy {
  std::string preset;
  Formats formats;
  OpList op_list = OpList::kAmpd;
  std::vector<graph::Dtype> emulated_dtypes;  // The used formats that the device emulates.
  std::vector<graph::Dtype> upcast_dtypes;    // The used formats whose products the device computes in fp32.
  // The policy's formats whose convolutions are computed in fp32 if images are narrower than the stride, because the
  // device would compute them wrongly (MiscomputesNarrowConv).
  std::vector<graph::Dtype> upcast_narrow_dtypes;
  bool norms_need_one_dtype = false;        // The result of NormsNeedOneDtype for the device.
  bool adaptive_pools_vary = false;         // The result of AdaptivePoolsVary for the device.
  bool fuses_linear_cross_entropy = false;  // The result of FusesLinearCrossEntropy for the device.
  bool fuses_layer_norms = false;           // The result of FusesLayerNorms for the device.
  bool fuses_linears = false;               // The result of FusesLinears for the device.
  // Whether fused layer norms find the amaxes of FP8 layers that have one scale per tensor (graph/norm_amaxes.h).
  bool norms_find_amaxes = false;
  LossScaleConfig loss_scale;
  std::optional<Fp8Recipe> fp8;
  std::vector<Fp8Layer> fp8_layers;
  std::map<std::string, size_t> fp8_layers_by_module;  // Indices into fp8_layers.
  std::vector<OpRule> op_rules;
  std::vector<ModuleRule> module_rules;
  std::vector<ParameterRow> parameters;
  std::vector<BufferRow> buffers;
  std::vector<OpRow> ops;
  std::vector<std::string> warnings;  // Likely mistakes, in a policy that runs; the trainer reports each as an event.

  bool emulated() const { return !emulated_dtypes.empty(); }
};

// Names of all presets, including "auto".
std::vector<std::string> PresetNames();

// Returns a violation for every value that is out of range; the fields' paths begin with "precision.". Empty if the
// message is valid. Call it for a policy that a user gives.
std::vector<FieldViolation> ValidatePolicy(const v1::PrecisionPolicy& policy);

// Like ValidatePolicy, for the policy of a job that was admitted before. Leaves out the limits that apply only to what
// a user gives, because an attempt may exceed them: the number of rules and the length of their globs (the trainer adds
// rules when it raises the precision), and the smallest loss scale (earlier versions had no such limit).
std::vector<FieldViolation> ValidateAdmittedPolicy(const v1::PrecisionPolicy& policy);

// Makes the table for a graph on a device. REQUIRES: if a user gave the policy, ValidatePolicy found nothing. Returns
// INVALID_ARGUMENT with violations, UNIMPLEMENTED naming a field that
// is known but not supported, or the FAILED_PRECONDITION of CheckCapability if the device lacks a format.
absl::StatusOr<ResolvedPolicy> ResolvePolicy(const v1::PrecisionPolicy& policy, const graph::Graph& graph,
                                             const v1::Device& device, OptimizerKind optimizer);

// The first rule that matches a module; null if none does.
const ModuleRule* FindModuleRule(const ResolvedPolicy& policy, const std::string& module_path);

// The policy's decision for one node of the graph. A node that computes in float64 (precision/dtype_givers.h) runs in
// the dtype of its inputs under every policy.
OpDecision DecideOp(const ResolvedPolicy& policy, const graph::Graph& graph, const graph::Node& node);

// Writes the table as text for people. Equal policies give equal texts.
std::string ToText(const ResolvedPolicy& policy);

}  // namespace ampd::precision
