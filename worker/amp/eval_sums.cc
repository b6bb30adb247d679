#include "worker/amp/eval_sums.h"

#include <algorithm>
#include <tuple>

#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

constexpr int64_t kTop = 5;

const at::Tensor& OutputOf(const graph::Graph& program, const std::vector<at::Tensor>& outputs, std::string_view name) {
  const auto found = std::find_if(program.outputs().begin(), program.outputs().end(),
                                  [name](const graph::Output& output) { return output.name == name; });
  TORCH_CHECK(found != program.outputs().end(), "the evaluation program has no output ", name);
  return outputs[static_cast<size_t>(found - program.outputs().begin())];
}

// Counts right and wrong predictions of each class. `predicted` and `labels`: one class per sample, (B) int64.
void CountClasses(const at::Tensor& predicted, const at::Tensor& labels, std::vector<ClassCounts>& classes) {
  const auto* const given = predicted.const_data_ptr<int64_t>();
  const auto* const wanted = labels.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (wanted[i] == graph::kIgnoredLabel) {
      continue;
    }
    if (given[i] == wanted[i]) {
      ++classes.at(static_cast<size_t>(given[i])).true_positives;
    } else {
      ++classes.at(static_cast<size_t>(given[i])).false_positives;
      ++classes.at(static_cast<size_t>(wanted[i])).false_negatives;
    }
  }
}

// Counts right and wrong yes-or-no decisions of each class. `predicted`: (B, classes) bool; `labels`: (B, classes)
// float, 0 or 1.
void CountDecisions(const at::Tensor& predicted, const at::Tensor& labels, std::vector<ClassCounts>& classes) {
  const auto* const given = predicted.const_data_ptr<bool>();
  const auto* const wanted = labels.const_data_ptr<float>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    ClassCounts& counts = classes[static_cast<size_t>(i) % classes.size()];
    const bool has = wanted[i] != 0;
    counts.true_positives += given[i] && has ? 1 : 0;
    counts.false_positives += given[i] && !has ? 1 : 0;
    counts.false_negatives += !given[i] && has ? 1 : 0;
  }
}

// Computes EvalSums::num_top5. `logits`: (B, classes), more than five, on any device; `labels`: (B) int64. The
// evaluation program does not compute this number, because the policy could then round the label's logit without
// rounding the logits that it is compared with.
int64_t CountTop5(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor here = labels.to(logits.device()).reshape({-1, 1});                        // (B, 1)
  const at::Tensor ignored = here.eq(graph::kIgnoredLabel);                                   // (B, 1)
  const at::Tensor own = logits.gather(1, here.masked_fill(ignored, 0));                      // (B, 1)
  const at::Tensor fifth_largest = std::get<0>(logits.topk(kTop, 1)).narrow(1, kTop - 1, 1);  // (B, 1); NaN is largest
  return fifth_largest.le(own).logical_and(ignored.logical_not()).sum().item<int64_t>();
}

}  // namespace

void EvalSums::Add(const EvalSums& other) {
  loss += other.loss;
  num_counted += other.num_counted;
  num_correct += other.num_correct;
  if (other.num_top5.has_value()) {
    num_top5 = num_top5.value_or(0) + *other.num_top5;
  }
  num_labels += other.num_labels;
  num_samples += other.num_samples;
  classes.resize(std::max(classes.size(), other.classes.size()));
  for (size_t i = 0; i < other.classes.size(); ++i) {
    classes[i].true_positives += other.classes[i].true_positives;
    classes[i].false_positives += other.classes[i].false_positives;
    classes[i].false_negatives += other.classes[i].false_negatives;
  }
}

EvalSums SumsOf(graph::Head head, int64_t num_classes, const graph::Graph& program,
                const std::vector<at::Tensor>& outputs, const at::Tensor& labels, double num_counted) {
  EvalSums sums;
  const bool has_one_each = head == graph::Head::kClassification || head == graph::Head::kLanguageModel;
  sums.num_samples = has_one_each ? labels.numel() : labels.size(0);
  sums.num_counted = num_counted;
  if (head == graph::Head::kOwnLoss) {
    sums.num_labels = sums.num_samples;
    // If `num_counted` is 0, the output "loss" is the mean of no numbers, which is NaN.
    sums.loss = num_counted == 0 ? 0 : OutputOf(program, outputs, "loss").item<double>() * num_counted;
    return sums;
  }
  sums.num_labels = static_cast<int64_t>(num_counted);
  sums.loss = OutputOf(program, outputs, "loss_sum").item<double>();
  if (graph::HasAccuracy(head)) {
    sums.num_correct = OutputOf(program, outputs, "num_correct").item<int64_t>();
  }
  if (graph::PredictsClasses(head)) {
    sums.classes.resize(static_cast<size_t>(num_classes));
    const at::Tensor predicted = OutputOf(program, outputs, "predicted").cpu().contiguous();
    const bool is_one = head == graph::Head::kClassification;
    (is_one ? CountClasses : CountDecisions)(predicted, labels.contiguous(), sums.classes);
  }
  if (head == graph::Head::kClassification && num_classes > kTop) {
    sums.num_top5 = CountTop5(OutputOf(program, outputs, "logits"), labels);
  }
  return sums;
}

double MacroF1(const std::vector<ClassCounts>& classes) {
  double sum = 0;
  for (const ClassCounts& counts : classes) {
    const int64_t hits = 2 * counts.true_positives;
    const int64_t all = hits + counts.false_positives + counts.false_negatives;
    sum += all == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(all);
  }
  return sum / static_cast<double>(classes.size());
}

}  // namespace ampd::amp
