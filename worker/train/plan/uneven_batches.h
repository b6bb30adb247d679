#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "worker/amp/phase.h"

namespace ampd::train {

// Detects batches in which a loss may count different numbers of labels. Only a model that computes its own loss, and
// does not output its number of labels (model.exported.count_output), has this problem: a step or an evaluation gives
// all batches of such a model the same weight, so the mean of their losses differs from the mean over all samples.
// Thread-compatible.
class UnevenBatches {
 public:
  explicit UnevenBatches(const graph::Graph& model);

  // Why the batches may count different numbers of labels, for example "labels of -100 are left out of the loss". Empty
  // if nothing suggests different numbers, or if the model's label counts are known.
  std::string WhyUneven(const std::vector<amp::Batch>& batches) const;

 private:
  std::string WhyUnevenMasks(const std::vector<amp::Batch>& batches) const;

  const bool counts_unseen_;  // The model computes a loss and does not output its number of labels.
  const bool takes_labels_;
  bool has_class_weights_ = false;  // The model's cross entropy weights labels by their class.
  std::set<int64_t> ignored_;       // Labels that the model's loss leaves out.
};

}  // namespace ampd::train
