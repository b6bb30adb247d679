// The pass that takes writes in place out of a graph.
#include <algorithm>
#include <map>
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

// The op that gives a tensor with a part of it replaced, by the view that shows the part; empty for other views.
std::string_view ScatterOf(const Node& view) {
  return view.op == "aten.slice.Tensor" ? "aten.slice_scatter.default"
         : view.op == "aten.select.int" ? "aten.select_scatter.default"
                                        : "";
}

// Takes the writes out one by one. A write to a part of a tensor
//
//   %part = slice(%whole, ...)              %part = slice(%whole, ...)
//   fill_(%part, 1)                becomes  %filled = fill(%part, 1)
//   read(%whole)                            %scattered = slice_scatter(%whole, %filled, ...)
//                                           read(%scattered)
//
// and so on through views of views. Nothing else may show the memory and be read afterwards.
class InPlacePass {
 public:
  explicit InPlacePass(const Graph& graph) : graph_(graph), aliases_(graph), rewriter_(graph) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      for (const ValueId output : graph.nodes()[i].outputs) {
        makers_[output] = i;
      }
    }
  }

  absl::StatusOr<Graph> Run() && {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (const auto written = WrittenBy(graph_.nodes()[i]); written.has_value()) {
        AMPD_RETURN_IF_ERROR(Replace(i, *written));
      } else {
        rewriter_.Keep(graph_.nodes()[i]);
      }
    }
    return std::move(rewriter_).Finish();
  }

 private:
  // A value that the written one is a part of, by the view that shows the part; without one it is the same memory.
  struct Whole {
    ValueId value;
    const Node* view = nullptr;
  };

  // From the written value outwards, as far as a part can be put back.
  std::vector<Whole> WholesOf(ValueId written) const {
    std::vector<Whole> wholes;
    for (auto maker = makers_.find(written); maker != makers_.end(); maker = makers_.find(wholes.back().value)) {
      const Node& node = graph_.nodes()[maker->second];
      if (const auto same = WrittenBy(node); same.has_value()) {
        wholes.push_back({*same});
      } else if (const auto self = node.ValueOf("self"); self.has_value() && !ScatterOf(node).empty()) {
        wholes.push_back({*self, &node});
      } else {
        break;
      }
    }
    return wholes;
  }

  // Values that show the memory of `written`, were there before the node, and are read behind it.
  std::set<ValueId> ReadBehind(size_t index, ValueId written) const {
    std::set<ValueId> later = {graph_.nodes()[index].outputs[0]};  // and what is made behind the node
    std::set<ValueId> read;
    const auto take = [&](ValueId use) {
      if (aliases_.Of(use) == aliases_.Of(written) && !later.contains(use)) {
        read.insert(use);
      }
    };
    for (size_t i = index + 1; i < graph_.nodes().size(); ++i) {
      const std::vector<ValueId> uses = graph_.nodes()[i].Uses();
      std::for_each(uses.begin(), uses.end(), take);
      later.insert(graph_.nodes()[i].outputs.begin(), graph_.nodes()[i].outputs.end());
    }
    for (const Output& output : graph_.outputs()) {
      take(output.value);
    }
    return read;
  }

  absl::Status Replace(size_t index, ValueId written) {
    Node node = graph_.nodes()[index];
    const std::string out_of_place(FindOp(node.op)->in_place_of);
    std::set<ValueId> read = ReadBehind(index, written);
    read.erase(written);
    std::vector<Whole> wholes = WholesOf(written);
    size_t num_read = 0;  // of the wholes, up to the last one that is read
    for (size_t i = 0; i < wholes.size(); ++i) {
      num_read = read.erase(wholes[i].value) > 0 ? i + 1 : num_read;
    }
    if (!read.empty()) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes the memory of %",
                                graph_.value(*read.begin()).name, ", which is read afterwards; use ", out_of_place));
    }
    if (IsState(graph_, aliases_.Of(written))) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes a parameter or a buffer"));
    }
    wholes.resize(num_read);
    node.op = out_of_place;
    node.is_written_in_place = true;
    if (node.op == "aten.dropout.default") {  // the only one of them that calls it so
      for (Argument& argument : node.arguments) {
        argument.name = argument.name == "self" ? "input" : argument.name;
      }
    }
    rewriter_.Keep(node);
    rewriter_.ReplaceUses(written, node.outputs[0]);
    PutBack(node, wholes);
    return absl::OkStatus();
  }

  // The wholes with the result of `node` in the place of the part.
  void PutBack(const Node& node, const std::vector<Whole>& wholes) {
    ValueId part = node.outputs[0];
    for (const Whole& whole : wholes) {
      if (whole.view != nullptr) {
        Node scatter{.op = std::string(ScatterOf(*whole.view)),
                     .arguments = {{"self", whole.value}, {"src", part}},
                     .outputs = {},
                     .module_path = node.module_path,
                     .segment = node.segment,
                     .keeps_fp32 = node.keeps_fp32};
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
  std::map<ValueId, size_t> makers_;  // indices of nodes
};

}  // namespace

absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph) { return InPlacePass(graph).Run(); }

}  // namespace ampd::graph
