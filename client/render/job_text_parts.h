#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "ampd/v1/job.pb.h"
#include "client/render/format.h"

// Parts of texts about jobs, for job_text.cc and job_end_text.cc only.
namespace ampd::client {

// Whether the progress has those numbers of the last step that are not kept in the outcome of an attempt
// (FinalMetrics), such as the gradient norm. The progress of a job that ended long ago lacks them.
inline bool HasLastStep(const v1::Progress& progress) {
  return progress.samples_per_second() > 0 || progress.grad_norm() != 0 || progress.learning_rate() != 0;
}

// Returns the metrics of an evaluation except its loss: "accuracy 0.9, top-5 0.99, F1 0.89, ", or for a language model
// "perplexity 30, "; empty if there are none. `Numbers` is Progress or FinalMetrics.
template <typename Numbers>
std::string EvalQuality(const Numbers& numbers) {
  const auto part = [](const char* name, bool is_known, double number) {
    return is_known ? absl::StrCat(name, " ", FormatNumber(number), ", ") : "";
  };
  if (numbers.has_eval_perplexity()) {
    return part("perplexity", true, numbers.eval_perplexity());
  }
  return absl::StrCat(part("accuracy", numbers.has_eval_accuracy(), numbers.eval_accuracy()),
                      part("top-5", numbers.has_eval_top5_accuracy(), numbers.eval_top5_accuracy()),
                      part("F1", numbers.has_eval_f1(), numbers.eval_f1()));
}

// Returns the losses of a step's phases: ", generator loss 2.5". Omits the first phase, because its loss is the step's
// loss.
template <typename Phases>
std::string LaterLosses(const Phases& phases) {
  std::string text;
  for (auto phase = phases.begin(); phase != phases.end(); ++phase) {
    if (phase != phases.begin()) {
      absl::StrAppend(&text, ", ", Printable(phase->name()), " loss ", FormatNumber(phase->loss()));
    }
  }
  return text;
}

// Returns the reason's name; kNothing for a normal end.
std::string ReasonText(v1::Reason::Code reason);

// Returns lines with the final results of the job's last attempt; empty if there are none.
std::string FinalLines(const v1::Job& job);

}  // namespace ampd::client
