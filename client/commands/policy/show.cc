#include <google/protobuf/descriptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job_source.h"
#include "client/commands/policy/policy.h"
#include "client/commands/suggestions.h"
#include "client/jobfile/job_file.h"
#include "client/terminal/output.h"
#include "precision/policy.h"

namespace ampd::client {
namespace {

struct PolicyOptions {
  std::string preset;  // empty: the preset of `file`
  std::string model;   // field name in ModelSpec, such as "lenet"; empty: the model of `file`
  std::string file;    // job file; empty: none
  std::string device = "gpu";
};

// Returns the spec for the request: the spec of the job file, in which the preset and the model are replaced by those
// that the command line gives.
absl::StatusOr<v1::JobSpec> SpecOf(const PolicyOptions& options, std::vector<Problem>* problems) {
  v1::JobSpec spec;
  if (!options.file.empty()) {
    const auto text = ReadSource(options.file);
    if (!text.ok()) {
      return text.status();
    }
    const JobFile file = ReadJobFile(*text, options.file == "-" ? "stdin" : options.file, {});
    *problems = file.problems;
    spec = file.spec;
  }
  const std::string model = options.model.empty() && options.file.empty() ? "lenet" : options.model;
  if (const auto* const field = v1::ModelSpec::descriptor()->FindFieldByName(model); field != nullptr) {
    spec.mutable_model()->GetReflection()->MutableMessage(spec.mutable_model(), field);
  }
  if (!options.preset.empty()) {
    spec.mutable_precision()->clear_prefer();
    spec.mutable_precision()->set_preset(options.preset);
  }
  return spec;
}

int ShowPolicy(Session* session, const PolicyOptions& options) {
  if (options.preset.empty() && options.file.empty()) {
    return session->Fail(
        absl::InvalidArgumentError("give one of the presets of ampctl policy list, or a job file with -f"));
  }
  std::vector<Problem> problems;
  const auto spec = SpecOf(options, &problems);
  if (!spec.ok()) {
    return session->Fail(spec.status());
  }
  if (!problems.empty()) {
    return FailWithProblems(problems, options.file);
  }
  return CallAndShow(
      session, [&](JobClient* client) { return client->ResolvePolicy(PolicyRequestOf(*spec, options.device)); },
      [&](const v1::PolicyTable& table) {
        if (PrintStructured(*session, table)) {
          return;
        }
        PrintLines(table.text(), "");
        for (const std::string& warning : table.warnings()) {
          session->Note(absl::StrCat("warning: ", Printable(warning)));
        }
        session->Note(absl::StrCat("on a ", options.device == "cpu" ? kExampleCpu : kExampleGpu));
      });
}

}  // namespace

Command ShowPolicyCommand() {
  const auto options = std::make_shared<PolicyOptions>();
  return {.name = "show",
          .help = "Show what a policy does to each parameter and op of a model",
          .examples =
              "  ampctl policy show bf16\n"
              "  ampctl policy show torch-amp-fp16 --model mlp --device cpu\n"
              "  ampctl policy show -f job.yaml -o json | jq '.parameters'",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {{.name = "preset",
                         .value = &options->preset,
                         .text = "[PRESET]",
                         .help = "Preset, by its name in ampctl policy list (default: the preset of the job file)",
                         .suggest = SuggestWords(precision::PresetNames())},
                        {.name = "--model",
                         .value = &options->model,
                         .text = "MODEL",
                         .help = "Model, by its name in job files (default: the job file's model; lenet without -f)",
                         .choices = {"lenet", "mlp", "resnet", "efficientnet_b0", "gpt2", "bert_classifier", "dcgan"}},
                        {.name = "-f,--file",
                         .value = &options->file,
                         .text = "FILE",
                         .help = "Job file with model, precision rules and optimizer (- for standard input)",
                         .suggest = SuggestFiles,
                         .is_path = true},
                        ExampleDeviceKind(&options->device)},
          .run = [options](Session* session) { return ShowPolicy(session, *options); }};
}

}  // namespace ampd::client
