// The pass that replaces in-place writes.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/aliases.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

// The scatter op that writes a new part into the tensor of which `view` returns a part. Empty if there is no such op
// for the view.
std::string_view ScatterOf(const Node& view) {
  return view.op == "aten.slice.Tensor" ? "aten.slice_scatter.default"
         : view.op == "aten.select.int" ? "aten.select_scatter.default"
                                        : "";
}

// Replaces the writes one by one. A write to a part of a tensor
//
//   %part = slice(%whole, ...)              %part = slice(%whole, ...)
//   fill_(%part, 1)                becomes  %filled = fill(%part, 1)
//   read(%whole)                            %scattered = slice_scatter(%whole, %filled, ...)
//                                           read(%scattered)
//
// A write to a view of a view becomes one scatter op per view. The result of a write under torch.no_grad() is detached.
// It is an error if the written memory is read after the write through another value, which the pass can't replace.
class InPlacePass {
 public:
  explicit InPlacePass(const Graph& graph)
      : graph_(graph),
        aliases_(graph),
        rewriter_(graph),
        wholes_(static_cast<size_t>(graph.num_values())),
        is_state_(StatesOf(graph)),
        is_made_(static_cast<size_t>(graph.num_values())),
        last_reads_(static_cast<size_t>(graph.num_values()), kNone) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      for (const ValueId output : graph.nodes()[i].outputs) {
        is_made_[Index(output)] = true;
        wholes_[Index(output)] = WholeOf(graph.nodes()[i]);
      }
      for (const ValueId use : graph.nodes()[i].Uses()) {
        last_reads_[Index(use)] = static_cast<int>(i);
      }
    }
    for (const Output& output : graph.outputs()) {
      last_reads_[Index(output.value)] = std::numeric_limits<int>::max();
    }
    FindTrained();
  }

  absl::StatusOr<Graph> Run() && {
    for (int value = 0; value < graph_.num_values(); ++value) {
      if (!is_made_[static_cast<size_t>(value)]) {
        shown_[aliases_.Of({value})].push_back({value});
      }
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (const auto written = WrittenBy(node); written.has_value()) {
        AMPD_RETURN_IF_ERROR(Replace(i, *written));
      } else {
        rewriter_.Keep(node);
      }
      for (const ValueId output : node.outputs) {
        shown_[aliases_.Of(output)].push_back(output);
      }
    }
    return std::move(rewriter_).Finish();
  }

 private:
  static constexpr int kNone = -1;

  // For a value that is a part of another value: that other value, and the view op that selects the part. If `view` is
  // null, the two values are the same memory.
  struct Whole {
    ValueId value;
    const Node* view = nullptr;
  };

  // Marks parameters and the values computed from them.
  void FindTrained() {
    is_trained_.resize(static_cast<size_t>(graph_.num_values()));
    std::map<int, std::vector<ValueId>> sharing;  // Maps each owner of memory to the values that use this memory.
    for (int value = 0; value < graph_.num_values(); ++value) {
      sharing[aliases_.Of({value})].push_back({value});
    }
    for (const State& parameter : graph_.parameters()) {
      is_trained_[Index(parameter.value)] = true;
    }
    for (const Node& node : graph_.nodes()) {
      const OpRow* const row = FindOp(node.op);
      const std::vector<ValueId> uses = node.Uses();
      const bool is_trained = !node.without_gradient && (row == nullptr || !row->no_gradient) &&
                              std::any_of(uses.begin(), uses.end(), [this](ValueId use) { return IsTrained(use); });
      for (const ValueId output : node.outputs) {
        is_trained_[Index(output)] = is_trained;
      }
      if (const auto written = WrittenBy(node); is_trained && written.has_value()) {
        for (const ValueId value : sharing[aliases_.Of(*written)]) {
          is_trained_[Index(value)] = true;
        }
      }
    }
  }

  bool IsTrained(ValueId value) const { return is_trained_[Index(value)]; }

  static size_t Index(ValueId value) { return static_cast<size_t>(value.index); }

  // Returns the value whose memory the node's result uses, in part or completely.
  static std::optional<Whole> WholeOf(const Node& node) {
    if (const auto same = WrittenBy(node); same.has_value()) {
      return Whole{*same};
    }
    if (const auto given = GivenBack(node); given.has_value()) {
      return Whole{*given};
    }
    const auto self = ScatterOf(node).empty() ? std::nullopt : node.ValueOf("self");
    return self.has_value() ? std::optional(Whole{*self, &node}) : std::nullopt;
  }

  // Returns the values that contain `written`, from the innermost outwards, up to the outermost one that is in `read`.
  // The search ends at a view whose part can't be scattered back. Omits a value that is exactly the memory of the value
  // inside it (Whole::view is null), unless the omitted value is in `read`. Removes the returned values from `read`.
  std::vector<Whole> WholesOf(ValueId written, std::set<ValueId>& read) const {
    std::vector<Whole> wholes;
    size_t num_read = 0;
    for (std::optional<Whole> whole = wholes_[Index(written)]; whole.has_value() && !read.empty();
         whole = wholes_[Index(whole->value)]) {
      const bool is_read = read.erase(whole->value) > 0;
      if (is_read || whole->view != nullptr) {
        wholes.push_back(*whole);
      }
      num_read = is_read ? wholes.size() : num_read;
    }
    wholes.resize(num_read);
    return wholes;
  }

  // Returns the values that use the memory of `written`, were made before the node with index `index`, and are read
  // after it.
  std::set<ValueId> ReadBehind(size_t index, ValueId written) {
    std::vector<ValueId>& shown = shown_[aliases_.Of(written)];
    std::erase_if(shown, [&](ValueId value) { return last_reads_[Index(value)] <= static_cast<int>(index); });
    return {shown.begin(), shown.end()};
  }

  absl::Status Replace(size_t index, ValueId written) {
    Node node = graph_.nodes()[index];
    const std::string out_of_place(FindOp(node.op)->in_place_of);
    std::set<ValueId> read = ReadBehind(index, written);
    read.erase(written);
    const std::vector<Whole> wholes = WholesOf(written, read);
    if (!read.empty()) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.Where(), " writes the memory of %", graph_.value(*read.begin()).name,
                                ", which is read afterwards; use ", out_of_place));
    }
    // Autograd ignores a write under torch.no_grad() when it computes gradients, so a write over a trained value is
    // refused.
    if (node.without_gradient && IsTrained({aliases_.Of(written)})) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.Where(), " writes under torch.no_grad() over what has a gradient; use ",
                                out_of_place, " of what is detached"));
    }
    if (is_state_[static_cast<size_t>(aliases_.Of(written))]) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.Where(), " writes a parameter or a buffer"));
    }
    node.op = out_of_place;
    node.is_written_in_place = true;
    if (node.op == "aten.dropout.default") {  // Of all these ops, only dropout calls this argument "input".
      for (Argument& argument : node.arguments) {
        argument.name = argument.name == "self" ? "input" : argument.name;
      }
    }
    rewriter_.Keep(node);
    const ValueId result = ResultOf(node);
    rewriter_.ReplaceUses(written, result);
    PutBack(node, result, wholes);
    return absl::OkStatus();
  }

  // `node` is the op out of place that has just replaced a write. Returns the value that later nodes read as its
  // result. If the write was under torch.no_grad(), this value is detached, because autograd would otherwise follow the
  // op to the tensors that the model wrote. The written tensor itself has no gradient to lose (see Replace).
  ValueId ResultOf(const Node& node) {
    const ValueId result = node.outputs[0];
    const bool writes_tensors = node.Uses().size() > 1;  // Not only numbers.
    if (!node.without_gradient || !writes_tensors || !IsFloatingPoint(graph_.type(result).dtype)) {
      return result;
    }
    Node detach{.op = "aten.detach.default",
                .arguments = {{"self", result}},
                .outputs = {},
                .module_path = node.module_path,
                .segment = node.segment,
                .source = node.source};
    const ValueId detached =
        rewriter_.Emit(std::move(detach), absl::StrCat(graph_.value(result).name, "_detached"), graph_.type(result));
    rewriter_.ReplaceUses(result, detached);
    return detached;
  }

  // Replaces each of `wholes` by a copy that contains `part`, the result of `node`.
  void PutBack(const Node& node, ValueId part, const std::vector<Whole>& wholes) {
    for (const Whole& whole : wholes) {
      if (whole.view != nullptr) {
        Node scatter{.op = std::string(ScatterOf(*whole.view)),
                     .arguments = {{"self", whole.value}, {"src", part}},
                     .outputs = {},
                     .module_path = node.module_path,
                     .segment = node.segment,
                     .source = node.source,
                     .keeps_fp32 = node.keeps_fp32,
                     .is_written_in_place = true};
        for (const Argument& argument : whole.view->arguments) {
          if (argument.name != "self") {
            scatter.arguments.push_back(argument);
          }
        }
        part = rewriter_.Emit(std::move(scatter), absl::StrCat(graph_.value(whole.value).name, "_written"),
                              graph_.type(whole.value));
      }
      rewriter_.ReplaceUses(whole.value, part);
    }
  }

  const Graph& graph_;
  const Aliases aliases_;
  Rewriter rewriter_;
  std::vector<std::optional<Whole>> wholes_;  // For each value: the value of which it is a part.
  const std::vector<bool> is_state_;          // For each value: it is a parameter or a buffer.
  std::vector<bool> is_made_;                 // For each value: a node made it.
  std::vector<bool> is_trained_;              // For each value: it has a gradient.
  std::vector<int> last_reads_;  // For each value: last node that reads it, kNone, or beyond all nodes for an output.
  // Maps each owner of memory (Aliases::Of) to the values that use this memory: inputs, states, and results of the
  // nodes visited so far. ReadBehind removes the values that no later node reads.
  std::map<int, std::vector<ValueId>> shown_;
};

}  // namespace

absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph) { return InPlacePass(graph).Run(); }

Graph WithoutFreshCopies(const Graph& graph) {
  const Aliases aliases(graph);
  const std::vector<bool> is_state = StatesOf(graph);
  Rewriter rewriter(graph);
  for (Node node : graph.nodes()) {
    if (node.op == kFreshCopy) {
      rewriter.ReplaceUses(node.outputs[0], *node.ValueOf("self"));
      continue;
    }
    const auto self = node.ValueOf("self");
    if (CopiesByRequest(node) && self.has_value() && !is_state[static_cast<size_t>(aliases.Of(*self))]) {
      std::erase_if(node.arguments, [](const Argument& argument) { return argument.name == "copy"; });
    }
    rewriter.Keep(std::move(node));
  }
  return std::move(rewriter).Finish();
}

}  // namespace ampd::graph
