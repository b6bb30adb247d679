#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"
#include "graph/graph.h"
#include "graph/op_table.h"

namespace ampd::v1 {
class Device;
class PrecisionPolicy;
}  // namespace ampd::v1

// From what a user asks for to what every parameter and op does. Pure; no LibTorch.
namespace ampd::precision {

// Loss scaling with every default filled in. `floor` 0: none.
struct LossScaleConfig {
  enum class Kind { kOff, kStatic, kDynamic };
  enum class AtFloor { kClamp, kFail };
  Kind kind = Kind::kOff;
  double initial = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int growth_interval = 2000;
  double floor = 0;
  double cap = std::numeric_limits<float>::max();
  int hysteresis = 1;
  bool refill_on_every_good_step = false;
  AtFloor at_floor = AtFloor::kClamp;
};

// `dtype` is what the autograd leaf and its gradient have. With a master, the optimizer updates a fp32 copy.
struct ParameterRow {
  std::string name;
  graph::Dtype dtype = graph::Dtype::kFloat32;
  bool master = false;
};

struct OpDecision {
  graph::OpClass op_class = graph::OpClass::kAsInput;
  graph::Dtype compute = graph::Dtype::kFloat32;  // of kLower ops
  bool emulated = false;
};

struct OpRow {
  std::string op;
  std::string module_path;
  OpDecision decision;
};

// The flat table. Rules stay in it because the evaluation program has nodes that the training program lacks.
struct ResolvedPolicy {
  std::string preset;
  graph::Dtype compute = graph::Dtype::kFloat32;
  bool tf32_matmul = false;
  bool emulated = false;
  LossScaleConfig loss_scale;
  std::vector<std::pair<std::string, graph::OpClass>> op_rules;    // glob on the op
  std::vector<std::pair<std::string, graph::Dtype>> module_rules;  // glob on the module path
  std::vector<ParameterRow> parameters;
  std::vector<OpRow> ops;
  std::vector<std::string> warnings;  // what runs and is likely not meant; the trainer tells each as an event
};

// What the optimizer does to the policy's feasibility: AdamW's small updates vanish in bf16 parameters.
enum class OptimizerKind { kSgd, kAdam };

// Names of presets that run.
std::vector<std::string> Presets();

// Every value out of its range, with paths beginning with "precision."; empty when the message is well formed.
std::vector<FieldViolation> ValidatePolicy(const v1::PrecisionPolicy& policy);

// The preset that names the policy: `preset`, the first of `prefer`, or fp32.
std::string PresetOf(const v1::PrecisionPolicy& policy);

// What a device lacks for a preset: compute capabilities times ten, 0 for a CPU.
struct CapabilityGap {
  int needed = 0;
  int available = 0;
  std::string message;
};
// Nothing when the device computes in the preset's formats. A CPU does in all but tf32, some emulated. The one place
// that knows: placement, admission and the trainer ask here.
std::optional<CapabilityGap> FindCapabilityGap(std::string_view preset_name, const v1::Device& device);

// The gap as FAILED_PRECONDITION (reason CAPABILITY_TOO_LOW); UNIMPLEMENTED for a preset that does not run.
absl::Status CheckCapability(std::string_view preset_name, const v1::Device& device);

// Whether the numerics of a preset are emulated on the device: true and slow.
bool IsEmulated(std::string_view preset_name, const v1::Device& device);

// The table for a graph on a device. INVALID_ARGUMENT with violations, UNIMPLEMENTED naming a field that is known and
// not supported, FAILED_PRECONDITION as CheckCapability.
absl::StatusOr<ResolvedPolicy> ResolvePolicy(const v1::PrecisionPolicy& policy, const graph::Graph& graph,
                                             const v1::Device& device, OptimizerKind optimizer);

// What the policy does with one node.
OpDecision DecideOp(const ResolvedPolicy& policy, const graph::Node& node);

// The table as people read it; equal for equal policies.
std::string ToText(const ResolvedPolicy& policy);

}  // namespace ampd::precision
