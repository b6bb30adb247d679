// Checks the parts of a spec that must fit the model at a given batch size.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/batch_rules.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

// Returns the number of samples in a training batch. It is batch_size, or fewer if a synthetic dataset has fewer
// samples. A file may have fewer samples, too, but only the worker knows that.
int64_t BatchOf(const v1::DataSpec& data) {
  const bool is_filled = data.last_batch() == v1::DataSpec::PAD || !data.train().has_synthetic();
  const int64_t wanted = data.batch_size();
  return is_filled ? wanted : std::min(wanted, data.train().synthetic().num_samples());
}

void CheckTraining(const v1::JobSpec& spec, const graph::Graph& model, Findings& findings) {
  const int64_t num_parts = spec.train().gradient_accumulation();
  const int64_t batch = BatchOf(spec.data());
  // If data.batch_size itself can't be cut, AdmitTrain has reported that.
  if (num_parts < 1 || batch < 1 || spec.data().batch_size() % num_parts != 0) {
    return;
  }
  if (batch % num_parts != 0) {
    return findings.Wrong("train.gradient_accumulation",
                          absl::StrCat("is ", num_parts, "; must divide the samples of a batch: data.batch_size is ",
                                       spec.data().batch_size(), ", but the data set has only ", batch,
                                       " samples, and all of them are one batch; choose a number that divides ", batch,
                                       ", raise data.train.synthetic.num_samples, or set data.last_batch to PAD"));
  }
  const std::string size = absl::StrCat("is ", spec.data().batch_size(),
                                        num_parts == 1 ? "" : absl::StrCat(" in ", num_parts, " micro-batches"), ": ");
  if (const std::string fault = graph::FaultOfBatchRange(model, batch / num_parts); !fault.empty()) {
    return findings.Wrong("data.batch_size",
                          absl::StrCat(size, fault,
                                       "; change it or train.gradient_accumulation, or export the model for "
                                       "such batches"));
  }
  if (const std::string fault = graph::FaultOfBatch(model, batch / num_parts); !fault.empty()) {
    findings.Wrong("data.batch_size",
                   absl::StrCat(size, fault, "; raise it", num_parts == 1 ? "" : ", lower train.gradient_accumulation",
                                " or take larger images"));
  }
}

// Checks the full batches of an evaluation and the last, smaller one.
void CheckEvaluation(const v1::DataSpec& data, const graph::Graph& model, Findings& findings) {
  const int64_t size = data.eval_batch_size();
  if (!data.has_eval() || size < 1) {
    return;
  }
  const int64_t num_samples = data.eval().synthetic().num_samples();
  const int64_t rest = data.eval().has_synthetic() ? num_samples % size : 0;
  const int64_t whole = data.eval().has_synthetic() && num_samples < size ? rest : size;
  for (const int64_t batch : {whole, rest}) {
    if (const std::string fault = batch < 1 ? "" : graph::FaultOfBatch(model, batch); !fault.empty()) {
      return findings.Wrong("data.eval_batch_size", absl::StrCat("is ", size, ": ", fault, "; give it another size"));
    }
  }
}

}  // namespace

void CheckBatches(const v1::JobSpec& spec, const AdmittedModel& model, Findings& findings) {
  CheckTraining(spec, model.graph, findings);
  if (model.eval.has_value()) {
    CheckEvaluation(spec.data(), *model.eval, findings);
  }
}

void CheckByteMapping(const std::string& field, double mean, double std, Findings& findings) {
  for (const float number : {0.0F, 1.0F}) {
    const float mapped = (number - static_cast<float>(mean)) / static_cast<float>(std);
    if (std > 0 && !std::isfinite(mapped)) {
      return findings.Wrong(field, absl::StrCat("is ", std, ", which with a mean of ", mean, " maps a pixel of ",
                                                number, " to ", mapped, "; take a larger one"));
    }
  }
}

}  // namespace ampd::server
