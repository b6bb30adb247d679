#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/job_source.h"
#include "client/commands/model/model.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/inspect/model_file.h"
#include "client/render/model_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"
#include "precision/example_device.h"
#include "precision/policy.h"

namespace ampd::client {
namespace {

struct InspectModelOptions {
  std::string path;
  int output = 0;                    // which output of the program is used
  std::string head;                  // name of the head, as HeadName returns it; empty: derived from the output
  std::vector<std::string> presets;  // presets whose effect is shown; empty: the usual presets
  std::string device = "gpu";
  int64_t batch_size = 0;  // batch size for which the memory is estimated; 0: no estimate
  int64_t sequence_length = 0;
};

// The presets to show by default: those that people compare first.
constexpr const char* kUsualPresets[] = {"fp32", "bf16", "fp16", "fp8"};

constexpr int64_t kMostSamples = 1'048'576;  // limit of data.batch_size

void PrintText(Session* session, const v1::ModelFile& file, const ModelQuestion& question) {
  const bool wide = session->wide();
  const std::string text = RenderModelFile(file, {.headings = !session->options().no_headers,
                                                  .wide = wide,
                                                  .batch_size = question.batch_size,
                                                  .palette = session->palette(),
                                                  .width = OutputWidth()});
  WriteColoured(text);
  if (!wide && HidesModules(file)) {
    session->Note("to show every module and tensor: -o wide");
  }
  if (file.policies_size() > 0) {
    session->Note(absl::StrCat("the policies are shown for AdamW on a ",
                               question.device.kind() == v1::Device::CPU ? kExampleCpu : kExampleGpu,
                               question.batch_size == 0 ? "; to show the memory of a step: --batch N" : ""));
  }
}

// Shows the content of a torch.export file on this machine and the effect of policies on it, without a server. If a job
// would reject the file, shows the reason and returns exit code 1.
int InspectModel(Session* session, const InspectModelOptions& options) {
  if (options.batch_size > kMostSamples) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("--batch ", options.batch_size, " is too large; a batch has at most ", kMostSamples, " samples")));
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
  const absl::Status readable = CheckInputFile(options.path);
  const auto file = readable.ok() ? InspectModelFile(options.path, question) : readable;
  if (!file.ok()) {
    return session->Fail(file.status());
  }
  if (!PrintStructured(*session, *file)) {
    PrintText(session, *file, question);
  }
  return file->problems().empty() ? kExitOk : kExitFailure;
}

std::vector<Argument> ArgumentsOf(InspectModelOptions* options) {
  return {
      {.name = "path",
       .value = &options->path,
       .text = "FILE",
       .help = "File that torch.export wrote (.pt2), on this machine",
       .required = true,
       .suggest = SuggestFiles,
       .is_path = true},
      {.name = "--preset",
       .value = &options->presets,
       .text = "PRESET",
       .help = "Preset to show, by its name in ampctl policy list; repeatable (default: fp32, bf16, fp16 and fp8)",
       .choices = precision::PresetNames()},
      ExampleDeviceKind(&options->device),
      {.name = "--logits",
       .value = &options->output,
       .text = "N",
       .help = "Which output of the model holds the logits, counted from 0 (default 0)",
       .check = CheckCount},
      {.name = "--head",
       .value = &options->head,
       .text = "HEAD",
       .help = "What the model is trained for, as model.exported.head in a job file: CLASSIFICATION, "
               "LANGUAGE_MODEL, REGRESSION, MULTI_LABEL, OWN_LOSS (its output is its loss) or GAN (default: derived "
               "from its output)",
       .choices = {"CLASSIFICATION", "LANGUAGE_MODEL", "REGRESSION", "MULTI_LABEL", "OWN_LOSS", "GAN"}},
      {.name = "--batch",
       .value = &options->batch_size,
       .text = "N",
       .help = "Estimate the memory of a step with N samples",
       .check = CheckPositiveCount},
      {.name = "--sequence-length",
       .value = &options->sequence_length,
       .text = "N",
       .help = "Length of the texts in tokens, for a model that was exported for texts of any length",
       .check = CheckPositiveCount}};
}

}  // namespace

Command InspectModelCommand() {
  const auto options = std::make_shared<InspectModelOptions>();
  return {.name = "inspect",
          .help = "Show what is in a torch.export file, and what precision policies would do to the model",
          .examples =
              "  ampctl model inspect net.pt2\n"
              "  ampctl model inspect net.pt2 --preset bf16 --preset fp8-block --batch 64 -o wide\n"
              "  ampctl model inspect net.pt2 -o json | jq -r '.problems[]'",
          .formats = AllFormatsBut({OutputFormat::kName}),
          .arguments = ArgumentsOf(options.get()),
          .run = [options](Session* session) { return InspectModel(session, *options); }};
}

}  // namespace ampd::client
