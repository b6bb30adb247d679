#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/formats/zip_archive.h"
#include "client/inspect/model_file.h"
#include "client/render/model_text.h"
#include "graph/determinism.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "precision/cost/memory.h"
#include "precision/cost/step_flops.h"
#include "precision/example_device.h"
#include "precision/optimizer_kind.h"
#include "precision/policy.h"
#include "tests/fuzz/target.h"

namespace ampd::graph {
namespace {

constexpr int64_t kMaxEntries = 100;
constexpr int64_t kBatchSize = 8;

// Describes the model for a device, and computes what the server's EstimateJob computes beside the description.
// `imported` has the programs, or why there are none.
void Estimate(const ExportedModel& model, const absl::StatusOr<ImportedPrograms>& imported, const v1::Device& device) {
  const v1::ModelFile described = client::DescribeModel(
      model, {.presets = {"fp32", "bf16", "fp16", "fp8"}, .device = device, .batch_size = kBatchSize});
  fuzz::Require(described.problems().empty() == imported.ok(), "what a job refuses is a problem");
  fuzz::Require(!client::RenderModelFile(described, {}).empty(), "there is something to say");
  if (!imported.ok()) {
    return;
  }
  FindNondeterministicOp(imported->train);
  const auto programs = precision::TrainedPrograms::Of(imported->train, &imported->eval);
  const auto policy = programs.ok() ? precision::ResolvePolicy(v1::PrecisionPolicy(), programs->train, device,
                                                               precision::OptimizerKind::kAdam)
                                    : programs.status();
  if (policy.ok()) {
    const auto flops = precision::CountStepFlops(*programs, *policy, device, kBatchSize, /*num_micro_batches=*/1);
    fuzz::Require(!flops.ok() || flops->flops >= 0, "no step has less than no work");
  }
}

// Imports the model's programs, and checks that each imported program is a consistent graph. Returns the error if an
// import fails.
absl::Status Import(const ExportedModel& model) {
  const auto train = ImportProgram(model, model.train);
  fuzz::Require(!train.ok() || train->Check().ok(), "a graph holds together");
  const auto eval = ImportEvalProgram(model);
  fuzz::Require(!eval.ok() || eval->Check().ok(), "a graph holds together");
  for (const std::string& refused : RefusedOps(model.train)) {
    fuzz::Require(!refused.empty(), "an op has a name");
  }
  const auto imported = ImportPrograms(model, {});
  for (const v1::Device& device : {precision::ExampleCpu(), precision::ExampleGpu()}) {
    Estimate(model, imported, device);
  }
  return train.ok() ? eval.status() : train.status();
}

absl::Status ReadArchive(const data::DataFile& file) {
  auto opened = data::OpenDataFile(file);
  fuzz::Require(opened.ok(), "the input can be opened");
  const auto archive = ZipArchive::Open(*std::move(opened), kMaxEntries);
  if (!archive.ok()) {
    return archive.status();
  }
  const auto model = ReadExportedModel(*archive);
  if (!model.ok()) {
    return model.status();
  }
  for (const auto& [name, tensor] : model->state) {
    const auto content = ReadStored(*archive, tensor);
    if (!content.ok()) {
      return content.status();
    }
    fuzz::Require(static_cast<int64_t>(content->size()) >= ReachOf(tensor) * ItemSizeBytes(tensor.dtype),
                  "a tensor's content reaches as far as its sizes and strides");
  }
  return Import(*model);
}

absl::Status ReadJson(std::string text) {
  const auto model = ParseExportedModel(std::move(text));
  return model.ok() ? Import(*model) : model.status();
}

}  // namespace
}  // namespace ampd::graph

// If the input begins with '{', reads it as the JSON of an exported model that a checkpoint stores. Otherwise reads it
// as an archive that torch.export wrote.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::Status status = text.starts_with('{') ? ampd::graph::ReadJson(text)
                                                    : ampd::graph::ReadArchive(ampd::fuzz::WriteInput(data, size));
  ampd::fuzz::Judge(status.ok() ? status : ampd::data::DataError("input", std::string(status.message())));
  return 0;
}
