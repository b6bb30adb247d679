#include "precision/policy.h"

#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "precision/bare_parameters.h"
#include "precision/capability.h"
#include "precision/dtype_givers.h"
#include "precision/fp8.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::OpClass;
using v1::PrecisionPolicy;

bool Contains(const std::vector<Dtype>& dtypes, Dtype dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

OpClass ClassOf(v1::OpRule::Class rule) {
  switch (rule) {
    case v1::OpRule::lower:
      return OpClass::kLower;
    case v1::OpRule::promote:
      return OpClass::kPromote;
    case v1::OpRule::banned:
      return OpClass::kBanned;
    case v1::OpRule::as_input:
      return OpClass::kAsInput;
    default:
      return OpClass::kFp32;
  }
}

absl::StatusOr<ModuleRule> TakeModuleRule(const v1::ModuleRule& rule, const std::string& path, Dtype compute) {
  const Fp8Products products = {!rule.exclude_forward(), !rule.exclude_input_gradient(),
                                !rule.exclude_weight_gradient()};
  const bool names_compute = rule.compute() != PrecisionPolicy::DTYPE_UNSPECIFIED;
  if (!names_compute && rule.parameter() == PrecisionPolicy::DTYPE_UNSPECIFIED && products == Fp8Products()) {
    return InvalidFields({{path + "compute", "must be set, or `parameter`, or a product to exclude from FP8"}});
  }
  const std::optional<Dtype> wanted = StorageDtype(rule.compute());
  const Dtype dtype = wanted.value_or(compute);
  if (const auto stored = StorageDtype(rule.parameter());
      stored.has_value() && *stored != Dtype::kFloat32 && *stored != dtype) {
    return InvalidFields({{path + "parameter", absl::StrCat("is ", PrecisionPolicy::Dtype_Name(rule.parameter()),
                                                            "; it must be fp32 or what the module computes in")}});
  }
  const Fp8Rule fp8 = !names_compute ? Fp8Rule::kDefault : wanted.has_value() ? Fp8Rule::kOff : Fp8Rule::kOn;
  return ModuleRule{rule.match(), dtype, StorageDtype(rule.parameter()) == Dtype::kFloat32, fp8, products};
}

absl::Status TakeRules(const PrecisionPolicy& policy, ResolvedPolicy& resolved) {
  for (const auto& rule : policy.op_rules()) {
    resolved.op_rules.push_back({rule.match(), ClassOf(rule.policy())});
  }
  for (int i = 0; i < policy.module_rules_size(); ++i) {
    const std::string path = absl::StrCat("precision.module_rules[", i, "].");
    AMPD_ASSIGN_OR_RETURN(ModuleRule rule, TakeModuleRule(policy.module_rules(i), path, resolved.formats.compute));
    resolved.module_rules.push_back(std::move(rule));
  }
  return absl::OkStatus();
}

// How a node that reads a parameter or buffer treats it.
struct Reader {
  OpDecision decision;
  const ModuleRule* rule = nullptr;
  bool batch_norm = false;
  bool casts = false;  // Whether the node casts the value to its compute dtype.
};

// Whether a node casts a value that it reads to its compute dtype. Norms read their weights without a cast.
bool IsCast(const graph::Node& node, const OpDecision& decision, graph::ValueId value) {
  const graph::OpRow* row = graph::FindOp(node.op);
  return decision.op_class == OpClass::kLower &&
         (row == nullptr || std::none_of(row->fp32_arguments.begin(), row->fp32_arguments.end(),
                                         [&](std::string_view name) { return node.ValueOf(name) == value; }));
}

// The storage dtype that module rules give a parameter. It is the rules' dtype if they agree, and fp32 if they differ.
// Nothing if a node that reads the parameter matches no rule.
std::optional<Dtype> StoredByRules(const std::vector<Reader>& readers) {
  std::optional<Dtype> stored;
  for (const Reader& reader : readers) {
    if (reader.rule == nullptr) {
      return std::nullopt;
    }
    const Dtype dtype = reader.rule->fp32_parameters ? Dtype::kFloat32 : reader.rule->compute;
    if (stored.value_or(dtype) != dtype) {
      return Dtype::kFloat32;
    }
    stored = dtype;
  }
  return stored;
}

Dtype StoredDtype(const Formats& formats, const std::vector<Reader>& readers) {
  if (formats.parameter == Dtype::kFloat32) {
    return Dtype::kFloat32;
  }
  const bool any_batch_norm =
      std::any_of(readers.begin(), readers.end(), [](const Reader& reader) { return reader.batch_norm; });
  if (formats.whole_model) {
    return any_batch_norm && formats.fp32_batch_norm ? Dtype::kFloat32
                                                     : StoredByRules(readers).value_or(formats.parameter);
  }
  const bool any_fp32 = std::any_of(readers.begin(), readers.end(), [&](const Reader& reader) {
    return reader.decision.op_class != OpClass::kLower || reader.decision.compute != readers[0].decision.compute ||
           (reader.rule != nullptr && reader.rule->fp32_parameters);
  });
  return readers.empty() || any_fp32 ? Dtype::kFloat32 : readers[0].decision.compute;
}

Dtype GradientDtype(Dtype stored, const std::vector<Reader>& readers) {
  const bool all_cast_alike = std::all_of(readers.begin(), readers.end(), [&](const Reader& reader) {
    return reader.casts && reader.decision.compute == readers[0].decision.compute;
  });
  return stored != Dtype::kFloat32 || readers.empty() || !all_cast_alike ? stored : readers[0].decision.compute;
}

Masters MasterOf(const Formats& formats, Dtype stored) {
  if (stored == Dtype::kFloat32) {
    return Masters::kNone;
  }
  return formats.master == Masters::kRemainder16 && stored != Dtype::kBFloat16 ? Masters::kFloat32 : formats.master;
}

// For a view: the value whose elements it returns in another shape or order. For any other node, also a cast: nothing.
std::optional<graph::ValueId> ShownBy(const graph::Node& node) {
  const graph::OpRow* row = graph::FindOp(node.op);
  return row == nullptr || !row->passes_gradient || node.op == "aten.to.dtype" ? std::nullopt
                                                                               : node.ValueOf(row->views);
}

// The nodes that read each parameter or buffer. A node that reads a view of a parameter, such as a transposed weight,
// counts too.
std::map<graph::ValueId, std::vector<Reader>> FindReaders(const graph::Graph& graph, const ResolvedPolicy& resolved) {
  std::map<graph::ValueId, std::vector<Reader>> readers;
  std::map<graph::ValueId, graph::ValueId> shown;  // Maps each view to its parameter or buffer.
  for (const auto* states : {&graph.parameters(), &graph.buffers()}) {
    for (const graph::State& state : *states) {
      shown[state.value] = state.value;
    }
  }
  for (const graph::Node& node : graph.nodes()) {
    if (const auto view = ShownBy(node); view.has_value() && shown.contains(*view)) {
      shown[node.outputs[0]] = shown[*view];
      continue;
    }
    Reader reader = {DecideOp(resolved, graph, node), FindModuleRule(resolved, node.module_path),
                     node.op == "aten.batch_norm.default"};
    for (graph::ValueId use : node.Uses()) {
      if (const auto state = shown.find(use); state != shown.end()) {
        reader.casts = IsCast(node, reader.decision, use);
        readers[state->second].push_back(reader);
      }
    }
  }
  return readers;
}

void FillTable(const graph::Graph& graph, ResolvedPolicy& resolved) {
  for (const graph::Node& node : graph.nodes()) {
    resolved.ops.push_back({node.op, node.module_path, DecideOp(resolved, graph, node)});
  }
  std::map<graph::ValueId, std::vector<Reader>> readers = FindReaders(graph, resolved);
  for (const graph::State& parameter : graph.parameters()) {
    const Dtype stored = StoredDtype(resolved.formats, readers[parameter.value]);
    resolved.parameters.push_back(
        {parameter.name, stored, MasterOf(resolved.formats, stored), GradientDtype(stored, readers[parameter.value])});
  }
  for (const graph::State& buffer : graph.buffers()) {
    const Dtype dtype = graph.type(buffer.value).dtype;
    const bool cast = resolved.formats.whole_model && graph::IsFloatingPoint(dtype) && dtype != Dtype::kFloat64;
    resolved.buffers.push_back({buffer.name, cast ? StoredDtype(resolved.formats, readers[buffer.value]) : dtype});
  }
}

std::optional<size_t> FindFp8Layer(const ResolvedPolicy& policy, const std::string& module_path) {
  const auto layer = policy.fp8_layers_by_module.find(module_path);
  return layer == policy.fp8_layers_by_module.end() ? std::nullopt : std::optional(layer->second);
}

// Whether torch.autocast on a CPU keeps this call in fp32, although it does not keep every call of the op in fp32. This
// holds for a pad with the image's own values: replicate, and reflect of up to two dimensions (reflect of three is not
// in PyTorch 2.11's list).
bool IsFp32Form(OpList list, const graph::Node& node) {
  const graph::Operand* const mode = node.Find("mode");
  const auto* const text = mode == nullptr ? nullptr : std::get_if<std::string>(mode);
  const graph::Operand* const pad = node.Find("pad");
  const auto* const sides = pad == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(pad);
  if (list != OpList::kTorchCpu || node.op != "aten.pad.default" || text == nullptr || sides == nullptr) {
    return false;
  }
  return *text == "replicate" || (*text == "reflect" && sides->size() <= 4);
}

// Whether the node is a convolution of images (B, C, H, W) with fewer columns than its stride.
bool IsNarrowerThanStride(const graph::Graph& graph, const graph::Node& node) {
  const graph::Operand* const stride = node.Find("stride");
  const auto* const strides = stride == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(stride);
  if (node.op != "aten.conv2d.default" || strides == nullptr || strides->empty()) {
    return false;
  }
  const graph::Dim columns = graph.type(*node.ValueOf("input")).shape.back();
  return !columns.is_batch() && columns.factor() < strides->back();
}

// Adds warnings about formats that are not faster than a wider format on this device.
void WarnOfSlowness(const graph::Graph& graph, const v1::Device& device, ResolvedPolicy& resolved) {
  for (const Dtype dtype : resolved.emulated_dtypes) {
    const bool blocks = device.kind() == v1::Device::GPU;  // A GPU emulates only FP8 in blocks.
    const char* instead = blocks ? "preset fp8" : IsEmulated(Dtype::kBFloat16, device) ? "fp32" : "bf16";
    resolved.warnings.push_back(
        absl::StrCat(blocks ? "block-scaled " : "", std::string(graph::DtypeName(dtype)), " is emulated on ",
                     device.id(), ": its numerics are true, but it saves no time there; for speed use ", instead));
  }
  for (const Dtype dtype : resolved.upcast_dtypes) {
    if (!IsEmulated(dtype, device)) {
      resolved.warnings.push_back(absl::StrCat(
          std::string(graph::DtypeName(dtype)), " saves memory and no time on ", device.id(),
          ", whose own products of it are slower than those of fp32: they are computed in fp32 and rounded"));
    }
  }
  if (std::string why = WhyFp8IsSlow(resolved, graph); !resolved.emulated() && !why.empty()) {
    resolved.warnings.push_back(std::move(why));
  }
}

// Adds warnings about settings that run but are clearly useless or harmful.
void Warn(const PrecisionPolicy& policy, const graph::Graph& graph, ResolvedPolicy& resolved) {
  const Formats& formats = resolved.formats;
  if (const std::string_view caveat = FindPreset(resolved.preset)->caveat; !caveat.empty()) {
    resolved.warnings.emplace_back(caveat);
  } else {
    for (const Dtype dtype : BareDtypes(resolved)) {
      resolved.warnings.push_back(
          absl::StrCat("precision.master is none: updates below half a unit in the last place of ",
                       std::string(graph::DtypeName(dtype)), " are lost"));
    }
  }
  if (std::string why = WhyNoFp8(resolved); !why.empty() && !graph.nodes().empty()) {
    resolved.warnings.push_back(std::move(why));
  }
  const bool has_fp16 = formats.compute == Dtype::kFloat16 ||
                        std::any_of(resolved.module_rules.begin(), resolved.module_rules.end(),
                                    [](const ModuleRule& rule) { return rule.compute == Dtype::kFloat16; });
  if (has_fp16 && resolved.loss_scale.kind == LossScaleConfig::Kind::kOff) {
    resolved.warnings.push_back("precision.loss_scale is off: gradients below 6e-8 become 0 in fp16");
  }
  if (formats.accumulation != Dtype::kFloat32 && policy.accumulation() != PrecisionPolicy::DTYPE_UNSPECIFIED) {
    resolved.warnings.push_back(absl::StrCat("precision.accumulation is ",
                                             PrecisionPolicy::Dtype_Name(policy.accumulation()),
                                             ": small gradients vanish in the sum over micro-batches"));
  }
  const auto& nodes = graph.nodes();
  for (const ModuleRule& rule : resolved.module_rules) {
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](const graph::Node& node) { return GlobMatches(rule.match, node.module_path); })) {
      resolved.warnings.push_back(absl::StrCat("precision.module_rules: \"", rule.match, "\" matches no module"));
    }
  }
  for (const OpRule& rule : resolved.op_rules) {
    if (std::none_of(nodes.begin(), nodes.end(), [&](const graph::Node& node) {
          return GlobMatches(rule.match, node.op) || GlobMatches(rule.match, node.part_of);
        })) {
      resolved.warnings.push_back(absl::StrCat("precision.op_rules: \"", rule.match, "\" matches no op"));
    }
  }
}

