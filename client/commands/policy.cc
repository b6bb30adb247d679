#include <google/protobuf/descriptor.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/commands.h"
#include "client/commands/job_source.h"
#include "client/jobfile/job_file.h"
#include "client/render/table.h"
#include "client/terminal/output.h"
#include "precision/preset.h"

namespace ampd::client {
namespace {

using precision::Preset;

// The spec for the request: the job file's, with the given preset and model instead of its own.
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

}  // namespace

int ListPolicies(Session* session) {
  std::vector<std::vector<std::string>> rows;
  std::vector<PlainFields> fields;
  const auto add = [&](std::string_view name, std::string_view summary) {
    rows.push_back({std::string(name), std::string(summary)});
    fields.push_back({{"preset", std::string(name)}, {"summary", std::string(summary)}});
  };
  for (const Preset& preset : precision::AllPresets()) {
    add(preset.name, preset.summary);
  }
  add(precision::kAuto, "bf16, fp16 or fp32: the first that the device computes natively");
  if (session->options().quiet || session->options().output == OutputFormat::kName) {
    for (const auto& row : rows) {
      std::printf("%s\n", row[0].c_str());
    }
  } else if (!PrintStructured(*session, fields)) {
    std::fputs(RenderTable({"PRESET", "WHAT IT DOES"}, rows, !session->options().no_headers).c_str(), stdout);
  }
  return kExitOk;
}

int ShowPolicy(Session* session, const PolicyOptions& options) {
  if (options.preset.empty() && options.file.empty()) {
    return session->Fail(absl::InvalidArgumentError("give a preset, as in ampctl policy list, or a job file by -f"));
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

}  // namespace ampd::client
