#include "client/commands/compare/compare.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/compare/await_jobs.h"
#include "client/commands/compare/collect.h"
#include "client/commands/compare/submit_policies.h"
#include "client/commands/find_job.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/render/job_text.h"
#include "client/render/shell_word.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"
#include "precision/preset.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxJobs = 200;

struct CompareOptions {
  SubmitPoliciesOptions submit;
  std::vector<std::string> ids;
  std::string label;  // id of an earlier comparison
  std::string baseline;
  Rates rates;
  std::string html_file;
  bool force = false;
};

// Returns whether the name is that of an existing job file. Any other name means a job.
bool IsJobFile(const std::string& name) {
  std::error_code error;
  return (name.ends_with(".yaml") || name.ends_with(".yml")) && std::filesystem::is_regular_file(name, error);
}

// Returns an error text for a wrong combination of options; "" if the combination is right.
std::string ProblemIn(const Session& session, const CompareOptions& options) {
  const SubmitPoliciesOptions& submit = options.submit;
  const bool submits = !submit.policies.file.empty();
  if (submits && !options.ids.empty() && std::all_of(options.ids.begin(), options.ids.end(), precision::IsPresetName)) {
    const bool has_own = submit.policies.policies != kDefaultPolicies;
    return absl::StrCat("write the policies as one word, separated by commas: --policies ",
                        has_own ? submit.policies.policies + "," : "", absl::StrJoin(options.ids, ","));
  }
  if ((submits ? 1 : 0) + (options.label.empty() ? 0 : 1) + (options.ids.empty() ? 0 : 1) != 1) {
    return "give either a job file (-f FILE), or an earlier comparison (--label ID), or the ids of at least two jobs";
  }
  if (!submits &&
      (submit.num_repeats > 1 || !submit.policies.overrides.empty() || submit.policies.policies != kDefaultPolicies)) {
    return "--policies, --set and --repeats need a job file (-f FILE)";
  }
  const auto file = std::find_if(options.ids.begin(), options.ids.end(), IsJobFile);
  if (file != options.ids.end()) {
    return absl::StrCat(Printable(*file),
                        " is a job file, not a job; give it with -f: ", session.Command("compare -f "),
                        ShellPath(Printable(*file)));
  }
  if (options.ids.size() == 1) {
    return "one job cannot be compared; give at least two job ids";
  }
  const auto policies = ParsePolicies(submit.policies.policies);
  if (submits && policies.ok() && policies->size() < 2) {
    return "a comparison needs at least two policies, such as --policies fp32,bf16";
  }
  if (submits && policies.ok() && policies->size() * static_cast<size_t>(submit.num_repeats) > kMaxJobs) {
    return absl::StrCat(policies->size(), " policies with ", submit.num_repeats, " repeats are ",
                        policies->size() * static_cast<size_t>(submit.num_repeats), " jobs; at most ", kMaxJobs,
                        " can be compared");
  }
  if (submits && policies.ok() && !options.baseline.empty() &&
      std::find(policies->begin(), policies->end(), options.baseline) == policies->end()) {
    return absl::StrCat("--baseline: '", options.baseline, "' is not one of the --policies ",
                        options.submit.policies.policies, MeantWord(options.baseline, *policies));
  }
  return "";
}

// Finds the jobs to compare: those of an earlier comparison or those that the command line names. Returns them in the
// order in which they were submitted.
absl::StatusOr<ComparedJobs> FindJobs(const Session& session, JobClient* client, const CompareOptions& options) {
  ComparedJobs compared = {.id = options.label};
  if (!options.label.empty()) {
    const auto list = client->ListJobs(absl::StrCat("labels.", kCompareLabel, "=", options.label), /*limit=*/0);
    if (!list.ok()) {
      return list.status();
    }
    compared.jobs = list->jobs;
    if (compared.jobs.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "no job has the label ", kCompareLabel, "=", Printable(options.label),
          "; to list the jobs of comparisons: ", session.Command("job list --filter 'labels."), kCompareLabel, "=*'"));
    }
  }
  for (const std::string& text : options.ids) {
    AMPD_ASSIGN_OR_RETURN(const std::string id, FindJobId(client, text));
    AMPD_ASSIGN_OR_RETURN(v1::Job job, client->GetJob(id));
    const bool is_new = std::none_of(compared.jobs.begin(), compared.jobs.end(),
                                     [&id](const v1::Job& other) { return other.id() == id; });
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("job ", id, " is given twice; name each job once"));
    }
    compared.jobs.push_back(std::move(job));
  }
  for (const v1::Job& job : compared.jobs) {
    if (job.spec().has_predict()) {
      return absl::InvalidArgumentError(absl::StrCat("job ", job.id(), kPredictsOnly));
    }
  }
  std::sort(compared.jobs.begin(), compared.jobs.end(),
            [](const v1::Job& one, const v1::Job& other) { return one.submit_order() < other.submit_order(); });
  return compared;
}

