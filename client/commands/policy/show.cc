#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/commands/arguments.h"
#include "client/commands/job_source.h"
#include "client/commands/policy/policy.h"
#include "client/commands/suggestions.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/violations.h"
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

// Returns the job file's name in messages.
std::string SourceOf(const PolicyOptions& options) { return options.file == "-" ? "stdin" : options.file; }

// Returns the spec for the request: the job file's spec, with the preset and the model of the command line if they are
// given. Stores the parsed job file and its problems in `file`.
absl::StatusOr<v1::JobSpec> SpecOf(const PolicyOptions& options, JobFile* file) {
  if (!options.file.empty()) {
    const auto text = ReadSource(options.file);
    if (!text.ok()) {
      return text.status();
    }
    *file = ReadJobFile(*text, SourceOf(options), {});
  }
  v1::JobSpec spec = file->spec;
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

std::string CheckPreset(const std::string& name) {
  const std::vector<std::string> names = precision::PresetNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return "";
  }
  const std::string nearest = NearestPreset(name);
  return absl::StrCat("there is no preset '", name, "'", nearest.empty() ? "" : "; did you mean '" + nearest + "'?",
                      nearest.empty() ? "." : "", " To list all: ampctl policy list");
}

int ShowPolicy(Session* session, const PolicyOptions& options) {
  if (options.preset.empty() && options.file.empty()) {
    return session->Fail(
        absl::InvalidArgumentError("give one of the presets of ampctl policy list, or a job file with -f"));
  }
  const bool has_others = !options.preset.empty() || !options.model.empty() || options.device != "gpu";
  const ProblemAdvice advice = {.command =
                                    has_others ? "" : CommandWithFile(session->Command("policy show"), options.file)};
  JobFile file;
  const auto spec = SpecOf(options, &file);
  if (!spec.ok()) {
    return session->Fail(spec.status());
  }
  if (!file.problems.empty()) {
    return FailWithProblems(file.problems, advice);
  }
  const auto client = session->Client();
  const auto table = client.ok() ? (*client)->ResolvePolicy(PolicyRequestOf(*spec, options.device)) : client.status();
  if (const auto violations = ViolationsOf(table.status()); !violations.empty() && !options.file.empty()) {
    return FailWithProblems(PlaceViolations(violations, file, SourceOf(options)), advice);
  }
  if (!table.ok()) {
    return session->Fail(table.status());
  }
  if (PrintStructured(*session, *table)) {
    return kExitOk;
  }
  PrintLines(table->text(), "");
  for (const std::string& warning : table->warnings()) {
    session->Note(absl::StrCat("warning: ", Printable(warning)));
  }
  session->Note(absl::StrCat("on a ", options.device == "cpu" ? kExampleCpu : kExampleGpu));
  return kExitOk;
}

}  // namespace

Command ShowPolicyCommand() {
  const auto options = std::make_shared<PolicyOptions>();
  return {
      .name = "show",
      .help = "Show what a policy does to each parameter and op of a model",
      .examples =
          "  ampctl policy show bf16\n"
          "  ampctl policy show torch-amp-fp16 --model mlp --device cpu\n"
          "  ampctl policy show -f job.yaml -o json | jq '.parameters'",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments =
          {{.name = "preset",
            .value = &options->preset,
            .text = "[PRESET]",
            .help =
                "Preset, by its name in ampctl policy list. With -f it may be left out (default: the file's preset)",
            .check = CheckPreset,
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