// The formats, except FP8, in which the policy computes products and for which `is` returns true; each once.
std::vector<Dtype> ProductDtypes(const ResolvedPolicy& policy, const std::function<bool(Dtype)>& is) {
  std::vector<Dtype> dtypes;
  const auto take = [&](Dtype dtype) {
    if (is(dtype) && !Contains(dtypes, dtype)) {
      dtypes.push_back(dtype);
    }
  };
  take(policy.formats.compute);
  for (const ModuleRule& rule : policy.module_rules) {
    take(rule.compute);
  }
  return dtypes;
}

std::vector<Dtype> EmulatedDtypes(const ResolvedPolicy& policy, const v1::Device& device) {
  std::vector<Dtype> emulated = ProductDtypes(policy, [&](Dtype dtype) { return IsEmulated(dtype, device); });
  if (!policy.fp8_layers.empty() && IsEmulated(*policy.fp8, device)) {
    emulated.push_back(policy.fp8->forward);
  }
  return emulated;
}

// The preset's op list on this device. torch.autocast has one list for CUDA and another for CPUs.
OpList OpListOn(const Preset& preset, const v1::Device& device) {
  return preset.ops == OpList::kTorchCuda && device.kind() != v1::Device::GPU ? OpList::kTorchCpu : preset.ops;
}

}  // namespace

