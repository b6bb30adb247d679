#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "worker/amp/phase.h"

namespace ampd::train {

// Tells when batches may count different numbers of labels although nothing says how many each counts: those of a model
// that makes its own loss and has no output for their number (model.exported.count_output). Then they weigh the same in
// a step or an evaluation, whose loss is not that of all their samples. Thread-compatible.
class UnevenBatches {
 public:
  explicit UnevenBatches(const graph::Graph& model);

  // What shows it, "labels of -100 are left out of the loss"; empty where nothing does, and for every model whose
  // labels are counted.
  std::string WhyUneven(const std::vector<amp::Batch>& batches) const;

 private:
  std::string WhyUnevenMasks(const std::vector<amp::Batch>& batches) const;

  const bool counts_unseen_;  // the model makes a loss whose labels nobody counts
  const bool takes_labels_;
  bool has_class_weights_ = false;  // its cross entropy weighs labels by their class
  std::set<int64_t> ignored_;       // labels that it leaves out
};

}  // namespace ampd::train
