#include "graph/exported/argument_rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/op_table.h"

namespace ampd::graph {
namespace {

// Reads the arguments of an op's call as numbers. An argument that is missing or is no number reads as nothing, and no
// rule applies to it.
class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::string_view op() const { return node_.op; }

  std::optional<double> Number(std::string_view name) const {
    const Operand* const operand = node_.Find(name);
    if (operand == nullptr) {
      return std::nullopt;
    }
    if (const auto* const whole = std::get_if<int64_t>(operand)) {
      return static_cast<double>(*whole);
    }
    const auto* const real = std::get_if<double>(operand);
    return real == nullptr ? std::nullopt : std::optional(*real);
  }

  std::optional<int64_t> Whole(std::string_view name) const {
    const Operand* const operand = node_.Find(name);
    const auto* const whole = operand == nullptr ? nullptr : std::get_if<int64_t>(operand);
    return whole == nullptr ? std::nullopt : std::optional(*whole);
  }

  // The integers of a list argument. A single number is a list of one; a missing argument is an empty list.
  std::vector<int64_t> List(std::string_view name) const {
    const Operand* const operand = node_.Find(name);
    if (operand == nullptr) {
      return {};
    }
    if (const auto* const list = std::get_if<std::vector<int64_t>>(operand)) {
      return *list;
    }
    const auto* const whole = std::get_if<int64_t>(operand);
    return whole == nullptr ? std::vector<int64_t>() : std::vector<int64_t>{*whole};
  }

  bool IsTrue(std::string_view name) const {
    const Operand* const operand = node_.Find(name);
    return operand != nullptr && *operand == Operand(true);
  }

