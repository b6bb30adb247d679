#include "worker/amp/activation_sample.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <variant>

#include "ATen/ops/as_strided.h"
#include "graph/fused_batch_norms.h"
#include "graph/norm_amaxes.h"
#include "graph/op_table.h"

namespace ampd::amp {
namespace {

using graph::Node;
using graph::Operand;
using graph::ValueId;
using FaultKind = ActivationFault::Kind;

constexpr int64_t kMaxElements = 65'536;

constexpr std::string_view kCasts[] = {"aten.to.dtype", "aten._to_copy.default"};
// Ops that may produce infinities on purpose: those that fill with a constant, and the logarithm, which is -infinity
// at 0.
constexpr std::string_view kFills[] = {"aten.full.default", "aten.full_like.default", "aten.fill.Tensor",
                                       "aten.masked_fill.Scalar", "aten.log.default"};
// Ops whose overflow in a divisor is harmless: the quotient becomes 0, and the exact quotient is close to 0, too.
constexpr std::string_view kExponentials[] = {"aten.exp.default"};

template <size_t n>
bool IsOneOf(const Node& node, const std::string_view (&ops)[n]) {
  return std::find(std::begin(ops), std::end(ops), node.op) != std::end(ops);
}

// The op whose first two results are the sum of two tensors, and the layer norm of that sum (precision/fused_norms.h).
constexpr std::string_view kAddNorm = "ampd.add_layer_norm";

// An op whose exact result is zero only where one of its factors is zero. `factors` are the names of the arguments that
// are its factors.
struct ProductOp {
  std::string_view op;
  std::string_view factors[2];
};

constexpr ProductOp kProducts[] = {{"aten.mul.Tensor", {"self", "other"}},
                                   {"aten.div.Tensor", {"self", "other"}},
                                   {"aten.linear.default", {"input", "weight"}},
                                   {"aten.conv2d.default", {"input", "weight"}},
                                   {"aten.convolution.default", {"input", "weight"}},
                                   {"aten.conv_transpose2d.input", {"input", "weight"}},
                                   {"aten.matmul.default", {"self", "other"}},
                                   {"aten.mm.default", {"self", "mat2"}},
                                   {"aten.bmm.default", {"self", "mat2"}},
                                   {"aten.addmm.default", {"mat1", "mat2"}},
                                   {"aten.einsum.default", {"tensors", ""}},
                                   {"aten.to.dtype", {"self", ""}},
                                   {"aten._to_copy.default", {"self", ""}}};

std::optional<double> NumberOf(const Operand& operand) {
  if (const auto* const whole = std::get_if<int64_t>(&operand)) {
    return static_cast<double>(*whole);
  }
  const auto* const number = std::get_if<double>(&operand);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

// The value that the node divides by; nothing if it does not divide.
std::optional<ValueId> DivisorOf(const Node& node) {
  if (node.op == "aten.div.Tensor") {
    return node.ValueOf("other");
  }
  const bool is_inverse = node.op == "aten.rsqrt.default" || node.op == "aten.reciprocal.default";
  const Operand* const exponent = node.op == "aten.pow.Tensor_Scalar" ? node.Find("exponent") : nullptr;
  const bool is_negative_power = exponent != nullptr && NumberOf(*exponent).value_or(1) < 0;
  return is_inverse || is_negative_power ? node.ValueOf("self") : std::nullopt;
}

// Copies a sample of a tensor to the CPU in fp32. A tensor with at most kMaxElements elements is copied as a whole.
// From a larger one, the sample takes evenly spaced indices of the first dimension (of the first few dimensions, if
// the first one is too short) and all indices of the other dimensions. The tensor may have any memory layout.
at::Tensor SampleOf(const at::Tensor& tensor) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  std::vector<int64_t> strides = tensor.strides().vec();
  int64_t excess = (tensor.numel() + kMaxElements - 1) / kMaxElements;
  for (size_t i = 0; i < sizes.size() && excess > 1; ++i) {
    const int64_t distance = std::min(sizes[i], excess);
    sizes[i] = (sizes[i] + distance - 1) / distance;
    strides[i] *= distance;
    excess = (excess + distance - 1) / distance;
  }
  return at::as_strided(tensor, sizes, strides, tensor.storage_offset()).to(at::kCPU, at::kFloat).contiguous();
}

std::string DtypeText(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    default:
      return c10::toString(dtype);
  }
}

}  // namespace

