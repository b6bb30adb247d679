// Options that users of other programs try.
#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/units.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/jobfile/meant_override.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

// Options of other programs, each with the option of ampctl that has the same meaning.
constexpr struct {
  const char* foreign;
  const char* own;
} kForeignOptions[] = {
    {"--server", "--address"},
    {"--host", "--address"},
    {"--endpoint", "--address"},
    {"--context", "--address"},
    {"--cluster", "--address"},
    {"--format", "--output"},
    {"--filename", "--file"},
    {"--lines", "--tail"},
    {"-n", "--tail"},
    {"-w", "--watch"},
    {"--since-time", "--since"},
    {"--wait", "--follow"},
    {"--watch", "--follow"},
    {"-F", "--file"},
    {"--config", "--file"},
    {"--config-file", "--file"},
    {"--values", "--file"},
    {"--spec", "--file"},
    {"-n", "--tenant"},
    {"--namespace", "--tenant"},
    {"--force", "--yes"},
    {"--test-only", "--dry-run"},
    {"--validate", "--dry-run"},
    {"--check", "--dry-run"},
    {"--sort-by", "--sort"},
    {"-v", "--version"},
    {"-V", "--version"},
    {"--output-file", "--output"},
};

constexpr ForeignOption kRewrittenOptions[] = {
    {"", "--json", "-o json"},
    {"", "--yaml", "-o yaml"},
    {"", "--csv", "-o csv"},
    {"", "--wide", "-o wide"},
    {"", "--format", "-o %"},
    {"", "--no-color", "--color never"},
    {"job list", "-i", "--watch --interval %"},
    {"job list", "--iterate", "--watch --interval %"},
    {"job list", "-n", "--limit %"},
    {"job list", "--state", "--filter state=%"},
    {"job list", "--status", "--filter state=%"},
    {"job list", "--name", "--filter name=%"},
    {"job list", "--node", "--filter worker=%"},
    {"job list", "--nodelist", "--filter worker=%"},
    {"job list", "--owner", "--filter owner=%"},
    {"job list", "--active", kFilterNotEnded},
    {"job list", "--unfinished", kFilterNotEnded},
    {"job list", "--running", "--filter state=running"},
    {"job list", "--queued", "--filter state=queued"},
    {"job list", "--pending", "--filter state=queued"},
    {"job list", "--failed", "--filter state=failed"},
    {"job list", "--tail", "--limit %"},
    {"job list", "--worker", "--filter worker=%"},
    {"job list", "--label", "--filter labels.%"},
    {"job list", "-l", "--filter labels.%"},
    {"job list", "--selector", "--filter labels.%"},
    {"job list", "-t", "--filter state=%"},
    {"job list", "--states", "--filter state=%"},
    {"job list", "-u", "--filter owner=%"},
    {"job list", "--user", "--filter owner=%"},
    {"job list", "--me", "--filter owner=NAME"},
    {"job list", "--mine", "--filter owner=NAME"},
    {"job list", "--author", "--filter owner=%"},
    {"job list", "-s", "--filter state=%"},
    {"job list", "-L", "--limit %"},
    {"job list", "-A", "--tenant '*'"},
    {"job list", "--all-namespaces", "--tenant '*'"},
    {"job logs", "-t", "--tail %"},
    {"job logs", "--run", "--attempt %"},
    {"job points", "--limit", "--downsample-to %"},
    {"job points", "--tail", "--downsample-to %"},
    {"compare", "--policy", "--policies %"},
    {"compare", "--preset", "--policies %"},
    {"compare", "--presets", "--policies %"},
    {"compare", "--precision", "--policies %"},
    {"compare", "--runs", "--repeats %"},
    {"compare", "--seeds", "--repeats %"},
    {"compare", "--trials", "--repeats %"},
    {"compare", "--report", "--html %"},
    {"estimate", "--policy", "--policies %"},
    {"estimate", "--preset", "--policies %"},
    {"estimate", "--precision", "--policies %"},
    {"artifact list", "-j", "--job %"},
    {"job wait", "--state", "--for %"},
    {"job wait", "-t", "--timeout %"},
    {"job update", "-p", "--priority %"},
    {"init", "--template", "--model %"},
    {"auth token create", "--duration", "--expires %"},
    {"auth token create", "--ttl", "--expires %"},
    {"auth token create", "--expiration", "--expires %"},
    {"audit", "-n", "--limit %"},
    {"audit", "--tail", "--limit %"},
    {"audit", "--user", "--caller %"},
    {"audit", "-u", "--caller %"},
    {"job submit", "-n", "--name %"},
    {"job logs", "--limit-bytes", "--tail-bytes %"},
    {"job submit", "--priority", "--set priority=%"},
    {"job submit", "--gpus", "--set resources.kind=GPU"},
    {"job submit", "--nodelist", "--set resources.worker=%"},
    {"job submit", "-w", "--set resources.worker=%"},
    {"job submit", "--worker", "--set resources.worker=%"},
    {"job submit", "--mem", "--set resources.memory_bytes=%"},
    {"job submit", "--time", "--set deadline=%"},
    {"job submit", "-t", "--set deadline=%"},
    {"job submit", "--deadline", "--set deadline=%"},
    {"job submit", "--retry", "--set max_retries=%"},
    {"job submit", "--retries", "--set max_retries=%"},
    {"job submit", "--max-retries", "--set max_retries=%"},
    {"job submit", "--label", "--set labels.%"},
    {"job submit", "-l", "--set labels.%"},
    {"job submit", "--device", "--set resources.kind=%"},
    {"job submit", "--gpu", "--set resources.kind=GPU"},
    {"job submit", "--gres", "--set resources.kind=GPU"},
    {"job submit", "--cpus-per-task", "--set train.num_threads=%"},
    {"job submit", "--threads", "--set train.num_threads=%"},
    {"job submit", "--epochs", "--set train.epochs=%"},
    {"job submit", "--num-epochs", "--set train.epochs=%"},
    {"job submit", "--max-epochs", "--set train.epochs=%"},
    {"job submit", "--num-train-epochs", "--set train.epochs=%"},
    {"job submit", "--steps", "--set train.steps=%"},
    {"job submit", "--num-steps", "--set train.steps=%"},
    {"job submit", "--max-steps", "--set train.steps=%"},
    {"job submit", "--fp16", "--set precision.preset=fp16"},
    {"job submit", "--bf16", "--set precision.preset=bf16"},
    {"job submit", "--amp", "--set precision.preset=auto"},
    {"job submit", "--dtype", "--set precision.preset=%"},
    {"job submit", "--labels", "--set labels.%"},
    {"job submit", "--param", "--set %"},
    {"job submit", "--parameter", "--set %"},
    {"job submit", "--override", "--set %"},
    {"job submit", "--set-string", "--set %"},
    {"job submit", "-p", "--set %"},
    {"job submit", "-s", "--set %"},
    {"job submit", "-v", "--set %"},
    {"job submit", "-D", "--set %"},
    {"job submit", "--seed", "--set train.seed=%"},
    {"job submit", "--batch-size", "--set data.batch_size=%"},
    {"job submit", "--preset", "--set precision.preset=%"},
    {"job submit", "--precision", "--set precision.preset=%"},
    {"job submit", "--job-name", "--name %"},
    {"job submit", "-J", "--name %"},
};

