#include "client/cli/answers/dropped_options.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/things.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// Options that make no difference to a user of ampctl. `commands` is empty for all commands.
constexpr struct {
  std::string_view commands;
  std::string_view options;
} kHarmless[] = {
    // How much the program prints about its own work, and where.
    {"", "-v|--v|--verbose|--no-pager|--debug|--color|--no-color|--log-level|--progress|--no-progress"},
    // Options that skip the program's questions. If the user gave no -y, the suggested ampctl command has none either,
    // so it asks its question.
    {"", "-y|--yes|--assume-yes|--no-input"},
    {"", "--wait=true|--record|--save-config|--chunk-size"},
    // `ampctl job delete` and `ampctl worker drain` need none of these options: each asks for what the command always
    // does, or for what does not apply to it.
    {"delete|drain|rm|cancel|kill|replace|run", "--force|--grace-period|--now|--cascade|--wait"},
    {"rm", "-f"},
    {"drain", "--ignore-daemonsets|--delete-emptydir-data|--delete-local-data|--disable-eviction"},
    {"agent|slot", "--drain"},
    {"srun|salloc", "--pty|--overlap|--overcommit|-O|-i|--immediate|-u|--unbuffered|-l|--label"},
    {"scancel", "-b|--batch|-f|--full|--hurry"},  // Cancelling a job ends all of its processes.
    // ampctl lists the jobs of all users, one line for each.
    {"squeue|sacct|sinfo|sstat|pbsnodes", "-a|--all|--allusers|-X|--allocations|-r|--array"},
    {"e|exp|experiment|experiments|status|queue", "-a|--all"},
    // `ampctl job show` prints everything about a job in any case.
    {"scontrol", "-d|-dd|--details|-o|--oneliner"},
    {"qstat", "-f"},
    {"sprio", "-l"},
    // Each line of a job's log begins with its time.
    {"logs", "--all-containers|--timestamps|--prefix|--max-log-requests"},
    // Each of these asks for what the command of ampctl does in any case.
    {"wait|events|event|get", "--for"},
    {"can-i|auth", "--list"},
    {"config", "--current"},
    {"ps", "-e|-ef|-f"},
    {"taint", "--overwrite"},
    {"apply|create", "--server-side|--force-conflicts"},
    {"models", "-m|--model-uri"},
    {"tensorboard", "--logdir|--port|--host"},
    {"strigger|scrontab", "--set|--get|--clear|-e|-l|-r"},
    // The server runs each job apart from the terminal.
    {"run|exec|attach|debug", "-d|--detach|-i|-t|-it|-ti|--stdin|--tty|--interactive|--rm|-dit|-itd"},
};

// Options whose value is the name of the thing that the command is about. In ampctl, a name needs no option.
constexpr std::string_view kNaming =
    "-j|--job|--jobs|--jobid|--id|--run-id|--run_id|--for|--name|--hostname|--host|-h|-s|--shell|-r|-f|--filename";

bool IsHarmless(const std::string& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return std::any_of(std::begin(kHarmless), std::end(kHarmless), [&](const auto& row) {
    return (row.commands.empty() || IsOneOf(command, row.commands)) &&
           (IsOneOf(name, row.options) || IsOneOf(word, row.options));
  });
}

// Whether the answer contains the option. The fixed options of the suggested shell pipes do not count: those in `whoami
// -q`, `job list -q` and `xargs -r -n 1`.
bool Mentions(const std::string& answer, const std::string& option) {
  const std::string text =
      absl::StrReplaceAll(answer, {{"job list -q", ""}, {"xargs -r -n 1", ""}, {"whoami -q", ""}}) + " ";
  const std::string before = " " + option;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const char behind = text[at + before.size()];
    if (!absl::ascii_isalnum(behind) && behind != '-') {
      return true;
    }
  }
  return false;
}

