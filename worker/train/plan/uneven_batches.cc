#include "worker/train/plan/uneven_batches.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "ATen/ops/count_nonzero.h"
#include "absl/strings/str_cat.h"
#include "graph/heads.h"
#include "graph/passes.h"

namespace ampd::train {
namespace {

bool IsCrossEntropy(const graph::Node& node) {
  return node.op.starts_with("aten.cross_entropy_loss") || node.op.starts_with("aten.nll_loss");
}

// A hand-written loss finds the labels that it leaves out by comparing all labels with one value. If `node` is such a
// comparison, returns the value.
std::optional<int64_t> ComparedLabel(const graph::Graph& model, const graph::Node& node) {
  const auto labels = model.FindInput("labels");
  const bool compares = node.op == "aten.ne.Scalar" || node.op == "aten.eq.Scalar";
  const graph::Operand* const other = node.Find("other");
  const auto* const label = other == nullptr ? nullptr : std::get_if<int64_t>(other);
  return compares && labels.has_value() && node.ValueOf("self") == labels && label != nullptr ? std::optional(*label)
                                                                                              : std::nullopt;
}

std::optional<int64_t> FirstOf(const std::set<int64_t>& wanted, const at::Tensor& labels) {
  const at::Tensor all = labels.contiguous();
  const auto* const begin = all.const_data_ptr<int64_t>();
  const auto* const end = begin + all.numel();
  const auto* const found = std::find_if(begin, end, [&](int64_t label) { return wanted.contains(label); });
  return found == end ? std::nullopt : std::optional(*found);
}

// Number of elements of the mask that are not zero.
int64_t NumSet(const at::Tensor& mask) { return at::count_nonzero(mask).item<int64_t>(); }

}  // namespace

UnevenBatches::UnevenBatches(const graph::Graph& model)
    : counts_unseen_(graph::HeadOf(model) == graph::Head::kOwnLoss &&
                     !model.FindOutput(graph::kLabelCount).has_value()),
      takes_labels_(model.FindInput("labels").has_value()) {
  ignored_.insert(graph::kIgnoredLabel);
  for (const graph::Node& node : model.nodes()) {
    if (IsCrossEntropy(node)) {
      const graph::Operand* const ignored = node.Find("ignore_index");
      if (ignored != nullptr && std::holds_alternative<int64_t>(*ignored)) {
        ignored_.insert(std::get<int64_t>(*ignored));
      }
      has_class_weights_ = has_class_weights_ || node.ValueOf("weight").has_value();
    } else if (const auto label = ComparedLabel(model, node); label.has_value()) {
      ignored_.insert(*label);
    }
  }
}

std::string UnevenBatches::WhyUneven(const std::vector<amp::Batch>& batches) const {
  if (!counts_unseen_ || batches.size() < 2) {
    return "";
  }
  if (has_class_weights_) {
    return "the model's cross entropy weighs labels by their class";
  }
  for (const amp::Batch& batch : batches) {
    const auto ignored = batch.labels.scalar_type() == at::kLong ? FirstOf(ignored_, batch.labels) : std::nullopt;
    if (ignored.has_value()) {
      return absl::StrCat("there are labels of ", *ignored, ", which the model leaves out of its loss");
    }
  }
  return WhyUnevenMasks(batches);
}

// Describes the first mask that covers different shares of the positions in two batches; empty if there is no such
// mask. Compares shares, not counts, because batches may differ in size. Masks matter only if there is one label per
// position, or if the loss takes no labels.
std::string UnevenBatches::WhyUnevenMasks(const std::vector<amp::Batch>& batches) const {
  const amp::Batch& first = batches.front();
  const bool has_label_a_sample = takes_labels_ && first.labels.numel() == first.labels.size(0);
  for (const auto& [name, mask] : first.others) {
    if (has_label_a_sample || (mask.scalar_type() != at::kBool && name != "attention_mask")) {
      continue;
    }
    for (const amp::Batch& batch : batches) {
      const at::Tensor& other = batch.others.at(name);
      if (NumSet(other) * mask.size(0) != NumSet(mask) * other.size(0)) {
        return absl::StrCat(name, " covers ", NumSet(mask), " of ", mask.numel(), " positions in one and ",
                            NumSet(other), " of ", other.numel(), " in another");
      }
    }
  }
  return "";
}

}  // namespace ampd::train