// Options of other programs whose value is the next word, in alphabetical order, without the options of ampctl.
constexpr std::string_view kOptionsWithValue[] = {"--account",
                                                  "--as",
                                                  "--cluster",
                                                  "--container",
                                                  "--context",
                                                  "--cpus-per-gpu",
                                                  "--cpus-per-task",
                                                  "--dependency",
                                                  "--endtime",
                                                  "--field-selector",
                                                  "--gpus",
                                                  "--grace-period",
                                                  "--gres",
                                                  "--image",
                                                  "--job-name",
                                                  "--jobs",
                                                  "--jq",
                                                  "--kubeconfig",
                                                  "--label-columns",
                                                  "--limit-bytes",
                                                  "--mail-type",
                                                  "--mail-user",
                                                  "--mem",
                                                  "--name",
                                                  "--namespace",
                                                  "--nodelist",
                                                  "--nodes",
                                                  "--ntasks",
                                                  "--partition",
                                                  "--priority",
                                                  "--qos",
                                                  "--repo",
                                                  "--runtime-env",
                                                  "--runtime-env-json",
                                                  "--selector",
                                                  "--starttime",
                                                  "--state",
                                                  "--states",
                                                  "--submission-id",
                                                  "--template",
                                                  "--time",
                                                  "--token",
                                                  "--type",
                                                  "--user",
                                                  "--working-dir",
                                                  "-A",
                                                  "-E",
                                                  "-J",
                                                  "-L",
                                                  "-M",
                                                  "-N",
                                                  "-R",
                                                  "-S",
                                                  "-c",
                                                  "-j",
                                                  "-l",
                                                  "-n",
                                                  "-p",
                                                  "-s",
                                                  "-t",
                                                  "-u",
                                                  "-w"};

// Whether every text consists of one to nine digits.
bool AreDigits(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  });
}

// Converts a size of Slurm to ampd's notation: 4G to 4GiB, and 500 to 500MiB. Returns "" if the text is not a size.
std::string SizeOfSlurm(const std::string& text) {
  const std::string digits = text.substr(0, text.find_first_not_of("0123456789"));
  const std::string unit = absl::AsciiStrToUpper(text.substr(digits.size()));
  const bool is_unit = unit.empty() || unit == "K" || unit == "M" || unit == "G" || unit == "T";
  return digits.empty() || !is_unit ? "" : absl::StrCat(digits, unit.empty() ? "M" : unit, "iB");
}