// Returns the user's options that the suggested command for the verdict contains again, each after a blank, as words of
// a shell.
std::string VerdictOptions(const CompareOptions& options) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    absl::StrAppend(&text, value.empty() ? "" : absl::StrCat(" ", name, " ", ShellPath(Printable(value))));
  };
  const auto number = [](const std::optional<double>& value) { return value.has_value() ? absl::StrCat(*value) : ""; };
  add("--baseline", options.baseline);
  add("--price", number(options.rates.price_per_device_hour));
  add("--energy-price", number(options.rates.price_per_kwh));
  add("--carbon", number(options.rates.carbon_grams_per_kwh));
  add("--html", options.html_file);
  return absl::StrCat(text, options.force ? " --force" : "");
}

OrExitCode<ComparedJobs> JobsToCompare(Session* session, const CompareOptions& options) {
  if (!options.submit.policies.file.empty()) {
    SubmitPoliciesOptions submit = options.submit;
    submit.verdict_options = VerdictOptions(options);
    return SubmitPolicies(session, submit);
  }
  const auto client = session->Client();
  const auto jobs = client.ok() ? FindJobs(*session, *client, options) : client.status();
  if (!jobs.ok()) {
    return session->Fail(jobs.status());
  }
  if (const absl::Status known = CheckBaselineOfJobs(jobs->jobs, options.baseline); !known.ok()) {
    return session->Fail(known);
  }
  return *jobs;
}

void Print(const Session& session, const Comparison& comparison) {
  const OutputFormat format = session.options().output;
  if (PrintStructured(session, StructuredText{JsonReport(comparison, /*indented=*/true),
                                              JsonReport(comparison, /*indented=*/false), YamlReport(comparison)})) {
    return;
  }
  WriteText(format == OutputFormat::kHtml       ? HtmlReport(comparison)
            : format == OutputFormat::kMarkdown ? MarkdownReport(comparison)
                                                : TextReport(comparison, OutputWidth()));
}

absl::Status CheckHtmlFile(const CompareOptions& options) {
  if (options.html_file.empty()) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(CheckInputsAreKept({options.submit.policies.file}, options.html_file));
  return CheckOutputFile(options.html_file, options.force);
}

// Prints which jobs the command waits for. Without a terminal there is no progress bar, so nothing else shows the wait
// until a job ends.
void NoteUnended(const Session& session, const std::vector<v1::Job>& jobs) {
  std::vector<std::string> unended;
  for (const v1::Job& job : jobs) {
    if (!IsTerminal(job.state())) {
      unended.push_back(
          absl::StrCat(job.id(), " (", Printable(job.spec().name()), ", ", v1::Job::State_Name(job.state()), ")"));
    }
  }
  if (!unended.empty()) {
    session.Note(absl::StrCat("waiting for the end of ", absl::StrJoin(unended, ", "),
                              "; Ctrl-C ends the wait and not the jobs"));
  }
}

int Compare(Session* session, const CompareOptions& options) {
  if (const std::string problem = ProblemIn(*session, options); !problem.empty()) {
    return session->Fail(absl::InvalidArgumentError(problem));
  }
  if (const absl::Status allowed = CheckHtmlFile(options); !allowed.ok()) {
    return session->Fail(allowed);
  }
  session->CancelledByInterrupt();
  OrExitCode<ComparedJobs> found = JobsToCompare(session, options);
  if (const int* exit_code = std::get_if<int>(&found)) {
    return *exit_code;
  }
  ComparedJobs& compared = std::get<ComparedJobs>(found);
  if (options.submit.policies.file.empty()) {
    NoteUnended(*session, compared.jobs);
  }
  if (const auto exit_code = AwaitJobs(session, &compared, VerdictOptions(options)); exit_code.has_value()) {
    return *exit_code;
  }
  const auto comparison = Collect(*session->Client(), compared, options.baseline, options.rates);
  if (!comparison.ok()) {
    return session->Fail(comparison.status());
  }
  Print(*session, *comparison);
  if (!options.html_file.empty()) {
    const absl::Status written = WriteOutputFile(options.html_file, HtmlReport(*comparison), options.force);
    if (!written.ok()) {
      const int exit_code = session->Fail(written);
      if (!compared.id.empty()) {
        session->Note(absl::StrCat("  to write the report of these jobs to another file: ",
                                   session->Command("compare --label "), compared.id, " --html FILE"));
      }
      return exit_code;
    }
    session->Note(absl::StrCat("report: ", Printable(options.html_file)));
  }
  return comparison->verdict.recommended.has_value() ? kExitOk : kExitFailure;
}