absl::StatusOr<ResolvedPolicy> ResolvePolicy(const PrecisionPolicy& policy, const graph::Graph& graph,
                                             const v1::Device& device, OptimizerKind optimizer) {
  if (const auto violations = ValidateAdmittedPolicy(policy); !violations.empty()) {
    return InvalidFields(violations);
  }
  CapabilityGap gap;
  const auto choice = ChoosePreset(policy, device, &gap);
  const std::string name = choice.has_value() ? choice->preset : CandidatePresets(policy).front();
  AMPD_RETURN_IF_ERROR(CheckCapability(WithPreset(policy, name), device));
  const Preset& preset = *FindPreset(name);
  ResolvedPolicy resolved;
  resolved.preset = name;
  resolved.op_list = OpListOn(preset, device);
  AMPD_ASSIGN_OR_RETURN(resolved.formats, ResolveFormats(policy, preset, optimizer));
  resolved.loss_scale = ResolveLossScale(policy, preset);
  AMPD_RETURN_IF_ERROR(TakeRules(policy, resolved));
  resolved.fp8 = ResolveFp8Recipe(policy, preset);
  AMPD_RETURN_IF_ERROR(SelectFp8Layers(policy, graph, resolved));
  resolved.emulated_dtypes = EmulatedDtypes(resolved, device);
  resolved.upcast_dtypes = ProductDtypes(resolved, [&](Dtype dtype) { return WidensProducts(dtype, device); });
  resolved.upcast_narrow_dtypes =
      ProductDtypes(resolved, [&](Dtype dtype) { return MiscomputesNarrowConv(dtype, device); });
  resolved.norms_need_one_dtype = NormsNeedOneDtype(device);
  resolved.adaptive_pools_vary = AdaptivePoolsVary(device);
  resolved.fuses_linear_cross_entropy = FusesLinearCrossEntropy(device);
  resolved.fuses_layer_norms = FusesLayerNorms(device);
  resolved.fuses_linears = FusesLinears(device);
  resolved.norms_find_amaxes =
      resolved.fuses_layer_norms && resolved.fp8.has_value() && resolved.fp8->scaling != Fp8Recipe::Scaling::kBlock;
  FillTable(graph, resolved);
  AMPD_RETURN_IF_ERROR(RefuseBareFp16(policy, optimizer, resolved));
  Warn(policy, graph, resolved);
  WarnOfSlowness(graph, device, resolved);
  return resolved;
}

