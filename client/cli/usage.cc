#include "client/cli/usage.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command_words.h"
#include "client/jobfile/nearest.h"
#include "client/terminal/exit_codes.h"

namespace ampd::client {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  ampctl dev                                   server and worker on this machine\n"
    "  ampctl job submit -f job.yaml --follow       train, and watch it live\n"
    "  ampctl job submit -f job.yaml --set precision.preset=fp16 --set train.epochs=2\n"
    "  ampctl job list -o wide\n"
    "  ampctl job explain ID                        why does it wait?\n"
    "More: --help behind a command, ampctl help exit-codes";

// Examples that follow the help of a command, by the command's words.
const std::map<std::string, std::string>& ExamplesOf() {
  static const std::map<std::string, std::string> kByCommand = {
      {"job submit",
       "  ampctl job submit -f job.yaml --dry-run\n"
       "  ampctl job submit -f job.yaml --set precision.preset=fp16 --set train.epochs=2 --follow\n"
       "  sed s/fp32/bf16/ job.yaml | ampctl job submit -f - --name bf16"},
      {"job list",
       "  ampctl job list -o wide\n"
       "  ampctl job list --filter 'state=RUNNING AND labels.team=vision'\n"
       "  ampctl job list -q --filter state=QUEUED | xargs ampctl job cancel"},
      {"job watch",
       "  ampctl job watch ID\n"
       "  ampctl job watch ID -o jsonl | jq -c .steps.loss     every message, for programs\n"
       "  ampctl job watch ID --interval 1m >> train.log"},
      {"job logs", "  ampctl job logs -f ID\n  ampctl job logs ID --attempt 1 --tail-bytes 4096"},
      {"job wait", "  ampctl job wait ID1 ID2 --timeout 2h && ./deploy"},
      {"job show", "  ampctl job show ID\n  ampctl job show ID -o json | jq .attempts[-1].outcome.finalMetrics"},
      {"job points", "  ampctl job points ID --downsample-to 500\n  ampctl job points ID -o json"},
      {"job scale", "  ampctl job scale ID --set-scale 4096\n  ampctl job scale ID --growth-interval 500"},
      {"job gradients", "  ampctl job gradients ID\n  ampctl job gradients ID -o json | jq .gradients.suggestedScale"},
      {"job delete",
       "  ampctl job delete ID\n  ampctl job list -q --filter state=FAILED | xargs ampctl job delete --yes"},
      {"job retry", "  ampctl job retry ID --name second-try"},
      {"policy show",
       "  ampctl policy show bf16\n"
       "  ampctl policy show torch-amp-fp16 --model mlp --device cpu\n"
       "  ampctl policy show -f job.yaml -o json | jq .parameters"},
      {"model inspect",
       "  ampctl model inspect net.pt2\n"
       "  ampctl model inspect net.pt2 --preset bf16 --preset fp8-block --batch 64 -o wide\n"
       "  ampctl model inspect net.pt2 -o json | jq -r .problems[]"},
      {"worker drain", "  ampctl worker drain NAME\n  ampctl worker list"},
      {"context add", "  ampctl context add lab 127.0.0.1:7070\n  ampctl context use lab"},
      {"dev",
       "  ampctl dev\n"
       "  ampctl dev --port 0 --metrics-port 0        where 7070 or 7071 are taken\n"
       "  ampctl dev --data-root mnist=/data/mnist    job files may then say mnist/train-images-idx3-ubyte.gz"},
      {"completion", "  source <(ampctl completion bash)"},
  };
  return kByCommand;
}

constexpr char kEverywhere[] = "Everywhere: --address, -o FORMAT, --no-headers, -q, --color, --ascii (ampctl --help)";

void AddFootersBelow(CLI::App* app, const CommandFormats& formats) {
  for (CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; })) {
    const auto examples = ExamplesOf().find(PathOf(*child));
    const auto output = formats.find(child);
    child->footer(absl::StrCat(
        examples == ExamplesOf().end() ? "" : "Examples:\n" + examples->second + "\n",
        output == formats.end() ? "" : absl::StrCat("Formats (-o): ", FormatNames(output->second), "\n"), kEverywhere));
    AddFootersBelow(child, formats);
  }
}

// The first word that is an option unknown to the command; empty if there is none.
std::string UnknownOption(const std::vector<std::string>& names, const std::vector<std::string>& words) {
  for (const std::string& given : words) {
    const std::string word = given.substr(0, given.find('='));
    if (word.starts_with("--") && std::find(names.begin(), names.end(), word) == names.end()) {
      return word;
    }
  }
  return "";
}

std::string FullName(const CLI::App& command) {
  const std::string path = PathOf(command);
  return path.empty() ? "ampctl" : "ampctl " + path;
}

}  // namespace

int FailUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const ReadWords read = Read(root, words);
  const std::string full = FullName(*read.command);
  const std::vector<std::string> commands = SubcommandNames(*read.command);
  std::string text = absl::StrCat("error: ", error.what(), "\n");
  std::string nearest;
  if (!read.unknown.empty()) {
    text = absl::StrCat("error: ", full, " has no command '", read.unknown, "'; it has ", absl::StrJoin(commands, ", "),
                        "\n");
    nearest = Nearest(read.unknown, commands);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !commands.empty()) {
    text = absl::StrCat("error: ", full, " needs one of: ", absl::StrJoin(commands, ", "), "\n");
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> names = OptionNames(*read.command);
    if (const std::string option = UnknownOption(names, words); !option.empty()) {
      text = absl::StrCat("error: ", full, " has no option '", option, "'\n");
      nearest = Nearest(option, names);
    }
  }
  if (!nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", nearest, "'?\n");
  }
  absl::StrAppend(&text, "  try: ", full, " --help\n");
  std::fputs(text.c_str(), stderr);
  return kExitUsage;
}

int FailFormat(const CLI::App& command, OutputFormat format, const FormatSet& formats) {
  const std::string full = FullName(command);
  std::fputs(absl::StrCat("error: ", full, " has no format '", FormatName(format), "'; it has ", FormatNames(formats),
                          "\n  try: ", full, " --help\n")
                 .c_str(),
             stderr);
  return kExitUsage;
}

void AddFooters(CLI::App* root, const CommandFormats& formats) {
  root->footer(kExamples);
  AddFootersBelow(root, formats);
}

}  // namespace ampd::client