// Checks that the text can be the id of a comparison. The id becomes a part of a filter.
std::string CheckComparisonId(const std::string& text) {
  constexpr size_t kMaxBytes = 128;  // A label may have at most this many bytes.
  const bool is_id = text.size() <= kMaxBytes && std::all_of(text.begin(), text.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
                     });
  return is_id ? "" : absl::StrCat("'", text, "' is not the id of a comparison, such as c-1a2b3c4d");
}

std::vector<Argument> CompareArguments(CompareOptions* options) {
  std::vector<Argument> arguments = PolicyArguments(&options->submit.policies, /*is_file_required=*/false);
  const auto rate = [](const char* name, std::optional<double>* value, const char* help) {
    return Argument{.name = name, .value = value, .text = "X", .help = help, .check = CheckPositive};
  };
  arguments.insert(
      arguments.end(),
      {{.name = "--repeats",
        .value = &options->submit.num_repeats,
        .text = "N",
        .help = "Run each policy N times (default 1), with the seeds S, S+1, ..., where S is the file's train.seed",
        .check = CheckPositiveCount},
       {.name = "--label",
        .value = &options->label,
        .text = "ID",
        .help = "Print the report of an earlier comparison again, without training anything. ID is the id of the "
                "comparison, such as c-1a2b3c4d. ampctl compare -f prints this id when it starts, and each job of the "
                "comparison has the label compare=ID",
        .check = CheckComparisonId},
       {.name = "--baseline",
        .value = &options->baseline,
        .text = "POLICY",
        .help =
            "Policy with which the others are compared (default: fp32 if it succeeded, or else the first that did)"},
       rate("--price", &options->rates.price_per_device_hour,
            "Price of one device for one hour, in any currency (default: no price)"),
       rate("--energy-price", &options->rates.price_per_kwh,
            "Price of one kWh, in the same currency (default: no price)"),
       rate("--carbon", &options->rates.carbon_grams_per_kwh,
            "CO2 emissions of the electricity, in grams per kWh (default: emissions are not shown)"),
       {.name = "--html",
        .value = &options->html_file,
        .text = "FILE",
        .help = "Also write the report to this file, as one HTML page",
        .suggest = SuggestFiles},
       Force(&options->force),
       {.name = "ids",
        .value = &options->ids,
        .text = "ID...",
        .help = "Jobs to compare: their ids or names, or at least the first 5 characters of their ids",
        .suggest = SuggestJobIds}});
  return arguments;
}

}  // namespace

Command CompareCommand() {
  const auto options = std::make_shared<CompareOptions>();
  return {
      .name = "compare",
      .help =
          "Compare precision policies, and say which one to take. With -f, submit a job under each policy; these jobs "
          "continue after Ctrl-C. With --label or ID..., take jobs that exist, and wait for those that have not ended",
      .examples =
          "  ampctl compare -f job.yaml --policies fp32,bf16,fp16,apex-o2 --repeats 3\n"
          "  ampctl compare -f job.yaml --price 2.50 --html report.html\n"
          "  ampctl compare --label c-1a2b3c4d -o markdown     an earlier comparison again\n"
          "  ampctl compare ID1 ID2 ID3                        jobs that were submitted one by one",
      .formats = {OutputFormat::kTable, OutputFormat::kJson, OutputFormat::kJsonLines, OutputFormat::kYaml,
                  OutputFormat::kMarkdown, OutputFormat::kHtml},
      .arguments = CompareArguments(options.get()),
      .run = [options](Session* session) { return Compare(session, *options); }};
}

}  // namespace ampd::client
