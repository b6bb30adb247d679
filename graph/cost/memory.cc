#include "graph/cost/memory.h"

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/cost/held_blocks.h"
#include "graph/cost/op_memory.h"
#include "graph/segments.h"

namespace ampd::graph {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.index); }

class Run {
 public:
  Run(const Graph& program, int64_t batch_size, const RunConditions& conditions)
      : graph_(program),
        ops_(program, batch_size, conditions.trained, conditions.on_gpu),
        work_(conditions.work == nullptr ? uncounted_ : *conditions.work),
        segments_(SegmentsOf(program, &work_)),
        values_(static_cast<size_t>(program.num_values())),
        saved_(program.nodes().size()) {
    for (const State& parameter : program.parameters()) {
      values_[Index(parameter.value)].is_parameter = true;
    }
    MarkUses();
  }

  RunMemory Estimate() && {
    RunMemory result;
    for (const Segment& segment : segments_) {
      ForwardSegment(segment);
    }
    result.after_forward = blocks_.held();
    if (work_.is_stopped()) {
      return result;
    }
    values_[Index(graph_.outputs()[0].value)].gradient = blocks_.Allocate(HeldBlocks::kWorkspace, sizeof(float));
    for (auto segment = segments_.rbegin(); segment != segments_.rend() && !work_.is_stopped(); ++segment) {
      BackwardSegment(*segment);
    }
    result.after_backward = blocks_.held();
    result.peak = blocks_.peak();
    return result;
  }

  HeldBytes EstimateEvaluation() && {
    for (size_t i = 0; i < graph_.nodes().size() && !work_.is_stopped(); ++i) {
      Forward(i, /*recorded=*/false);
      DropValues(i, /*first_own=*/0);
    }
    return blocks_.peak();
  }

 private:
  struct ValueState {
    HeldBlocks::Id block;
    std::optional<HeldBlocks::Id> gradient;
    size_t defined_at = 0;
    size_t last_use = 0;
    bool is_parameter = false;
  };

