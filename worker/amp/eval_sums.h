#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "graph/graph.h"
#include "graph/heads.h"

namespace ampd::amp {

// How often predictions of one class were right and wrong.
struct ClassCounts {
  int64_t true_positives = 0;
  int64_t false_positives = 0;
  int64_t false_negatives = 0;
};

// Sums over the batches of an evaluation so far. Batches may differ in size.
struct EvalSums {
  void Add(const EvalSums& other);

  double loss = 0;          // Sum of the losses of everything that num_counted counts.
  double num_counted = 0;   // Divisor of the loss: num_labels, or the model's own count if it computes its own loss.
  int64_t num_correct = 0;  // Correct predictions, if the head has an accuracy.
  // The number of samples whose label has one of the five largest logits. Set only if each sample belongs to one class
  // and there are more than five classes. If logits are equal, all of them count as being among the five. A NaN is
  // larger than every number, but a label whose logit is NaN is never among the five.
  std::optional<int64_t> num_top5;
  // The number of labels with which the outputs were compared. What counts as one label depends on the model:
  // * classifier: each sample; a sample labelled graph::kIgnoredLabel does not count;
  // * language model: each token, with the same exception;
  // * regression: each number of the output;
  // * yes-or-no decisions: each decision;
  // * model that computes its own loss: each sample counts once.
  int64_t num_labels = 0;
  int64_t num_samples = 0;           // For a language model, number of tokens, ignored ones included.
  std::vector<ClassCounts> classes;  // Set if the head predicts classes.
};

// Computes the sums over one batch. `program`: graph::WithEvalHead of the model; `outputs`: what it computed for the
// batch; `labels`: on the CPU; `num_counted`: LabelCounter::CountOf the batch. If `num_counted` is 0, the batch adds
// nothing to the loss. Waits for the outputs' device and copies a few numbers per sample from it.
EvalSums SumsOf(graph::Head head, int64_t num_classes, const graph::Graph& program,
                const std::vector<at::Tensor>& outputs, const at::Tensor& labels, double num_counted);

// The macro F1 score: the mean over the classes of 2 tp / (2 tp + fp + fn), where a class that was neither present
// nor predicted counts as 0. Equals scikit-learn's f1_score(average="macro", labels=range(classes)) with its default
// zero_division. REQUIRES: at least one class.
double MacroF1(const std::vector<ClassCounts>& classes);

}  // namespace ampd::amp
