// Checks jobs that predict (JobSpec.predict).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/batch_rules.h"
#include "graph/heads.h"
#include "models/models.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Reports the fields of `part` that are set, except those in `allowed`. `path` is the path of `part` in the spec; empty
// if `part` is the spec itself.
void RefuseFields(const std::string& path, const Message& part, const std::vector<std::string>& allowed,
                  Findings& findings) {
  std::vector<const FieldDescriptor*> fields;
  part.GetReflection()->ListFields(part, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (std::find(allowed.begin(), allowed.end(), field->name()) == allowed.end()) {
      findings.Wrong(path + field->name(), "is set, but a job that predicts does not train; leave it out");
    }
  }
}

void RefuseTraining(const v1::JobSpec& spec, Findings& findings) {
  RefuseFields("", spec,
               {"name", "model", "data", "precision", "resources", "queue", "priority", "labels", "deadline",
                "max_retries", "predict", "train", "on_divergence"},
               findings);
  RefuseFields("data.", spec.data(), {"predict", "batch_size"}, findings);
  RefuseFields("train.", spec.train(), {"num_threads", "deterministic"}, findings);
  if (spec.on_divergence() != v1::JobSpec::FAIL) {
    findings.Wrong("on_divergence", "is set, but the job predicts and can't diverge; leave it out");
  }
}

// Checks that the weights do not come from a random initialization.
void AdmitWeights(const v1::ModelSpec& model, Findings& findings) {
  if (!model.has_exported() && model.initial_weights().empty() && !model.has_initial_checkpoint()) {
    findings.Wrong("predict",
                   "needs weights that were trained: set model.initial_checkpoint {job_id, step} or "
                   "model.initial_weights");
  }
  if (model.initialize_anew_size() > 0) {
    findings.Wrong("model.initialize_anew", "is set, but a job that predicts draws no weights at random; leave it out");
  }
}

// Checks that the model has a head whose output is a prediction. Only the worker knows the head of a model whose file
// the server has not read.
void AdmitHead(const v1::ModelSpec& spec, const AdmittedModel* model, Findings& findings) {
  const std::optional<graph::Head> head =
      model != nullptr ? graph::HeadOf(model->graph)
                       : graph::HeadNamed(v1::ExportedModelSpec::Head_Name(spec.exported().head()));
  const bool computes_losses = models::IsGan(spec) || head == graph::Head::kOwnLoss || head == graph::Head::kGan ||
                               (model != nullptr && !head.has_value());
  if (computes_losses) {
    findings.Wrong(
        "predict",
        absl::StrCat(
            "is set, but model.", models::KindOf(spec), " computes losses and predicts nothing",
            spec.has_exported() ? "; model.exported.head and model.exported.output may choose another output" : ""));
  }
}

void AdmitBatches(const v1::DataSpec& data, const AdmittedModel* model, Findings& findings) {
  findings.Range("data.batch_size", data.batch_size(), 1, kMaxBatchSize);
  if (model == nullptr || !model->eval.has_value() || data.batch_size() < 1) {
    return;
  }
  const int64_t num_samples = data.predict().synthetic().num_samples();
  const int64_t rest = data.predict().has_synthetic() ? num_samples % data.batch_size() : 0;
  for (const int64_t batch : {int64_t{data.batch_size()}, rest}) {
    if (const std::string fault = batch < 1 ? "" : graph::FaultOfBatch(*model->eval, batch); !fault.empty()) {
      return findings.Wrong("data.batch_size",
                            absl::StrCat("is ", data.batch_size(), ": ", fault, "; give it another size"));
    }
  }
}

}  // namespace

void AdmitPrediction(v1::JobSpec* spec, const AdmittedModel* model, Findings& findings) {
  findings.Rename("data.train.", "data.predict.");  // AdmitModel names fields of data.train in its errors.
  RefuseTraining(*spec, findings);
  AdmitWeights(spec->model(), findings);
  AdmitHead(spec->model(), model, findings);
  v1::PredictSpec* const predict = spec->mutable_predict();
  if (predict->format() == v1::PredictSpec::FORMAT_UNSPECIFIED) predict->set_format(v1::PredictSpec::JSON_LINES);
  if (!v1::PredictSpec::Format_IsValid(predict->format())) {
    findings.Wrong("predict.format", absl::StrCat("is ", predict->format(), "; must be JSON_LINES or NPZ"));
  }
  findings.Range("train.num_threads", spec->train().num_threads(), 0, 1024);
  const bool has_data = spec->data().has_predict();
  const bool of_zoo = model != nullptr && !spec->model().has_exported();
  AdmitSource("data.predict", spec->mutable_data()->mutable_predict(), /*reads_labels=*/false,
              of_zoo ? &model->graph : nullptr, findings);
  if (has_data && spec->model().has_exported()) {
    CheckExportedData(*spec, model == nullptr ? nullptr : &model->graph, findings);
  }
  AdmitBatches(spec->data(), model, findings);
}

}  // namespace ampd::server