  const Shape* ShapeOf(std::string_view name) const {
    const auto value = node_.ValueOf(name);
    return value.has_value() ? &graph_.type(*value).shape : nullptr;
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

// The message about a number out of range: "its p is 1.5; it takes 0 to 1".
std::string Refusal(std::string_view name, double value, std::string_view taken) {
  return absl::StrCat("its ", std::string(name), " is ", value, "; it takes ", std::string(taken));
}

std::string CheckProbabilities(const Call& call) {
  for (const std::string_view name : {"p", "dropout_p", "dropout", "label_smoothing"}) {
    const auto value = call.Number(name);
    if (value.has_value() && !(*value >= 0 && *value <= 1)) {
      return Refusal(name, *value, "0 to 1");
    }
  }
  return "";
}

// The parameters of a window along one dimension.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  int64_t extent() const { return dilation * (kernel - 1) + 1; }
};

// Entry `i` of a list that has one entry per dimension, or a single entry for all; `missing` if the list is empty.
int64_t At(const std::vector<int64_t>& list, size_t i, int64_t missing) {
  return list.empty() ? missing : list[std::min(i, list.size() - 1)];
}

// Windows with larger sizes are rejected, so that sums of a few sizes can't overflow.
constexpr int64_t kMaxWindowSize = int64_t{1} << 31;

std::string CheckWindow(const Window& window) {
  const std::pair<const char*, int64_t> positive[] = {
      {"kernel size", window.kernel}, {"stride", window.stride}, {"dilation", window.dilation}};
  for (const auto& [name, size] : positive) {
    if (size < 1 || size > kMaxWindowSize) {
      return Refusal(name, static_cast<double>(size), "1 or more");
    }
  }
  return window.padding < 0 || window.padding > kMaxWindowSize
             ? Refusal("padding", static_cast<double>(window.padding), "0 or more")
             : "";
}

// Returns a message if a window is larger than the padded input; otherwise an empty text. `size` is the input's size
// without padding. It is nothing if the size depends on the batch; then nothing is checked.
std::string CheckRoom(const Window& window, std::optional<int64_t> size) {
  return size.has_value() && *size + 2 * window.padding < window.extent()
             ? absl::StrCat("its window of ", window.extent(), " is larger than its input, ", *size,
                            window.padding > 0 ? absl::StrCat(" with a padding of ", window.padding) : "",
                            ": nothing would be left")
             : "";
}

std::optional<int64_t> SizeOf(const Dim& dim) { return dim.is_batch() ? std::nullopt : std::optional(dim.factor()); }

std::string CheckPooling(const Call& call) {
  const Shape* const shape = call.ShapeOf("self");
  const std::vector<int64_t> kernel = call.List("kernel_size");
  if (shape == nullptr || kernel.empty()) {
    return "";
  }
  const std::vector<int64_t> stride = call.List("stride");
  for (size_t i = 0; i < 2 && i + 2 <= shape->size(); ++i) {
    const int64_t size = At(kernel, i, 1);
    const Window window{size, At(stride, i, size), At(call.List("padding"), i, 0), At(call.List("dilation"), i, 1)};
    if (std::string fault = CheckWindow(window); !fault.empty()) {
      return fault;
    }
    if (window.padding > window.extent() / 2) {
      return absl::StrCat("its padding is ", window.padding, "; it takes at most half of its window, ",
                          window.extent() / 2);
    }
    if (std::string fault = CheckRoom(window, SizeOf((*shape)[shape->size() - 2 + i])); !fault.empty()) {
      return fault;
    }
  }
  return call.Whole("divisor_override") == 0 ? Refusal("divisor_override", 0, "any other number") : "";
}

std::string CheckGroups(int64_t groups, const Dim& channels, const char* what) {
  if (groups < 1) {
    return Refusal(what, static_cast<double>(groups), "1 or more");
  }
  return channels.factor() % groups != 0 ? absl::StrCat("its ", what, " is ", groups, ", which does not divide its ",
                                                        channels.factor(), " channels")
                                         : "";
}

std::string CheckConvolution(const Call& call) {
  const Shape* const input = call.ShapeOf("input");
  const Shape* const weight = call.ShapeOf("weight");
  const bool is_transposed = call.op() == "aten.conv_transpose2d.input" || call.IsTrue("transposed");
  if (input == nullptr || weight == nullptr || weight->size() < 3 || input->size() + 1 < weight->size()) {
    return "";
  }
  const size_t num_spatial = weight->size() - 2;
  const size_t first = input->size() - num_spatial;
  if (first > 0) {
    if (std::string fault = CheckGroups(call.Whole("groups").value_or(1), (*input)[first - 1], "groups");
        !fault.empty()) {
      return fault;
    }
  }
  for (size_t i = 0; i < num_spatial; ++i) {
    const Window window{(*weight)[i + 2].factor(), At(call.List("stride"), i, 1), At(call.List("padding"), i, 0),
                        At(call.List("dilation"), i, 1)};
    if (std::string fault = CheckWindow(window); !fault.empty()) {
      return fault;
    }
    if (std::string fault = is_transposed ? "" : CheckRoom(window, SizeOf((*input)[first + i])); !fault.empty()) {
      return fault;
    }
  }
  return "";
}

std::string CheckNorm(const Call& call) {
  // Only torch.nn.functional.batch_norm requires an epsilon above 0; other norms take any number.
  const auto epsilon = call.Number("eps");
  if (call.op() == "aten.batch_norm.default" && epsilon.has_value() && !(*epsilon > 0)) {
    return Refusal("eps", *epsilon, "numbers above 0");
  }
  const Shape* const input = call.ShapeOf("input");
  if (call.op() == "aten.group_norm.default" && input != nullptr && input->size() >= 2) {
    return CheckGroups(call.Whole("num_groups").value_or(1), (*input)[1], "num_groups");
  }
  const std::vector<int64_t> normalized = call.List("normalized_shape");
  const bool fits = input != nullptr && input->size() >= normalized.size() &&
                    std::equal(normalized.rbegin(), normalized.rend(), input->rbegin(),
                               [](int64_t size, const Dim& dim) { return dim == Dim(size); });
  return !normalized.empty() && input != nullptr && !fits
             ? absl::StrCat("its normalized_shape, (", absl::StrJoin(normalized, ", "),
                            "), is not what its input ends with")
             : "";
}

std::string CheckEmbedding(const Call& call) {
  const Shape* const table = call.ShapeOf("weight");
  const auto padding = call.Whole("padding_idx");
  if (table == nullptr || table->empty() || !padding.has_value()) {
    return "";
  }
  const int64_t rows = table->front().factor();
  return *padding < -rows || *padding >= rows
             ? absl::StrCat("its padding_idx is ", *padding, "; its table has ", rows, " rows")
             : "";
}

// Checks that a loss has one weight per class. The classes are the second dimension of the scores, or the first if the
// scores are of a single sample.
std::string CheckClassWeights(const Call& call) {
  const Shape* const scores = call.ShapeOf("self");
  const Shape* const weights = call.ShapeOf("weight");
  if (scores == nullptr || weights == nullptr || scores->empty()) {
    return "";
  }
  const Dim& classes = (*scores)[scores->size() == 1 ? 0 : 1];
  return weights->size() == 1 && weights->front() == classes
             ? ""
             : absl::StrCat("its weight has not one number for each of its ", classes.factor(), " classes");
}

std::string CheckLoss(const Call& call) {
  const auto reduction = call.Whole("reduction");
  if (reduction.has_value() && (*reduction < 0 || *reduction > 2)) {
    return Refusal("reduction", static_cast<double>(*reduction), "0 to 2");
  }
  if (call.op() == "aten.cross_entropy_loss.default" || call.op() == "aten.nll_loss_nd.default") {
    return CheckClassWeights(call);
  }
  if (const auto delta = call.Number("delta"); delta.has_value() && !(*delta > 0)) {
    return Refusal("delta", *delta, "numbers above 0");
  }
  if (const auto beta = call.Number("beta"); beta.has_value() && !(*beta >= 0)) {
    return Refusal("beta", *beta, "numbers from 0 on");
  }
  // If the shapes of prediction and target differed, the ops would silently broadcast one of them.
  const bool is_of_pairs =
      call.op() == "aten.binary_cross_entropy.default" || call.op() == "aten.binary_cross_entropy_with_logits.default";
  const Shape* const predicted = call.ShapeOf("self");
  const Shape* const target = call.ShapeOf("target");
  return is_of_pairs && predicted != nullptr && target != nullptr && *predicted != *target
             ? "its target is of another shape than what is predicted"
             : "";
}

std::string CheckPadding(const Call& call) {
  const Shape* const input = call.ShapeOf("self");
  const std::vector<int64_t> pad = call.List("pad");
  if (input == nullptr || pad.empty()) {
    return "";
  }
  if (pad.size() % 2 != 0 || pad.size() / 2 > input->size()) {
    return absl::StrCat("its pad has ", pad.size(), " numbers for ", input->size(), " dimensions");
  }
  for (size_t i = 0; i < pad.size(); ++i) {
    const auto size = SizeOf((*input)[input->size() - 1 - i / 2]);
    const int64_t other = pad[i % 2 == 0 ? i + 1 : i - 1];
    if (pad[i] < -kMaxWindowSize || pad[i] > kMaxWindowSize ||
        (size.has_value() && pad[i] < 0 && *size + pad[i] + other < 1)) {
      return absl::StrCat("its pad of ", pad[i], " and ", other, " leaves nothing of a size of ", size.value_or(0));
    }
  }
  return "";
}

// Checks the rule of torch.nn.functional: in reflect mode the padding must be smaller than the size, and in circular
// mode it must not be larger.
std::string CheckPaddingMode(const Call& call, std::string_view mode) {
  const Shape* const input = call.ShapeOf("self");
  const std::vector<int64_t> pad = call.List("pad");
  for (size_t i = 0; input != nullptr && i < pad.size() && i / 2 < input->size(); ++i) {
    const auto size = SizeOf((*input)[input->size() - 1 - i / 2]);
    const bool fits = !size.has_value() || (mode == "reflect" ? pad[i] < *size : pad[i] <= *size);
    if ((mode == "reflect" || mode == "circular") && !fits) {
      return absl::StrCat("its pad of ", pad[i], " by ", std::string(mode), " is too much for a size of ", *size);
    }
  }
  return "";
}

std::string ModeOf(const Node& node) {
  const Operand* const mode = node.Find("mode");
  const auto* const name = mode == nullptr ? nullptr : std::get_if<std::string>(mode);
  return name == nullptr ? "constant" : *name;
}

std::string CheckAttention(const Call& call) {
  return call.IsTrue("is_causal") && call.ShapeOf("attn_mask") != nullptr
             ? "it has a mask and is_causal; it takes one of them"
             : "";
}

std::string CheckRange(const Call& call) {
  const auto least = call.Number("min_val");
  const auto most = call.Number("max_val");
  return least.has_value() && most.has_value() && !(*least <= *most)
             ? absl::StrCat("its min_val is ", *least, ", above its max_val, ", *most)
             : "";
}

// Returns the out-of-place form of an in-place op, and any other op unchanged.
std::string_view Plain(std::string_view op) {
  const OpRow* const row = FindOp(op);
  return row == nullptr || row->in_place_of.empty() ? op : row->in_place_of;
}

}  // namespace

std::string FaultOfArguments(const Graph& graph, const Node& node) {
  const Call call(graph, node);
  const std::string_view op = Plain(node.op);
  using Check = std::string (*)(const Call&);
  static constexpr std::pair<std::string_view, Check> kChecks[] = {
      {"aten.avg_pool2d.default", CheckPooling},
      {"aten.batch_norm.default", CheckNorm},
      {"aten.binary_cross_entropy.default", CheckLoss},
      {"aten.binary_cross_entropy_with_logits.default", CheckLoss},
      {"aten.conv2d.default", CheckConvolution},
      {"aten.conv_transpose2d.input", CheckConvolution},
      {"aten.convolution.default", CheckConvolution},
      {"aten.cross_entropy_loss.default", CheckLoss},
      {"aten.embedding.default", CheckEmbedding},
      {"aten.group_norm.default", CheckNorm},
      {"aten.hardtanh.default", CheckRange},
      {"aten.huber_loss.default", CheckLoss},
      {"aten.layer_norm.default", CheckNorm},
      {"aten.max_pool2d.default", CheckPooling},
      {"aten.mse_loss.default", CheckLoss},
      {"aten.nll_loss_nd.default", CheckLoss},
      {"aten.pad.default", CheckPadding},
      {"aten.scaled_dot_product_attention.default", CheckAttention},
      {"aten.smooth_l1_loss.default", CheckLoss},
  };
  const OpRow* const row = FindOp(op);
  const bool has_probability = (row != nullptr && row->random) || op == "aten.cross_entropy_loss.default";
  if (std::string fault = has_probability ? CheckProbabilities(call) : ""; !fault.empty()) {
    return fault;
  }
  for (const auto& [name, check] : kChecks) {
    if (name == op) {
      if (std::string fault = check(call); !fault.empty()) {
        return fault;
      }
    }
  }
  return op == "aten.pad.default" ? CheckPaddingMode(call, ModeOf(node)) : "";
}

}  // namespace ampd::graph
