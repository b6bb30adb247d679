// Options that users of other programs try.
#include <algorithm>
#include <map>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/foreign_words.h"

namespace ampd::client {
namespace {

// Options of other programs, each with the option of ampctl that has the same meaning.
constexpr struct {
  const char* foreign;
  const char* own;
} kForeignOptions[] = {
    {"--server", "--address"}, {"--host", "--address"},     {"--endpoint", "--address"}, {"--context", "--address"},
    {"--format", "--output"},  {"--filename", "--file"},    {"--lines", "--tail"},       {"-n", "--tail"},
    {"-w", "--watch"},         {"--since-time", "--since"}, {"--wait", "--follow"},      {"--watch", "--follow"},
    {"--sort-by", "--sort"},   {"-v", "--version"},         {"-V", "--version"},         {"--output-file", "--output"},
};

// An option of another program, and what to type instead in ampctl. `own` has % where the option's value belongs. The
// row holds for one command, or for all if `command` is empty.
constexpr struct {
  const char* command;
  const char* foreign;
  const char* own;
} kRewrittenOptions[] = {
    {"", "--json", "-o json"},
    {"", "--yaml", "-o yaml"},
    {"", "--csv", "-o csv"},
    {"", "--wide", "-o wide"},
    {"", "--format", "-o %"},
    {"job list", "-n", "--limit %"},
    {"job list", "--state", "--filter state=%"},
    {"job list", "--status", "--filter state=%"},
    {"job list", "--name", "--filter name=%"},
    {"job list", "--worker", "--filter worker=%"},
    {"job list", "--label", "--filter labels.%"},
    {"job list", "-l", "--filter labels.%"},
    {"job list", "--selector", "--filter labels.%"},
    {"job list", "-t", "--filter state=%"},
    {"job list", "--states", "--filter state=%"},
    {"job list", "-u", "--filter owner=%"},
    {"job list", "--user", "--filter owner=%"},
    {"job list", "--me", "--filter owner=NAME"},
    {"job submit", "--priority", "--set priority=%"},
    {"job submit", "--gpus", "--set resources.kind=GPU --set resources.devices=%"},
    {"job submit", "--devices", "--set resources.devices=%"},
    {"job submit", "--nodelist", "--set resources.worker=%"},
    {"job submit", "-w", "--set resources.worker=%"},
    {"job submit", "--worker", "--set resources.worker=%"},
    {"job submit", "--mem", "--set resources.memory_bytes=%"},
    {"job submit", "--time", "--set deadline=%"},
    {"job submit", "--epochs", "--set train.epochs=%"},
    {"job submit", "--steps", "--set train.steps=%"},
    {"job submit", "--seed", "--set train.seed=%"},
    {"job submit", "--batch-size", "--set data.batch_size=%"},
    {"job submit", "--preset", "--set precision.preset=%"},
    {"job submit", "--precision", "--set precision.preset=%"},
    {"job submit", "--job-name", "--name %"},
    {"job submit", "-J", "--name %"},
};

// An option that no option of ampctl replaces, and what to do.
constexpr struct {
  const char* command;
  const char* foreign;
  const char* answer;
} kAnswers[] = {
    {"job list", "--all", "leave it out: ampctl job list lists jobs in all states"},
    {"job list", "-a", "leave it out: ampctl job list lists jobs in all states"},
    {"job list", "-A", "leave it out: ampctl job list lists jobs in all states"},
    {"job cancel", "--all",
     "to cancel all running jobs: ampctl job list -q --filter state=running | xargs -r ampctl job cancel"},
    {"job pause", "--all",
     "to pause all running jobs: ampctl job list -q --filter state=running | xargs -r ampctl job pause"},
    {"job resume", "--all",
     "to resume all paused jobs: ampctl job list -q --filter state=paused | xargs -r ampctl job resume"},
    {"job delete", "--all",
     "to delete all failed jobs: ampctl job list -q --filter state=failed | xargs -r ampctl job delete -y"},
    {"job wait", "--all",
     "to wait for all running jobs: ampctl job list -q --filter state=running | xargs -r ampctl job wait"},
    {"job clone", "--set",
     "a clone has the fields of its job; to change one: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job retry", "--set",
     "a retry continues the same job; to change a field: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job resume", "--set",
     "a resumed job is the same job; to change a field: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job logs", "--previous", "to read the log of an earlier attempt: ampctl job logs --attempt N ID"},
    {"job logs", "-p", "to read the log of an earlier attempt: ampctl job logs --attempt N ID"},
    {"worker list", "--all", "leave it out: ampctl worker list lists all workers"},
    {"worker list", "-a", "leave it out: ampctl worker list lists all workers"},
};

// The states of jobs, as users of other programs call them.
const std::map<std::string_view, std::string_view>& States() {
  static const auto* const kStates = new std::map<std::string_view, std::string_view>{
      {"queued", "queued"},       {"pending", "queued"},    {"waiting", "queued"},      {"running", "running"},
      {"paused", "paused"},       {"suspended", "paused"},  {"succeeded", "succeeded"}, {"completed", "succeeded"},
      {"done", "succeeded"},      {"success", "succeeded"}, {"failed", "failed"},       {"failure", "failed"},
      {"in_progress", "running"}, {"error", "failed"},      {"r", "running"},           {"pd", "queued"},
      {"cd", "succeeded"},        {"f", "failed"},          {"ca", "cancelled"},        {"s", "paused"},
      {"cancelled", "cancelled"}, {"canceled", "cancelled"}};
  return *kStates;
}

}  // namespace

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

std::string RewrittenOption(const std::string& command, const std::string& option, const std::string& value) {
  for (const auto& [of_command, foreign, own] : kRewrittenOptions) {
    if ((*of_command != '\0' && command != of_command) || option != foreign) {
      continue;
    }
    if (std::string_view(own) == "--limit %" && !value.empty() &&
        !std::all_of(value.begin(), value.end(), absl::ascii_isdigit)) {
      return "";  // kubectl's -n names a namespace.
    }
    // Other programs have other words for the states; a word that is ours stays as it is.
    const std::string state = std::string_view(own) == "--filter state=%" ? FilterForState(value) : "";
    if (!state.empty() && !state.ends_with("=" + absl::AsciiStrToLower(value))) {
      return state;
    }
    return absl::StrReplaceAll(own, {{"%", NeedsNoQuotes(value) ? value : "VALUE"}});
  }
  return "";
}

std::string AnswerToOption(const std::string& command, const std::string& option) {
  if (!command.empty() && (option == "-v" || option == "--verbose" || option == "--debug")) {
    return "leave it out: no command says more with it; to see the version: ampctl version";
  }
  for (const auto& [of_command, foreign, answer] : kAnswers) {
    if (command == of_command && option == foreign) {
      return answer;
    }
  }
  return "";
}

std::string FilterForState(const std::string& word) {
  const auto state = States().find(absl::AsciiStrToLower(word));
  return state == States().end() ? "" : absl::StrCat("--filter state=", std::string(state->second));
}

}  // namespace ampd::client