  void MarkUses() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      for (ValueId use : graph_.nodes()[i].Uses()) {
        values_[Index(use)].last_use = i;
      }
      for (ValueId output : graph_.nodes()[i].outputs) {
        values_[Index(output)].defined_at = i;
        values_[Index(output)].last_use = i;
      }
    }
    for (const Output& output : graph_.outputs()) {
      values_[Index(output.value)].last_use = std::numeric_limits<size_t>::max();
    }
  }

  void ForwardSegment(const Segment& segment) {
    if (segment.recomputed) {
      for (ValueId input : segment.inputs) {
        blocks_.Hold(values_[Index(input)].block);
        kept_[segment.begin].emplace_back(input, values_[Index(input)].block);
      }
    }
    for (size_t i = segment.begin; i < segment.end && !work_.is_stopped(); ++i) {
      Forward(i, /*recorded=*/!segment.recomputed);
      DropValues(i, /*first_own=*/0);
    }
  }

  void BackwardSegment(const Segment& segment) {
    std::vector<HeldBlocks::Id> gradients;
    if (segment.recomputed) {
      // The segment's autograd node holds the results' gradients while the segment runs again.
      for (ValueId output : segment.outputs) {
        if (values_[Index(output)].gradient.has_value()) {
          gradients.push_back(blocks_.Hold(*values_[Index(output)].gradient));
        }
      }
      for (const auto& [input, block] : kept_[segment.begin]) {
        values_[Index(input)].block = block;
      }
      for (size_t i = segment.begin; i < segment.end && !work_.is_stopped(); ++i) {
        Forward(i, /*recorded=*/true);
        DropValues(i, segment.begin);
      }
    }
    for (size_t i = segment.end; i-- > segment.begin && !work_.is_stopped();) {
      Backward(i);
    }
    if (segment.recomputed && !work_.is_stopped()) {
      for (ValueId output : segment.outputs) {
        blocks_.Release(values_[Index(output)].block);
      }
      for (const auto& [input, block] : kept_[segment.begin]) {
        blocks_.Release(block);
      }
      for (const HeldBlocks::Id gradient : gradients) {
        blocks_.Release(gradient);
      }
    }
  }

  void Forward(size_t index, bool recorded) {
    work_.Visit();
    const Node& node = graph_.nodes()[index];
    const HeldBlocks::Id workspace = blocks_.Allocate(HeldBlocks::kWorkspace, ops_.ForwardWorkspace(node));
    for (ValueId output : node.outputs) {
      const auto shown = ops_.ShownBy(node, output);
      values_[Index(output)].block = shown.has_value() ? blocks_.Hold(values_[Index(*shown)].block)
                                                       : blocks_.Allocate(HeldBlocks::kActivation, ops_.Bytes(output));
    }
    std::vector<HeldBlocks::Id> kept;
    for (const OpMemory::Kept& one : ops_.Keeps(node)) {
      kept.push_back(one.value.has_value() ? blocks_.Hold(values_[Index(*one.value)].block)
                                           : blocks_.Allocate(HeldBlocks::kActivation, one.inner_bytes));
    }
    blocks_.Release(workspace);
    if (recorded && ops_.IsTrained(node)) {
      saved_[index] = std::move(kept);
      return;
    }
    for (const HeldBlocks::Id block : kept) {
      blocks_.Release(block);
    }
  }

  // Releases the values whose last reader is the node at `index`. Keeps values that were defined before the node at
  // `first_own`.
  void DropValues(size_t index, size_t first_own) {
    const Node& node = graph_.nodes()[index];
    std::set<ValueId> ends;
    for (const auto& list : {node.Uses(), node.outputs}) {
      ends.insert(list.begin(), list.end());
    }
    for (ValueId id : ends) {
      const ValueState& value = values_[Index(id)];
      if (value.last_use == index && value.defined_at >= first_own) {
        blocks_.Release(value.block);
      }
    }
  }

  void Backward(size_t index) {
    work_.Visit();
    const Node& node = graph_.nodes()[index];
    std::vector<HeldBlocks::Id> incoming;
    for (ValueId output : node.outputs) {
      if (auto& gradient = values_[Index(output)].gradient; gradient.has_value()) {
        incoming.push_back(*std::exchange(gradient, std::nullopt));
      }
    }
    std::vector<std::pair<ValueId, HeldBlocks::Id>> results;
    if (!incoming.empty()) {
      const HeldBlocks::Id workspace = blocks_.Allocate(HeldBlocks::kWorkspace, ops_.BackwardWorkspace(node));
      results = InputGradients(node, incoming[0]);
      blocks_.Release(workspace);
    }
    for (const auto* list : {&incoming, &saved_[index]}) {
      for (const HeldBlocks::Id block : *list) {
        blocks_.Release(block);
      }
    }
    saved_[index].clear();
    for (const auto& [value, gradient] : results) {
      AddGradient(values_[Index(value)], gradient);
    }
  }

  std::vector<std::pair<ValueId, HeldBlocks::Id>> InputGradients(const Node& node, HeldBlocks::Id incoming) {
    std::vector<std::pair<ValueId, HeldBlocks::Id>> results;
    for (ValueId use : node.Uses()) {
      if (!results.empty() && ops_.IsTrained(use) && ops_.SharesGradient(node, results[0].first, use)) {
        results.emplace_back(use, blocks_.Hold(results[0].second));
      } else if (ops_.IsTrained(use)) {
        results.emplace_back(use, InputGradient(node, use, incoming));
      }
    }
    return results;
  }

  HeldBlocks::Id InputGradient(const Node& node, ValueId use, HeldBlocks::Id incoming) {
    if (ops_.PassesGradient(node, use)) {
      return blocks_.Hold(incoming);
    }
    const HeldBlocks::Id block = values_[Index(use)].block;
    if (ops_.WritesGradientOver(node, use) && blocks_.HeldOnce(block)) {
      return blocks_.Hold(block);
    }
    return blocks_.Allocate(HeldBlocks::kWorkspace, ops_.Bytes(use));
  }

  // Adds a gradient to the sum of a value's gradients, as autograd does. The new sum replaces the old sum or the
  // gradient if nothing else holds that tensor. If both are held elsewhere, the new sum is a new tensor.
  void AddGradient(ValueState& value, HeldBlocks::Id gradient) {
    if (!value.gradient.has_value()) {
      value.gradient = gradient;
    } else if (blocks_.HeldOnce(*value.gradient)) {
      blocks_.Release(gradient);
    } else if (blocks_.HeldOnce(gradient)) {
      blocks_.Release(std::exchange(*value.gradient, gradient));
    } else {
      const HeldBlocks::Id sum = blocks_.Allocate(HeldBlocks::kWorkspace, blocks_.BytesOf(gradient));
      blocks_.Release(std::exchange(*value.gradient, sum));
      blocks_.Release(gradient);
    }
    if (value.is_parameter) {
      blocks_.BecomeGradient(*value.gradient);
    }
  }

  const Graph& graph_;
  const OpMemory ops_;
  Work uncounted_;
  Work& work_;
  const std::vector<Segment> segments_;
  std::vector<ValueState> values_;
  std::vector<std::vector<HeldBlocks::Id>> saved_;  // Blocks saved by each node.
  // The inputs that each segment keeps, by the segment's first node.
  std::map<size_t, std::vector<std::pair<ValueId, HeldBlocks::Id>>> kept_;
  HeldBlocks blocks_;
};

}  // namespace

RunMemory EstimateRun(const Graph& program, int64_t batch_size, const RunConditions& conditions) {
  return Run(program, batch_size, conditions).Estimate();
}

HeldBytes EstimateEvaluation(const Graph& program, int64_t batch_size, bool on_gpu, Work* work) {
  return Run(program, batch_size, {.trained = "", .on_gpu = on_gpu, .work = work}).EstimateEvaluation();
}

}  // namespace ampd::graph