// Whether the word is an option, Slurm's KEY=VALUE or kubectl's TYPE/NAME.
bool MayBeDropped(const std::string& command, const std::string& word) {
  const bool has_keys = command == "scontrol" || command == "sacctmgr";
  const size_t slash = word.find('/');
  return (word.starts_with('-') && word.size() > 1) || (has_keys && absl::StrContains(word, "=")) ||
         (slash != std::string::npos && IsThing(word.substr(0, slash)));
}

// An option that has no effect on the answer.
struct Dropped {
  std::string name;
  bool has_value;  // The next word is its value.
};

// Returns the words without `options` and their values. The option `kept` is not removed.
Words Without(const Words& words, const std::vector<Dropped>& options, const std::string& kept = "") {
  Words result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto option = std::find_if(options.begin(), options.end(),
                                     [&](const Dropped& one) { return one.name == name && one.name != kept; });
    if (option == options.end()) {
      result.push_back(words[i]);
    } else if (option->has_value && words[i] == name) {
      ++i;
    }
  }
  return result;
}

// Whether the option asks for what happens without it: for one device, or for the jobs of all users or states.
bool AsksForDefault(const std::string& command, const std::string& value) {
  return absl::AsciiStrToLower(value) == "all" || (value == "1" && IsOneOf(command, "sbatch|srun|salloc|bsub|qsub"));
}

// Whether the option's value is a name that the answer contains. Of several names, separated by commas, examines the
// first. For a Slurm step or task such as 5.0, it is enough that the answer contains 5.
bool IsName(const std::string& name, const std::string& value, const std::string& answer) {
  const std::string first = value.substr(0, value.find(','));
  const size_t step = first.find_first_of("._");
  const bool has_step = step != std::string::npos && step + 1 < first.size() && absl::ascii_isdigit(first[step + 1]);
  const std::string bare = first.substr(first.rfind('/') + 1);
  return IsOneOf(name, kNaming) && !bare.empty() &&
         (absl::StrContains(answer, bare) || (has_step && absl::StrContains(answer, first.substr(0, step))));
}

// Returns the options without which the answer is the same.
std::vector<Dropped> WithoutEffect(const Words& words, size_t begin, const Answering& answer) {
  const std::string& command = words[begin - 1];
  const std::string full = answer(words);
  std::vector<Dropped> dropped;
  for (size_t i = begin; i < words.size() && words[i] != "--" && !BeginsScript(command, words[i]); ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const bool has_next = equals == std::string::npos && i + 1 < words.size() && !words[i + 1].starts_with("--");
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1) : has_next ? words[i + 1] : "";
    const bool is_known =
        std::any_of(dropped.begin(), dropped.end(), [&name](const Dropped& one) { return one.name == name; });
    if (is_known || !MayBeDropped(command, words[i]) || IsHarmless(command, words[i]) || Mentions(full, name) ||
        AsksForDefault(command, value) || IsName(name, value, full)) {
      continue;
    }
    for (const bool with_next : {true, false}) {
      if ((has_next || !with_next) && answer(Without(words, {{name, with_next}})) == full) {
        dropped.push_back({name, with_next});
        break;
      }
    }
  }
  return dropped;
}

}  // namespace

std::vector<std::string> DroppedOptions(const std::vector<std::string>& words, const Answering& answer) {
  const size_t num_programs = words.size() > 1 && IsProgram(words[0]) ? 1 : 0;
  const std::vector<Dropped> dropped = WithoutEffect(words, num_programs + 1, answer);
  const std::string bare = answer(Without(words, dropped));
  Words names;
  for (const Dropped& option : dropped) {
    // If two options mean the same, removing either one alone changes nothing, although they have an effect. So an
    // option counts only if it also has no effect when it is the only one: `bare` is the answer without all of them.
    if (dropped.size() == 1 || answer(Without(words, dropped, option.name)) == bare) {
      names.push_back(option.name);
    }
  }
  return names;
}

}  // namespace ampd::client
