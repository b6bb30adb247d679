#include "server/admission/policy_query.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/api/page_budget.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/losses.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "precision/table.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxTextBytes = 1 << 20;                                    // The most bytes of text in a cut table.
constexpr size_t kRowOverhead = 6;                                           // Bytes of a row's tag and length.
constexpr int64_t kMaxSequenceLength = std::numeric_limits<int32_t>::max();  // As for a job's data.

v1::Device DeviceOf(const v1::ResolvePolicyRequest& request) {
  v1::Device device = request.has_device() ? request.device() : precision::ExampleGpu();
  if (device.id().empty()) {
    device.set_id("the device");
  }
  return device;
}

// Keeps the first rows that fit in `room` bytes, drops the rest, and subtracts the size of the kept rows from `room`.
template <typename Row>
void CutRows(const char* what, google::protobuf::RepeatedPtrField<Row>* rows, size_t* room, v1::PolicyTable* table) {
  int num_kept = 0;
  while (num_kept < rows->size() && (*rows)[num_kept].ByteSizeLong() + kRowOverhead <= *room) {
    *room -= (*rows)[num_kept].ByteSizeLong() + kRowOverhead;
    ++num_kept;
  }
  if (num_kept < rows->size()) {
    table->add_warnings(absl::StrCat("the table is cut: it has ", num_kept, " of ", rows->size(), " ", what));
    rows->DeleteSubrange(num_kept, rows->size() - num_kept);
  }
}

// Cuts the table of a very large model, which would exceed the message size that clients accept.
void CutToPage(v1::PolicyTable* table) {
  if (table->ByteSizeLong() <= kMaxPageBytes) {
    return;
  }
  // The rules that the request contained are not cut. A policy's limits keep them far below 4 MiB, the limit of a
  // request.
  std::string& text = *table->mutable_text();
  if (text.size() > kMaxTextBytes) {
    const size_t end = text.rfind('\n', kMaxTextBytes);
    text.resize(end == std::string::npos ? 0 : end + 1);
    table->add_warnings("the text of the table is cut: the model is very large");
  }
  size_t room = kMaxPageBytes - text.size();
  CutRows("parameters", table->mutable_parameters(), &room, table);
  CutRows("buffers", table->mutable_buffers(), &room, table);
  CutRows("ops", table->mutable_ops(), &room, table);
}

}  // namespace

absl::StatusOr<v1::PolicyTable> AnswerPolicyQuery(const v1::ResolvePolicyRequest& request,
                                                  const graph::ExportedModel* uploaded) {
  v1::ModelSpec spec = request.model();
  Findings findings;
  findings.Range("sequence_length", request.sequence_length(), 0, kMaxSequenceLength);
  const std::optional<AdmittedModel> model = AdmitModel(&spec, request.sequence_length(), uploaded, findings);
  findings.UnsupportedIf(spec.has_exported() && uploaded == nullptr, "model.exported", WhyUnseen(spec.exported()));
  AMPD_RETURN_IF_ERROR(findings.ToStatus());
  if (const auto violations = precision::ValidatePolicy(request.precision()); !violations.empty()) {
    return InvalidFields(violations);
  }
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::TrainedGraph(model->graph));
  AMPD_ASSIGN_OR_RETURN(const precision::ResolvedPolicy policy,
                        precision::ResolvePolicy(request.precision(), program, DeviceOf(request),
                                                 precision::KindOf(request.optimizer())));
  v1::PolicyTable table = precision::ToMessage(policy);
  table.mutable_warnings()->Add(model->warnings.begin(), model->warnings.end());
  CutToPage(&table);
  return table;
}

}  // namespace ampd::server
