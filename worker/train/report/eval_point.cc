#include "worker/train/report/eval_point.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace ampd::train {

v1::EvalPoint EvalPointOf(graph::Head head, const amp::EvalSums& sums) {
  const auto num_labels = static_cast<double>(sums.num_labels);
  v1::EvalPoint point;
  point.set_loss(sums.loss / sums.num_counted);
  point.set_num_samples(sums.num_samples);
  if (graph::HasAccuracy(head)) {
    point.set_accuracy(static_cast<double>(sums.num_correct) / num_labels);
  }
  if (sums.num_top5.has_value()) {
    point.set_top5_accuracy(static_cast<double>(*sums.num_top5) / num_labels);
  }
  if (head == graph::Head::kLanguageModel) {
    point.set_perplexity(std::exp(point.loss()));
  }
  if (graph::PredictsClasses(head)) {
    point.set_f1(amp::MacroF1(sums.classes));
  }
  return point;
}

void AddEvalPoint(const v1::EvalPoint& point, v1::FinalMetrics* metrics) {
  metrics->set_eval_loss(point.loss());
  if (point.has_perplexity()) {
    metrics->set_eval_perplexity(point.perplexity());
  } else if (point.has_accuracy()) {
    metrics->set_eval_accuracy(point.accuracy());
  }
  if (point.has_top5_accuracy()) {
    metrics->set_eval_top5_accuracy(point.top5_accuracy());
  }
  if (point.has_f1()) {
    metrics->set_eval_f1(point.f1());
  }
}

std::string QualityText(const v1::EvalPoint& point) {
  if (point.has_perplexity()) {
    return absl::StrFormat(", perplexity %.2f", point.perplexity());
  }
  std::string text;
  if (point.has_accuracy()) {
    absl::StrAppendFormat(&text, ", accuracy %.4f", point.accuracy());
  }
  if (point.has_top5_accuracy()) {
    absl::StrAppendFormat(&text, ", top-5 %.4f", point.top5_accuracy());
  }
  if (point.has_f1()) {
    absl::StrAppendFormat(&text, ", F1 %.4f", point.f1());
  }
  return text;
}

}  // namespace ampd::train