const ModuleRule* FindModuleRule(const ResolvedPolicy& policy, const std::string& module_path) {
  const auto it = std::find_if(policy.module_rules.begin(), policy.module_rules.end(),
                               [&](const ModuleRule& rule) { return GlobMatches(rule.match, module_path); });
  return it == policy.module_rules.end() ? nullptr : &*it;
}

OpDecision DecideOp(const ResolvedPolicy& policy, const graph::Graph& graph, const graph::Node& node) {
  const graph::OpRow* row = graph::FindOp(node.op);
  const graph::OpRow* const whole = graph::FindOp(node.part_of);
  const graph::OpRow* const listed = whole != nullptr && ListsWhole(policy.op_list, *whole) ? whole : row;
  const auto type_of = [&graph](graph::ValueId value) -> const graph::TensorType& { return graph.type(value); };
  if (ComputesInFloat64(node, type_of)) {
    return {.op_class = OpClass::kAsInput, .compute = policy.formats.compute};
  }
  const bool is_fp32 = listed == nullptr || node.keeps_fp32 || IsFp32Form(policy.op_list, node);
  OpDecision decision{.op_class = is_fp32 ? OpClass::kFp32 : ClassIn(policy.op_list, *listed),
                      .compute = policy.formats.compute};
  for (const OpRule& rule : policy.op_rules) {
    if (GlobMatches(rule.match, node.op) || (whole != nullptr && GlobMatches(rule.match, node.part_of))) {
      decision.op_class = rule.op_class;
      break;
    }
  }
  if (const ModuleRule* rule = FindModuleRule(policy, node.module_path); rule != nullptr) {
    decision.compute = rule->compute;
  }
  const bool is_product = row != nullptr && row->op_class == OpClass::kLower;
  if (is_product && decision.op_class == OpClass::kLower) {
    decision.fp8_layer = node.op == "aten.linear.default" ? FindFp8Layer(policy, node.module_path) : std::nullopt;
    const Dtype dtype = decision.fp8_layer.has_value() ? policy.fp8->forward : decision.compute;
    decision.emulated = Contains(policy.emulated_dtypes, dtype);
    decision.upcast = Contains(policy.upcast_dtypes, dtype) ||
                      (Contains(policy.upcast_narrow_dtypes, dtype) && IsNarrowerThanStride(graph, node));
  }
  return decision;
}

}  // namespace ampd::precision
