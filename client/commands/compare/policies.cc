#include "client/commands/compare/policies.h"

#include <algorithm>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "client/commands/arguments.h"
#include "client/commands/job/create.h"
#include "client/commands/job_source.h"
#include "client/commands/suggestions.h"
#include "client/jobfile/spec_fields.h"
#include "client/render/format.h"
#include "precision/preset.h"

namespace ampd::client {
namespace {

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names = {kFilePolicy, std::string(precision::kAuto)};
  for (const precision::Preset& preset : precision::AllPresets()) {
    names.emplace_back(preset.name);
  }
  return names;
}

// Suggests completions for the last name of a comma-separated list of policies.
std::vector<std::string> SuggestPolicies(const Typed& typed) {
  const size_t comma = typed.text.rfind(',');
  const std::string before = comma == std::string::npos ? "" : typed.text.substr(0, comma + 1);
  std::vector<std::string> lists;
  for (const std::string& name : PolicyNames()) {
    lists.push_back(before + name);
  }
  return lists;
}

std::string CheckPolicies(const std::string& text) {
  const auto policies = ParsePolicies(text);
  return policies.ok() ? "" : std::string(policies.status().message());
}

}  // namespace

std::vector<Argument> PolicyArguments(PolicyOptions* options, bool is_file_required) {
  return {JobFilePath(&options->file, is_file_required),
          SpecOverrides(&options->overrides),
          {.name = "--policies",
           .value = &options->policies,
           .text = "A,B,...",
           .help = absl::StrCat("Policies to try: presets (see ampctl policy list), and 'file' for the precision that "
                                "the job file sets (default ",
                                kDefaultPolicies, ")"),
           .check = CheckPolicies,
           .suggest = SuggestPolicies}};
}

absl::StatusOr<std::vector<std::string>> ParsePolicies(const std::string& text) {
  std::vector<std::string> policies;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string policy(absl::StripAsciiWhitespace(part));
    if (policy.empty()) {
      return absl::InvalidArgumentError("a name in the list is empty; write a list such as fp32,bf16");
    }
    if (policy != kFilePolicy && !precision::IsPresetName(policy)) {
      const std::string preset = NearestPreset(policy);
      const std::string nearest = preset.empty() ? Nearest(policy, {kFilePolicy}) : preset;
      return absl::InvalidArgumentError(absl::StrCat("there is no preset '", Printable(policy), "'",
                                                     nearest.empty() ? "." : "; did you mean '" + nearest + "'?",
                                                     " To list all: ampctl policy list"));
    }
    if (std::find(policies.begin(), policies.end(), policy) != policies.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the policy '", policy, "' is listed twice"));
    }
    policies.push_back(policy);
  }
  return policies;
}

v1::JobSpec UnderPolicy(const v1::JobSpec& spec, const std::string& policy) {
  v1::JobSpec changed = spec;
  if (policy != kFilePolicy) {
    changed.clear_precision();
    changed.mutable_precision()->set_preset(policy);
  }
  return changed;
}

bool HasOwnPolicy(const v1::JobSpec& spec) {
  v1::PrecisionPolicy rest = spec.precision();
  rest.clear_preset();
  return rest.ByteSizeLong() > 0;
}

OrExitCode<PolicyJob> ReadPolicyJob(Session* session, const PolicyOptions& options, const std::string& command,
                                    bool dry_run) {
  const auto policies = ParsePolicies(options.policies);
  if (!policies.ok()) {
    return session->Fail(policies.status());
  }
  OrExitCode<SubmittedFile> read =
      ReadSubmittedFile(session, {.path = options.file,
                                  .overrides = options.overrides,
                                  .command = options.policies == kDefaultPolicies ? command : ""});
  if (const int* const failed = std::get_if<int>(&read); failed != nullptr) {
    return *failed;
  }
  auto& submitted = std::get<SubmittedFile>(read);
  const JobClient::Retry retry = RetryOf(session, kDefaultRetry);
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  v1::JobSpec spec = submitted.file.spec;
  const auto model = UploadLocalModel(session, options.file, dry_run, kDefaultRetry, &spec);
  if (!model.ok()) {
    return FailRefused(session, model.status(), submitted);
  }
  submitted.model = *model;
  return PolicyJob{submitted, spec, *policies, retry};
}

}  // namespace ampd::client
