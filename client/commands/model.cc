// Runs ampctl model.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/commands.h"
#include "client/commands/job_source.h"
#include "client/inspect/model_file.h"
#include "client/render/model_text.h"
#include "client/terminal/output.h"
#include "precision/example_device.h"

namespace ampd::client {
namespace {

// The presets that people compare first.
constexpr const char* kUsualPresets[] = {"fp32", "bf16", "fp16", "fp8"};

constexpr int64_t kMostSamples = 1'048'576;  // limit of data.batch_size

void PrintText(Session* session, const v1::ModelFile& file, const ModelQuestion& question) {
  const GlobalOptions& options = session->options();
  const bool wide = options.output == OutputFormat::kWide;
  const std::string text = RenderModelFile(file, {.headings = !options.no_headers,
                                                  .wide = wide,
                                                  .batch_size = question.batch_size,
                                                  .palette = session->palette()});
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!wide && HidesModules(file)) {
    session->Note("every module and tensor: -o wide");
  }
  if (file.policies_size() > 0) {
    session->Note(absl::StrCat("policies with AdamW on a ",
                               question.device.kind() == v1::Device::CPU ? kExampleCpu : kExampleGpu,
                               question.batch_size == 0 ? "; the memory of a step: --batch N" : ""));
  }
}

}  // namespace

int InspectModel(Session* session, const InspectModelOptions& options) {
  if (options.batch_size > kMostSamples) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("--batch is ", options.batch_size, "; a job takes 1 to ", kMostSamples, " samples")));
  }
  ModelQuestion question;
  question.output = options.output;
  question.head = graph::HeadNamed(options.head);
  question.presets = options.presets;
  if (question.presets.empty()) {
    question.presets.assign(std::begin(kUsualPresets), std::end(kUsualPresets));
  }
  question.device = options.device == "cpu" ? precision::ExampleCpu() : precision::ExampleGpu();
  question.batch_size = options.batch_size;
  question.sequence_length = options.sequence_length;
  const auto file = InspectModelFile(options.path, question);
  if (!file.ok()) {
    return session->Fail(file.status());
  }
  if (!PrintStructured(*session, *file)) {
    PrintText(session, *file, question);
  }
  return file->problems().empty() ? kExitOk : kExitFailure;
}

}  // namespace ampd::client