// Converts the value of an option of another program. `own` is ampctl's option, which replaces it.
std::string ValueMeant(std::string_view own, const std::string& value) {
  if (own == "--set deadline=%" && !ParseDuration(value).has_value()) {
    return AreDigits({value}) ? value + "m" : GuessDuration(value);  // Slurm counts minutes.
  }
  if (own == "--set resources.memory_bytes=%") {
    const std::string size = SizeOfSlurm(value);
    return size.empty() ? value : size;
  }
  if (own == "--set resources.kind=%") {
    const std::string kind = absl::AsciiStrToLower(value);
    return kind == "cpu" ? "CPU" : kind.starts_with("gpu") || kind.starts_with("cuda") ? "GPU" : "";
  }
  if (own == "--set precision.preset=%" && !value.empty()) {
    const std::string preset = NearestPreset(value);
    return preset.empty() ? value : preset;
  }
  if (own == "--for %") {
    return StateToWaitFor(value);
  }
  if (own == "--timeout %" || own == "--expires %" || own == "--watch --interval %") {
    return AreDigits({value}) ? value + "s" : value;
  }
  return value;
}

}  // namespace

bool TakesOverrides(const std::string& command) {
  return command == "job submit" || command == "job predict" || command == "compare" || command == "estimate";
}

bool NeedsNoQuotes(const std::string& word) {
  return !word.empty() && word.front() != '-' && word.front() != '=' &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  std::string_view("._/@:-=,%+").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

std::string OptionForForeign(const std::string& option, const std::vector<std::string>& known) {
  for (const auto& [foreign, own] : kForeignOptions) {
    if (option == foreign && std::find(known.begin(), known.end(), own) != known.end()) {
      return own;
    }
  }
  return "";
}

bool TakesNextWord(const std::string& option) {
  return option == "-o" || option == "--output" ||
         std::binary_search(std::begin(kOptionsWithValue), std::end(kOptionsWithValue), option);
}

std::span<const ForeignOption> ForeignOptions() { return kRewrittenOptions; }

std::string RewrittenOption(const std::string& command, const std::string& option, const std::string& value) {
  for (const auto& [of_command, foreign, own] : kRewrittenOptions) {
    // The short options of commands for arrays and comparisons have other meanings.
    const bool is_shared = std::string_view(of_command) == "job submit" &&
                           std::string_view(own).starts_with("--set ") && option.starts_with("--") &&
                           TakesOverrides(command);
    if ((*of_command != '\0' && command != of_command && !is_shared) || option != foreign) {
      continue;
    }
    const std::string_view with_number[] = {"--limit %",   "--tail %",    "--priority %",
                                            "--attempt %", "--repeats %", "--downsample-to %"};
    const bool needs_number = std::find(std::begin(with_number), std::end(with_number), own) != std::end(with_number);
    if (needs_number && !value.empty() && !std::all_of(value.begin(), value.end(), absl::ascii_isdigit)) {
      return "";  // The option has another meaning: kubectl's -n names a namespace.
    }
    if (command == "job submit" && option == "-w" && !NeedsNoQuotes(value)) {
      return "--follow";  // Without a value, -w is kubectl's --watch; with one, it is Slurm's and names a worker.
    }
    // A state's name in another program is converted; a state of ampd stays as the user wrote it.
    const bool is_state = std::string_view(own) == "--filter state=%" && !value.empty();
    const std::string state = is_state ? FilterForStates(value) : "";
    if (is_state && !state.ends_with("=" + absl::AsciiStrToLower(value))) {
      return state;
    }
    if (std::string_view(own) == "--filter owner=%" && !value.empty()) {
      return value == "all" || value == "*" ? "" : FilterForOwners(value);
    }
    if (std::string_view(own) == "--filter labels.%" && !value.empty()) {
      return FilterForLabels(value);
    }
    const std::string_view meaning = own;
    if ((meaning == "--filter name=%" || meaning == "--filter worker=%") && value.find(',') != std::string::npos) {
      return FilterForColumn(meaning == "--filter name=%" ? "name" : "worker", value);
    }
    const bool is_assignment = absl::StrContains(value, "=");
    if ((meaning == "--set %" && !is_assignment) || (meaning == "--name %" && AreDigits({value.substr(0, 1)}))) {
      return "";  // No name of a job begins with a digit: Slurm's -n counts tasks.
    }
    const bool is_known = IsPathInJobFile(value.substr(0, value.find('=')));
    if (meaning == "--set %" && !is_known) {
      return option.starts_with("--") ? "--set PATH=VALUE" : "";
    }
    if (meaning == "--set labels.%" && is_assignment && absl::StrContains(value, ",") && NeedsNoQuotes(value)) {
      return absl::StrCat("--set labels.", absl::StrReplaceAll(value, {{",", " --set labels."}}));
    }
    const std::string meant = ValueMeant(own, value);
    if (meant.empty() && !value.empty() && meaning == "--set deadline=%") {
      return "";  // a date, which is no duration
    }
    return absl::StrReplaceAll(own, {{"%", NeedsNoQuotes(meant) ? meant : "VALUE"}});
  }
  const std::string path = option.substr(std::min<size_t>(2, option.size()));
  const bool is_path =
      TakesOverrides(command) && option.starts_with("--") && absl::StrContains(path, ".") && IsPathInJobFile(path);
  return is_path ? absl::StrCat("--set ", path, "=", NeedsNoQuotes(value) ? value : "VALUE") : "";
}

}  // namespace ampd::client
