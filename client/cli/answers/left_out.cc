#include "client/cli/answers/left_out.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"

namespace ampd::client {
namespace {

constexpr char kAboutQueue[] = "the server has one queue, without partitions and classes";
constexpr char kAboutAccounts[] = "ampd has no accounts to charge; its groups of users are tenants (--tenant NAME)";
constexpr char kAboutColumns[] = "columns cannot be chosen; -o wide has more, and -o json has everything";
constexpr char kAboutTemplates[] = "ampctl has no templates; jq reads what -o json prints";
constexpr char kAboutOrder[] = "for the fields that ampctl can sort by, see the option --sort in the help";
constexpr char kAboutTimes[] = "lists have no filter by time; -o json has the times of each job";
constexpr char kAboutWorkers[] = "ampctl lists all workers with their states";
constexpr char kAboutMail[] = "the server sends no mail; a script can wait for the job with ampctl job wait ID";
constexpr char kAboutOutput[] = "the server keeps a job's log, which ampctl job logs ID prints";
constexpr char kAboutVariables[] = "a job gets no environment variables from you; all its settings are in the job file";
constexpr char kAboutResources[] = "a job's resources are fields of its file (ampctl help job-file)";
constexpr char kAboutPriority[] = "a job's priority is set with --set priority=N";
constexpr char kAboutOneDevice[] = "a job runs on one device of one worker";
constexpr char kAboutRetries[] =
    "the field max_retries says how often a failed job is tried again (--set max_retries=N)";
constexpr char kAboutArrays[] = "ampd has no job arrays";
constexpr char kAboutSources[] = "ampd knows no branches, commits or triggers";
constexpr char kAboutContainers[] = "a job has one program, the trainer, and no containers";
constexpr char kAboutPaths[] =
    "a job has no file system of its own; to download a file, give its name in the list, and then the file to write";
constexpr char kAboutTarget[] = "a job has no file system of its own";
constexpr char kAboutDeadline[] = "the field deadline takes a duration: --set deadline=2h";
constexpr char kAboutFields[] = "the fields of a job are set when it is submitted: --set PATH=VALUE";
constexpr char kApiOptions[] =
    "-X|--method|-f|-F|--field|--raw-field|-H|--header|--input|-q|--jq|-t|--template|--cache|--paginate|--slurp|-i|"
    "--include|--hostname";
constexpr char kAboutReasons[] = "ampd stores no reason why a worker is drained";

bool IsTemplate(const std::string& value) {
  return value.starts_with("jsonpath") || value.starts_with("custom-columns") || value.starts_with("go-template") ||
         value.starts_with("template");
}
// Whether the value is a query for jq, as gh's -q has it. In ampctl, -q has no value.
bool IsQuery(const std::string& value) { return value.starts_with('.') || value.starts_with('['); }
bool IsOtherFormat(const std::string& value) { return !value.empty() && ForeignValue(kListFormat, value).empty(); }
bool IsOtherOrder(const std::string& value) { return !value.empty() && ForeignValue(kListOrder, value).empty(); }
bool IsNoTimeLimit(const std::string& value) { return RewrittenOption("job submit", "--time", value).empty(); }
bool IsOtherSelector(const std::string& value) { return ForeignValue(kFieldSelector, value).empty(); }

// When OptionsLeftOut names the option of a row.
enum class When {
  kAlways,     // even if the advice depends on the option: the advice may keep only a part of what it asks for
  kIfDropped,  // only if the option has no effect on the advice
};

// Options of other programs that have no equivalent in ampctl. `command` is the first word of a command, or its first
// two words: "run|run list". An option without a dash stands for Slurm's KEY=VALUE. A row holds for all values of the
// options, or only for those that `applies` accepts. If several rows fit an option, the first one is used.
constexpr struct {
  const char* command = "";
  const char* options = "";
  const char* text = "";
  bool (*applies)(const std::string& value) = nullptr;
  When when = When::kAlways;
} kLeftOut[] = {
    {"get events|get event|get ev|events|event", "--sort-by", "ampctl job events prints them in the order of time"},
    {"get events|get event|get ev|events|event", "--field-selector", "ampctl job events prints all events of one job",
     IsOtherSelector},
    {"get nodes|get node|get no|describe nodes|describe node|describe no",
     "-l|--selector|--show-labels|-L|--label-columns", "workers have no labels"},
    {"get", "--show-labels|-L|--label-columns", "-o json has the labels of each job"},
    {"logs|exec|attach|top|describe|get|debug|cp|port-forward", "-c|--container|--containers", kAboutContainers},
    {"drain", "--grace-period",
     "before a job moves to another worker, it writes a checkpoint, however long that takes"},
    {"drain", "--timeout|--skip-wait-for-delete-timeout", "ampctl worker drain does not wait for the jobs"},
    {"delete", "-f|--filename", "give the job's ID, or the value of the field `name` in the job file"},
    {"delete", "--ignore-not-found", "an ID that does not exist is an error"},
    {"delete", "--timeout|--propagation-policy", "ampctl cancels and deletes without waiting"},
    {"patch", "-p|--patch|--type|--patch-file", kAboutFields},
    {"explain", "--recursive|--api-version", "docs/job-file.md describes all fields"},
    {"debug", "--image|--target|--copy-to|--profile", kAboutContainers},
    {"run view", "-a|--attempt",
     "ampctl job events ID lists all runs of a job, and job logs --attempt N reads their logs"},
    {"run watch", "-i|--interval|--compact", "ampctl job watch shows each change at once"},
    {"run rerun", "-d|--debug", "ampctl has no verbose output"},
    {"run list", "-w|--workflow", "a list has a filter for the names of jobs (--filter name=NAME), not for their files",
     LooksLikeJobFile},
    {"auth login|login", "--with-token", "ampctl login reads the token from stdin in any case"},
    {"login|refresh|auth login|auth refresh",
     "-w|--web|-p|--git-protocol|-s|--scopes|-c|--clipboard|--skip-ssh-key|--insecure-storage",
     "ampctl login asks only for a token, which has the roles with which it was made"},
    {"status|auth status", "-t|--show-token", "ampctl auth token create shows a token's text, and only once", nullptr,
     When::kIfDropped},
    {"switch|logout|auth switch|auth logout", "-u|--user", "a named server has one token"},
    {"status|auth status", "--active", "ampctl auth whoami asks one server", nullptr, When::kIfDropped},
    {"release list|release ls", "-L|--limit|--exclude-drafts|--exclude-pre-releases|-O|--order",
     "ampctl artifact list prints all files"},
    {"release create|release upload",
     "-t|--title|-n|--notes|-F|--notes-file|--target|-d|--draft|-p|--prerelease|--generate-notes|--latest|--clobber",
     "a file on the server has no notes and no versions"},
    {"release download", "-p|--pattern|-D|--dir|-O|--output|-A|--archive|--clobber|--skip-existing",
     "ampctl artifact download takes one name, and then the file to write"},
    {"api", kApiOptions, "ampctl has no command that sends a request that you write yourself"},
    {"cache", "-a|--all|-L|--limit|-k|--key|-r|--ref|-S|--sort|-O|--order", "there is no cache"},
    {"variable|variables", "-b|--body|-e|--env|-r|--repos|-o|--org|-f|--env-file",
     "write the value into --set PATH=VALUE"},
    {"sacct", "-r|--partition", kAboutQueue},
    {"sacct", "-b|--brief|-e|--helpformat", kAboutColumns},
    {"sacct", "-p|--parsable|-P|--parsable2", "ampctl job show prints no CSV; -o json has everything", nullptr,
     When::kIfDropped},
    {"sacct", "--units|--noconvert", "sizes have the unit that fits them; in -o json they are bytes"},
    {"sacct", "-D|--duplicates", "a job keeps its id in all its runs; ampctl job events ID lists them"},
    {"squeue", "-s|--steps|--step", "a job has no job steps; ampctl job points ID prints its training steps"},
    {"sinfo", "-s|--summarize|-e|--exact", "ampctl prints one line for each worker"},
    {"sprio", "-w|--weights|-n|--norm|--factors", "a job's priority is one number"},
    {"sprio", "-S|--sort", kAboutOrder},
    {"sstat", "-o|--format|-p|--parsable|-P|--parsable2|-n|--noheader", kAboutColumns},
    {"sbatch|srun|salloc", "-x|--exclude",
     "workers can't be excluded; to name the worker on which the job runs: --set resources.worker=NAME"},
    {"sbatch|srun|salloc", "-C|--constraint",
     "workers have no features; a job can name a kind of device (--set resources.kind=GPU) or a worker (--set "
     "resources.worker=NAME)"},
    {"sbatch|srun|salloc", "--reservation",
     "workers can't be reserved; jobs with a higher priority start first (--set priority=N)"},
    {"sbatch|srun|salloc", "--deadline", kAboutDeadline, nullptr, When::kIfDropped},
    {"sbatch|srun|salloc", "-b|--begin", "a job starts as soon as a worker is free", nullptr, When::kIfDropped},
    {"sbatch|srun|salloc|qsub", "-a|--array", kAboutArrays, nullptr, When::kIfDropped},
    {"sbatch|srun|salloc", "-W|--wait", "to wait for the job: ampctl job wait ID", nullptr, When::kIfDropped},
    {"scontrol", "partition|qos|reservation", kAboutQueue, nullptr, When::kIfDropped},
    {"sacctmgr", "user|users|account|accounts|cluster|clusters|partition|format",
     "ampctl auth token list prints all tokens", nullptr, When::kIfDropped},
    {"scontrol", "account", kAboutAccounts, nullptr, When::kIfDropped},
    {"scontrol", "numnodes|numtasks|ntaskspernode", kAboutOneDevice, nullptr, When::kIfDropped},
    {"scontrol", "comment|admincomment", "a text about the job can be a label (--set labels.KEY=VALUE)", nullptr,
     When::kIfDropped},
    {"scontrol", "dependency", "a job can't wait for another; in a script: ampctl job wait ID", nullptr,
     When::kIfDropped},
    {"scontrol", "starttime|eligibletime", "a job starts as soon as a worker is free", nullptr, When::kIfDropped},
    {"scontrol", "timelimit", kAboutDeadline, IsNoTimeLimit},
    {"scontrol", "nice", "in ampd, jobs with a higher priority start first, and a priority may be negative"},
    {"scontrol", "timelimit|jobname|nodelist|reqnodelist|minmemorynode|gres|cpuspertask|numcpus", kAboutFields, nullptr,
     When::kIfDropped},
    {"squeue|sinfo|sprio|scancel|sbatch|srun|salloc", "-p|--partition", kAboutQueue},
    {"squeue|sacct|scancel", "-q|--qos", kAboutQueue},
    {"sbatch|srun|salloc", "-q|--qos", kAboutPriority},
    {"launch|exec|run|submit|apply|create|train", "--gpus|--gres|--devices", kAboutOneDevice, IsMoreThanOne},
    {"squeue|sacct|sprio|sshare|scancel|sbatch|srun|salloc|sreport", "-A|--account", kAboutAccounts},
    {"squeue|sacct", "-o|--format|-O|--Format", kAboutColumns, IsOtherFormat},
    {"sinfo|sprio|sshare|bjobs", "-o|--format|-O|--Format", kAboutColumns},
    {"squeue", "-S|--sort", kAboutOrder, IsOtherOrder},
    {"sinfo", "-S|--sort", kAboutOrder},
    {"sacct", "-S|--starttime|-E|--endtime", kAboutTimes},
    {"sinfo", "-n|--nodes|-t|--states", kAboutWorkers},
    {"sinfo", "-r|--responding|-d|--dead", kAboutWorkers},
    {"sinfo", "-R|--list-reasons", kAboutReasons},
    {"scontrol", "reason", kAboutReasons},
    {"squeue", "-R|--reservation", "workers can't be reserved"},
    {"scancel|bkill", "-s|--signal", "a job gets no signals"},
    {"sbatch|srun|salloc", "-N|--nodes|-n|--ntasks|--ntasks-per-node", kAboutOneDevice, IsMoreThanOne},
    {"sbatch|srun|salloc", "-G|--gpus|--gres|--gpus-per-node|--gpus-per-task", kAboutOneDevice, IsMoreThanOne},
    {"sbatch|srun|salloc", "--nice", kAboutPriority},
    {"sbatch|srun|salloc", "--mail-type|--mail-user", kAboutMail},
    {"sbatch|srun|salloc", "-o|--output|-e|--error|--open-mode", kAboutOutput},
    {"sbatch|srun|salloc", "-i|--input|-D|--chdir", "a job file names the data that the job reads"},
    {"sbatch|srun|salloc", "--export|--export-file", kAboutVariables},
    {"sbatch|srun|salloc", "--requeue|--no-requeue", kAboutRetries},
    {"sbatch|srun|salloc", "--signal", "a job gets no signals"},
    {"sbatch|srun|salloc", "--mem-per-cpu|--tmp|--exclusive", kAboutResources},
    {"sbatch|srun|salloc", "--comment", "a text about the job can be a label (--set labels.KEY=VALUE)"},
    {"qsub|bsub|bjobs|bkill|bstop|bresume", "-q", kAboutQueue},
    {"qsub", "-l|-pe", kAboutResources},
    {"bsub", "-R|-M|-W", kAboutResources},
    {"bsub", "-n", kAboutOneDevice, IsMoreThanOne},
    {"qsub|bsub", "-o|-e|-oo|-eo|-j", kAboutOutput},
    {"qsub", "-m|-M", kAboutMail},
    {"bsub", "-u|-N", kAboutMail},
    {"qsub", "-v|-V", kAboutVariables},
    {"bsub", "-env", kAboutVariables},
    {"qsub", "-A|-P", kAboutAccounts},
    {"bsub|bjobs", "-P|-G", kAboutAccounts},
    {"get|describe|list|top", "-o|--output", kAboutTemplates, IsTemplate},
    {"get|describe|list|top|logs|events|wait|apply|create", "-o|--output",
     "the command has other formats, which its --help names", nullptr, When::kIfDropped},
    {"get|list|run", "--template|--jq", kAboutTemplates},
    {"run", "-q", kAboutTemplates, IsQuery},
    {"run list", "--created", kAboutTimes},
    {"run list", "-b|--branch|-c|--commit|-e|--event", kAboutSources},
    {"workflow run|workflow view", "-r|--ref", kAboutSources},
    {"run download", "-n|--name|-p|--pattern",
     "ampctl artifact download NAME downloads one of the files that ampctl artifact list prints"},
    {"run download", "-D|--dir", "the last argument of a download command is the file or folder to write"},
    {"get|list|top", "--sort-by", kAboutOrder, IsOtherOrder},
    {"get", "--field-selector", "a filter may use the columns that ampctl job list --help names", IsOtherSelector},
    {"wait", "--for", "ampctl job wait waits for the end of a job or, with --for, until it is RUNNING or PAUSED",
     [](const std::string& value) {
       const std::string state = absl::AsciiStrToLower(value.substr(value.rfind('=') + 1));
       constexpr std::string_view kEnds[] = {"complete", "completed", "succeeded", "failed", "delete", "finished"};
       return StateToWaitFor(value).empty() && std::find(std::begin(kEnds), std::end(kEnds), state) == std::end(kEnds);
     }},
    {"config", "--token", "ampctl login asks for the token, or reads it from stdin"},
};

bool IsInRow(const std::string& word, const char* words) {
  const std::vector<absl::string_view> list = absl::StrSplit(words, '|');
  return std::find(list.begin(), list.end(), word) != list.end();
}

// The options that are left out for the same reason.
struct LeftOut {
  std::string_view reason;
  std::vector<std::string> options;
};

// Adds the option to those that are left out for this reason.
void AddLeftOut(const std::string& option, std::string_view reason, std::vector<LeftOut>* left_out) {
  auto same =
      std::find_if(left_out->begin(), left_out->end(), [reason](const LeftOut& one) { return one.reason == reason; });
  if (same == left_out->end()) {
    same = left_out->insert(same, {reason, {}});
  }
  if (std::find(same->options.begin(), same->options.end(), option) == same->options.end()) {
    same->options.push_back(option);
  }
}

// Whether the word is a job of Slurm with the number of a task: 5_3 or 5_[1-3].
bool IsTask(const std::string& word) {
  const size_t task = word.find('_');
  return task != std::string::npos && task + 1 < word.size() && !word.starts_with('-') &&
         word.find('=') == std::string::npos && (absl::ascii_isdigit(word[task + 1]) || word[task + 1] == '[');
}

}  // namespace

std::string OptionsLeftOut(const std::vector<std::string>& words, const std::vector<std::string>& dropped) {
  const size_t num_programs = words.size() > 1 && IsProgram(words[0]) ? 1 : 0;
  const std::string& command = words[num_programs];
  const std::string with_next =
      num_programs + 1 < words.size() ? absl::StrCat(command, " ", words[num_programs + 1]) : command;
  const bool is_download =
      command == "cp" && num_programs + 2 < words.size() && absl::StrContains(words[num_programs + 1], ":");
  std::vector<LeftOut> left_out;
  for (size_t i = num_programs + 1; i < words.size() && words[i] != "--" && !BeginsScript(command, words[i]); ++i) {
    const size_t equals = words[i].find('=');
    const std::string option = words[i].substr(0, equals);
    const bool is_option = option.starts_with('-');
    const std::string name = is_option ? option : absl::AsciiStrToLower(option);
    const std::string behind = i + 1 < words.size() ? words[i + 1] : "";
    const std::string value = equals == std::string::npos ? behind : words[i].substr(equals + 1);
    const bool is_dropped = std::find(dropped.begin(), dropped.end(), option) != dropped.end();
    for (const auto& row : kLeftOut) {
      const bool is_command = IsInRow(command, row.command) || IsInRow(with_next, row.command);
      if ((is_option || equals != std::string::npos) && is_command && IsInRow(name, row.options) &&
          (row.when == When::kAlways || is_dropped) && (row.applies == nullptr || row.applies(value))) {
        AddLeftOut(option, row.text, &left_out);
        break;
      }
    }
    if (const size_t limit = value.find('%');
        IsInRow(name, "-a|--array") && limit != std::string::npos && IsInRow(command, "sbatch")) {
      AddLeftOut(value.substr(limit), "the number of free workers decides how many jobs run at once", &left_out);
    }
    if (command == "cp" && !is_option && (is_download || absl::StrContains(words[i], ":"))) {
      AddLeftOut(words[i], is_download ? kAboutPaths : kAboutTarget, &left_out);
    }
    if (IsTask(words[i]) && IsInRow(command, "scancel|squeue|sacct|scontrol")) {
      AddLeftOut(words[i].substr(words[i].find('_')), kAboutArrays, &left_out);
    }
    i += option == "-S" ? 1 : 0;  // In Slurm's `-S -p`, -p is the value of -S.
  }
  for (const std::string& option : dropped) {
    const bool is_known = std::any_of(left_out.begin(), left_out.end(), [&option](const LeftOut& one) {
      return std::find(one.options.begin(), one.options.end(), option) != one.options.end();
    });
    if (!is_known) {
      AddLeftOut(option, "", &left_out);
    }
  }
  std::string result;
  for (const LeftOut& one : left_out) {
    absl::StrAppend(&result, "; ", absl::StrJoin(one.options, " and "), one.options.size() > 1 ? " are" : " is",
                    " left out", one.reason.empty() ? "" : ": ", std::string(one.reason));
  }
  return result;
}

}  // namespace ampd::client