std::string_view NameOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNotFinite:
      return "NOT_FINITE";
    case FaultKind::kDividedOut:
      return "DIVIDED_OUT";
    case FaultKind::kVanished:
      return "VANISHED";
  }
  return "";
}

ActivationSampler::ActivationSampler(const graph::Graph& program)
    : program_(program),
      makers_(static_cast<size_t>(program.num_values())),
      facts_(static_cast<size_t>(program.num_values())) {
  for (const Node& node : program.nodes()) {
    for (const ValueId output : node.outputs) {
      makers_[static_cast<size_t>(output.index)] = &node;
    }
  }
}

void ActivationSampler::Observe(ValueId value, const at::Tensor& tensor) {
  Facts& facts = facts_[static_cast<size_t>(value.index)];
  const Node* const node = MakerOf(value);
  const bool is_amax = node != nullptr && graph::AmaxFoundBy(*node) == value;  // The result itself shows its faults.
  const bool is_known = tensor.defined() && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
  if (!is_known || is_amax || tensor.numel() == 0) {
    return;
  }
  const at::NoGradGuard no_grad;
  facts.is_number = true;
  facts.dtype = tensor.scalar_type();
  const at::Tensor sample = SampleOf(tensor.detach());
  facts.num_elements = sample.numel();
  const auto* const numbers = sample.const_data_ptr<float>();
  for (int64_t i = 0; i < facts.num_elements; ++i) {
    facts.num_zero += numbers[i] == 0 ? 1 : 0;
    facts.num_infinite += std::isinf(numbers[i]) ? 1 : 0;
    facts.num_nan += std::isnan(numbers[i]) ? 1 : 0;
  }
  facts.is_meant = facts.num_infinite > 0 && IsMeant(value);
  if (node == nullptr || first_.has_value()) {
    return;
  }
  if (IsDividedOut(*node, facts)) {
    first_ = FaultAt(FaultKind::kDividedOut, OriginOf(*DivisorOf(*node)));
    first_->zero_module = node->module_path;
    first_->zero_op = graph::ComputedBy(node->op);
  } else if (Vanishes(*node, facts, tensor.detach())) {
    first_ = FaultAt(FaultKind::kVanished, value);
  }
}

// Whether the value's infinities are intended rather than caused by an overflow.
bool ActivationSampler::IsMeant(ValueId value) const {
  const Node* const node = MakerOf(value);
  if (node == nullptr) {
    const auto& buffers = program_.buffers();
    return std::any_of(buffers.begin(), buffers.end(),
                       [value](const graph::State& buffer) { return buffer.value == value; });
  }
  bool reads_infinities = false;
  for (const ValueId use : node->Uses()) {
    reads_infinities = reads_infinities || FactsOf(use).num_infinite > 0;
    if (FactsOf(use).has_fault()) {
      return false;
    }
  }
  return reads_infinities || IsOneOf(*node, kFills);
}

bool ActivationSampler::IsDividedOut(const Node& node, const Facts& result) const {
  const auto divisor = DivisorOf(node);
  if (!divisor.has_value() || result.num_zero == 0) {
    return false;
  }
  const Facts& facts = FactsOf(*divisor);
  if (facts.num_infinite == 0 || facts.is_meant) {
    return false;
  }
  const Node* const origin = MakerOf(OriginOf(*divisor));
  return origin == nullptr || !IsOneOf(*origin, kExponentials);
}

bool ActivationSampler::Vanishes(const Node& node, const Facts& result, const at::Tensor& tensor) const {
  const auto* const product = std::find_if(std::begin(kProducts), std::end(kProducts),
                                           [&](const ProductOp& one) { return one.op == graph::ComputedBy(node.op); });
  if (product == std::end(kProducts) || result.num_zero < result.num_elements) {
    return false;
  }
  const bool all_are_dense =
      std::all_of(std::begin(product->factors), std::end(product->factors), [&](std::string_view factor) {
        const Operand* const operand = factor.empty() ? nullptr : node.Find(factor);
        return operand == nullptr || IsDense(*operand);
      });
  if (!all_are_dense) {
    return false;
  }
  return !tensor.any().item<bool>();  // The elements that were not sampled must be zero too.
}

