// Answers to options, and to words after a command, for which ampctl has no replacement.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/answers/foreign_values.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/several_jobs.h"
#include "client/cli/answers/tables/foreign_answers.h"
#include "client/cli/answers/tables/missing_things.h"

namespace ampd::client {
namespace {

constexpr char kOneQueue[] = "leave this option out: the server has one queue, which holds all jobs";
constexpr char kWatchEvents[] = "to follow the events of a job: ampctl job watch ID";
constexpr char kTokenText[] =
    "to list the tokens: ampctl auth token list; a token's text is shown only by ampctl auth token create";

constexpr char kNoTimes[] =
    "lists have no filter by time; the newest jobs come first, and -o json has the times of each job";
constexpr char kPlainId[] = "leave this option out: the job's id or name is an argument without an option";
constexpr char kShowOne[] = "to show a job: ampctl job show ID";
constexpr char kEvents[] = "to list a job's events: ampctl job events ID";
constexpr char kPoints[] = "to print a job's steps and evaluations: ampctl job points ID";
constexpr char kWatch[] = "to watch a job: ampctl job watch ID";
constexpr char kFromStart[] = "to run a job again from the start: ampctl job clone ID";
constexpr char kNewName[] = "the name is an argument without an option: ampctl auth token create NAME --role ROLE";
constexpr char kAddress[] = "the address is an argument without an option: ampctl context add NAME ADDRESS";
constexpr char kShell[] = "the shell is an argument without an option: ampctl completion %";
constexpr char kThenWait[] = "to wait until the job has ended: ampctl job wait ID";
constexpr char kNoGrace[] =
    "leave this option out: ampctl job delete does not wait, and deletes only a job that has ended";
constexpr char kDrainsAll[] =
    "leave this option out: ampctl worker drain moves all jobs, and each writes a checkpoint first";
constexpr char kOneProgram[] = "leave this option out: a job has one program, the trainer";
constexpr char kSetValue[] = "--set takes the value itself, and reads no file: --set PATH=VALUE";
constexpr char kCannotRemove[] = "--set cannot remove a field; remove it in the file";
constexpr char kFromServer[] = "leave this option out: to get the files of a job, ampctl checkpoint download ID";
constexpr char kColumns[] =
    "leave this option out: -o wide prints more columns, and -o csv and -o json print all of them";
constexpr char kNoWorkerFilter[] =
    "leave this option out: ampctl worker list lists all workers; -o json | jq . or grep selects some of them";
constexpr char kNewestEvents[] = "to print the newest events of a job: ampctl job events ID | tail -n %";
constexpr char kNewFolder[] =
    "leave this option out: the folder must be new, empty, or hold this same checkpoint, whose files are written again";
constexpr char kFieldsAreFixed[] =
    "after a job is submitted, only its priority can be changed; to run it with other fields: ampctl job submit -f "
    "FILE "
    "--set PATH=VALUE";
constexpr char kScalesLoss[] =
    "ampctl job scale sets the loss scale of a job, not its number of devices: every job runs on one device. To run "
    "a job once more: ampctl job clone ID";
constexpr char kDevPort[] =
    "the server of ampctl dev listens on this machine only; to choose its port: ampctl dev --port N (0: a free one)";
constexpr char kLogTimes[] = "leave this option out: each line of the log begins with its time";

constexpr char kJq[] =
    "leave this option out: ampctl has no templates; jq reads what -o json prints: ampctl job list -o json | jq .";

// An option, or a word after a command, for which ampctl has no replacement, and the sentence that says what to do. %
// stands for the option's value.
constexpr struct {
  const char* command;
  const char* foreign;
  const char* answer;
} kAnswers[] = {
    {"job list", "--all", "leave this option out: ampctl job list lists jobs in all states"},
    {"job list", "-a", "leave this option out: ampctl job list lists jobs in all states"},
    {"job list", "-A", "to list the jobs of all tenants: ampctl job list --tenant '*'"},
    {"job list", "--all-namespaces", "to list the jobs of all tenants: ampctl job list --tenant '*'"},
    {"job list", "--reverse",
     "to sort in descending order, append ,desc to the field: ampctl job list --sort age,desc"},
    {"job list", "--columns", kColumns},
    {"job list", "--column", kColumns},
    {"job list", "--cols", kColumns},
    {"job list", "--fields", kColumns},
    {"job list", "--show", kColumns},
    {"worker list", "--columns", kColumns},
    {"worker list", "--fields", kColumns},
    {"artifact list", "--columns", kColumns},
    {"checkpoint list", "--columns", kColumns},
    {"worker list", "--filter", kNoWorkerFilter},
    {"worker list", "--state", kNoWorkerFilter},
    {"worker list", "--status", kNoWorkerFilter},
    {"job events", "--tail", kNewestEvents},
    {"job events", "--limit", kNewestEvents},
    {"job events", "-n", kNewestEvents},
    {"checkpoint download", "--force", kNewFolder},
    {"checkpoint download", "--overwrite", kNewFolder},
    {"checkpoint download", "--replace", kNewFolder},
    {"job list", "--web", kNoWebPage.purpose},
    {"job list", "-p", kOneQueue},
    {"job list", "--partition", kOneQueue},
    {"job list", "--since", kNoTimes},
    {"job list", "--starttime", kNoTimes},
    {"job list", "-S", kNoTimes},
    {"job list", "-E", kNoTimes},
    {"job list", "-j", kShowOne},
    {"job list", "--jobs", kShowOne},
    {"job list", "--id", kShowOne},
    {"job submit", "--queue", kOneQueue},
    {"job submit", "--partition", kOneQueue},
    {"job submit", "-p", kOneQueue},
    {"job submit", "--lr",
     "the learning rate is a field of the optimizer in the job file; for example: --set "
     "optimizer.adamw.learning_rate=VALUE"},
    {"job submit", "--learning-rate",
     "the learning rate is a field of the optimizer in the job file; for example: --set "
     "optimizer.adamw.learning_rate=VALUE"},
    {"job submit", "--set-file", kSetValue},
    {"job submit", "--set-json", kSetValue},
    {"job submit", "--unset", kCannotRemove},
    {"job submit", "--output-dir", kFromServer},
    {"job submit", "--out", kFromServer},
    {"job submit", "--chdir", kFromServer},
    {"job submit", "-n", kOneDevice.purpose},
    {"job submit", "--array",
     "ampctl submits one job at a time; in a shell: for i in 1 2 3; do ampctl job submit -f FILE --set train.seed=$i; "
     "done"},
    {"job cancel", "--yes", "leave this option out: ampctl job cancel asks no question"},
    {"job cancel", "-y", "leave this option out: ampctl job cancel asks no question"},
    {"job cancel", "--force", "leave this option out: ampctl job cancel asks no question"},
    {"job events", "-f", kWatchEvents},
    {"job events", "--follow", kWatchEvents},
    {"job events", "-w", kWatchEvents},
    {"job events", "--watch", kWatchEvents},
    {"auth token", "", kTokenText},
    {"auth token", "--hostname", kTokenText},
    {"auth token", "--user", kTokenText},
    {"auth token", "-u", kTokenText},
    {"auth token", "--secure-storage", kTokenText},
    {"version", "--short", "leave this option out: ampctl version prints one line per program"},
    {"version", "--client", "to see only the version of ampctl: ampctl --version"},
    {"dev", "stop", kStopDev.purpose},
    {"dev", "down", kStopDev.purpose},
    {"dev", "start", "leave this word out: ampctl dev starts a server and a worker"},
    {"dev", "up", "leave this word out: ampctl dev starts a server and a worker"},
    {"job delete", "-f", "to delete without the question: ampctl job delete -y ID"},
    {"job submit", "--env", "a job gets no environment variables from you; all its settings are in the job file"},
    {"job submit", "-e", "a job gets no environment variables from you; all its settings are in the job file"},
    {"job submit", "--after", kNoDependency.purpose},
    {"job submit", "--dependency", kNoDependency.purpose},
    {"job submit", "-d", "leave this option out: ampctl job submit returns at once, unless --follow is given"},
    {"job submit", "--detach", "leave this option out: ampctl job submit returns at once, unless --follow is given"},
    {"job update", "--name", kNoName.purpose},
    {"job update", "--label", kNoLabels.purpose},
    {"job update", "--labels", kNoLabels.purpose},
    {"job update", "--set", kFieldsAreFixed},
    {"job update", "--field", kFieldsAreFixed},
    {"job update", "-f", kFieldsAreFixed},
    {"job update", "--file", kFieldsAreFixed},
    {"job update", "--filename", kFieldsAreFixed},
    {"job update", "--patch", kFieldsAreFixed},
    {"job update", "--steps", kFieldsAreFixed},
    {"job update", "--epochs", kFieldsAreFixed},
    {"job update", "--deadline", kFieldsAreFixed},
    {"job update", "--timeout", kFieldsAreFixed},
    {"job update", "--time", kFieldsAreFixed},
    {"job update", "--max-retries", kFieldsAreFixed},
    {"job update", "--worker", kFieldsAreFixed},
    {"job update", "--resources", kFieldsAreFixed},
    {"job scale", "--replicas", kScalesLoss},
    {"job scale", "--current-replicas", kScalesLoss},
    {"job scale", "--workers", kScalesLoss},
    {"job scale", "--nodes", kScalesLoss},
    {"job scale", "--gpus", kScalesLoss},
    {"job scale", "--devices", kScalesLoss},
    {"job scale", "-n", kScalesLoss},
    {"dev", "--listen", kDevPort},
    {"dev", "--bind", kDevPort},
    {"dev", "--host", kDevPort},
    {"dev", "--addr", kDevPort},
    {"dev", "--http", kDevPort},
    {"audit", "log", "leave this word out: ampctl audit prints the log"},
    {"audit", "list", "leave this word out: ampctl audit prints the log"},
    {"dev", "status", "to see whether the server runs: ampctl health"},
    {"dev", "logs", "the logs are server.log and worker.log in .ampd, in the folder in which ampctl dev runs"},
    {"dev", "--stop", kStopDev.purpose},
    {"job clone", "--set",
     "a clone has the same fields as the original job; to change a field: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job retry", "--set",
     "a retry continues the same job; to change a field: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job resume", "--set",
     "a resumed job is the same job; to change a field: ampctl job submit -f FILE --set PATH=VALUE"},
    {"job logs", "--previous", "to read the log of an earlier attempt: ampctl job logs --attempt N ID"},
    {"job logs", "-p", "to read the log of an earlier attempt: ampctl job logs --attempt N ID"},
    {"job show", "--events", kEvents},
    {"job show", "--metrics", kPoints},
    {"job show", "-w", kWatch},
    {"job show", "--watch", kWatch},
    {"job show", "--job", kPlainId},
    {"job show", "--id", kPlainId},
    {"job show", "--name", kPlainId},
    {"job show", "-j", kPlainId},
    {"job logs", "--job", kPlainId},
    {"job logs", "--id", kPlainId},
    {"job logs", "-j", kPlainId},
    {"job points", "-f", kWatch},
    {"job points", "--follow", kWatch},
    {"job points", "--plot", kWatch},
    {"job retry", "--from-start", kFromStart},
    {"job retry", "--from-scratch", kFromStart},
    {"job cancel", "--wait", kThenWait},
    {"job pause", "--wait", "to wait until the job is paused: ampctl job wait ID --for PAUSED"},
    {"job list", "--desc", "to sort in descending order, append ,desc to the field: ampctl job list --sort age,desc"},
    {"auth token create", "--name", kNewName},
    {"completion", "-s", kShell},
    {"completion", "--shell", kShell},
    {"context add", "--address", kAddress},
    {"context add", "--server", kAddress},
    {"init", "--list", "to see the models: ampctl init --help"},
    {"init", "--stdout", "to print the job file: ampctl init -"},
    {"job logs", "--timestamps", kLogTimes},
    {"job logs", "-c", kOneProgram},
    {"job logs", "--container", kOneProgram},
    {"job logs", "--all-containers", kOneProgram},
    {"job delete", "--grace-period", kNoGrace},
    {"job delete", "--now", kNoGrace},
    {"job delete", "--wait", kNoGrace},
    {"job delete", "--cascade", kNoGrace},
    {"worker drain", "--ignore-daemonsets", kDrainsAll},
    {"worker drain", "--delete-emptydir-data", kDrainsAll},
    {"worker drain", "--force", kDrainsAll},
    {"worker drain", "--disable-eviction", kDrainsAll},
    {"worker drain", "--grace-period",
     "leave this option out: before a job moves to another worker, it writes a checkpoint, however long that takes"},
};

}  // namespace

std::string AnswerToOption(const std::string& command, const std::string& option, const std::string& value) {
  if (TakesOverrides(command) && !RewrittenOption(command, option, value).empty() && absl::StrContains(value, "=")) {
    return "";  // The option has an assignment: "-p train.steps=3".
  }
  if (TakesOverrides(command) && (option.starts_with('~') || option.starts_with('!'))) {
    return kCannotRemove;
  }
  if (command == "job submit" && option == "-n" && !RewrittenOption(command, option, value).empty()) {
    return "";
  }
  if (!command.empty() && (option == "-v" || option == "--verbose" || option == "--debug")) {
    return "leave this option out: ampctl has no verbose output; to see the version: ampctl version";
  }
  if (command == "context show" && !option.empty() && !option.starts_with('-')) {
    return "to see the addresses of all named servers: ampctl context list";
  }
  const bool counts_devices = option == "--gpus" || option == "--gres" || option == "--devices";
  if (command == "job submit" && counts_devices && (option == "--devices" || IsMoreThanOne(value))) {
    return absl::StrCat(kOneDevice.purpose, "; for a GPU: --set resources.kind=GPU");
  }
  if (const std::string answer = option == "--all" ? AnswerToAll(command) : ""; !answer.empty()) {
    return answer;
  }
  if (const std::string answer = AnswerToSelection(command, option, value); !answer.empty()) {
    return answer;
  }
  for (const auto& [of_command, foreign, answer] : kAnswers) {
    if (command == of_command && option == foreign) {
      return absl::StrReplaceAll(answer, {{"%", NeedsNoQuotes(value) ? value : "VALUE"}});
    }
  }
  if (command.ends_with(" list") && (option == "--all" || option == "-a")) {
    return absl::StrCat("leave this option out: ampctl ", command, " lists all there are");
  }
  const bool is_template = option == "--jq" || option == "--template";
  return is_template && command != "init" ? kJq : "";
}

}  // namespace ampd::client
