#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "graph/graph.h"
#include "graph/heads.h"

namespace ampd::amp {

// How often one class was told of samples that have it, and of others.
struct ClassCounts {
  int64_t true_positives = 0;
  int64_t false_positives = 0;
  int64_t false_negatives = 0;
};

// What an evaluation has counted so far; batches of any size add up.
struct EvalSums {
  void Add(const EvalSums& other);

  double loss = 0;          // summed over what is counted
  double num_counted = 0;   // what the loss is divided by: num_labels, or what a model counts that makes its own loss
  int64_t num_correct = 0;  // of the labels, where the head has an accuracy
  // Of the samples, where each has one of more than five classes: of whose class fewer than five others had a larger
  // logit. A NaN is larger than every number, and the class that has one is never among the five.
  std::optional<int64_t> num_top5;
  // Of what is compared: classes of samples and tokens of a language model but for graph::kIgnoredLabel, numbers of a
  // regression, decisions. Of a model that makes its own loss, one a sample.
  int64_t num_labels = 0;
  int64_t num_samples = 0;           // of a language model, tokens; of classes, labels
  std::vector<ClassCounts> classes;  // where the head predicts classes
};

// The sums over one batch. `program`: graph::WithEvalHead of a model with this head and `num_classes`; `outputs`: what
// it gave for `labels`, which lie on the CPU; `num_counted`: LabelCounter::CountOf the batch. Of a batch that counts
// nothing the loss is left out. Waits for the outputs' device, and copies a few numbers a sample from it.
EvalSums SumsOf(graph::Head head, int64_t num_classes, const graph::Graph& program,
                const std::vector<at::Tensor>& outputs, const at::Tensor& labels, double num_counted);

// The mean over the classes of 2 tp / (2 tp + fp + fn), 0 of a class that was neither there nor told: scikit-learn's
// f1_score(average="macro", labels=range(classes)) with its default zero_division. REQUIRES: there is a class.
double MacroF1(const std::vector<ClassCounts>& classes);

}  // namespace ampd::amp