// Whether all sampled numbers of the factor are finite, and at most half of them are zero. If this is true for all
// factors of a product, but the product is zero everywhere, Vanishes reports an underflow. This is a heuristic: such a
// product can be zero without an underflow, if zeros of one factor meet all nonzero numbers of another. That is rare.
bool ActivationSampler::IsDense(const Operand& factor) const {
  if (const auto* const list = std::get_if<std::vector<std::optional<ValueId>>>(&factor)) {
    return std::all_of(list->begin(), list->end(),
                       [this](const auto& value) { return !value.has_value() || IsDense(Operand(*value)); });
  }
  if (const auto* const value = std::get_if<ValueId>(&factor)) {
    const Facts& facts = FactsOf(*value);
    return facts.is_number && 2 * facts.num_zero <= facts.num_elements && facts.num_infinite + facts.num_nan == 0;
  }
  return NumberOf(factor).value_or(1) != 0;
}

// Follows non-finite numbers back to the value where they began.
ValueId ActivationSampler::OriginOf(ValueId value) const {
  for (const Node* node = MakerOf(value); node != nullptr; node = MakerOf(value)) {
    const std::vector<ValueId> uses = node->Uses();
    // NaN inputs come first: an infinite input may be an intended mask.
    auto bad = std::find_if(uses.begin(), uses.end(), [this](ValueId use) { return FactsOf(use).num_nan > 0; });
    if (bad == uses.end()) {
      bad = std::find_if(uses.begin(), uses.end(), [this](ValueId use) { return FactsOf(use).has_fault(); });
    }
    if (bad == uses.end()) {
      break;
    }
    value = *bad;
  }
  // Two fused ops have two results. kAddNorm returns a sum and its norm; if the sum has non-finite numbers, the fault
  // began in the sum. kFusedBatchNorm returns the same numbers twice, and only its first result has the name that the
  // value has in the model. So in both cases the first result is the origin.
  const Node* const node = MakerOf(value);
  const bool has_two = node != nullptr && (node->op == kAddNorm || node->op == graph::kFusedBatchNorm);
  return has_two && FactsOf(node->outputs[0]).has_fault() ? node->outputs[0] : value;
}

ActivationFault ActivationSampler::FaultAt(FaultKind kind, ValueId value) const {
  const Facts& facts = FactsOf(value);
  const Node* node = MakerOf(value);
  // If the policy inserted a cast after an op, the fault is attributed to that op and not to the cast.
  while (node != nullptr && IsOneOf(*node, kCasts) && node->ValueOf("self").has_value() &&
         MakerOf(*node->ValueOf("self")) != nullptr) {
    value = *node->ValueOf("self");
    node = MakerOf(value);
  }
  ActivationFault fault;
  fault.kind = kind;
  fault.value = program_.value(value).name;
  fault.dtype = DtypeText(facts.dtype);
  fault.share = kind == FaultKind::kVanished ? 1 : facts.ShareNotFinite();
  if (node != nullptr) {
    fault.module = node->module_path;
    fault.op = node->op == kAddNorm && value == node->outputs[0] ? "aten.add.Tensor" : graph::ComputedBy(node->op);
    return fault;
  }
  const auto is_value = [value](const graph::State& state) { return state.value == value; };
  const auto is_among = [&](const auto& states) { return std::any_of(states.begin(), states.end(), is_value); };
  fault.op = is_among(program_.parameters()) ? "parameter" : is_among(program_.buffers()) ? "buffer" : "input";
  return fault;
}

std::optional<ActivationFault> ActivationSampler::Fault() const {
  for (const graph::Output& output : program_.outputs()) {
    const Facts& facts = FactsOf(output.value);
    if (facts.num_nan + facts.num_infinite > 0) {
      return FaultAt(FaultKind::kNotFinite, OriginOf(output.value));
    }
  }
  return first_;
}

}  // namespace ampd::amp
