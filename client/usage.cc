#include "client/usage.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/exit_codes.h"
#include "client/nearest.h"

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

// Behind the help of every command: by the command's words, examples.
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
      {"job delete",
       "  ampctl job delete ID\n  ampctl job list -q --filter state=FAILED | xargs ampctl job delete --yes"},
      {"job retry", "  ampctl job retry ID --name second-try"},
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

constexpr char kEverywhere[] =
    "Everywhere: --address, -o table|wide|json|jsonl|yaml|name, --no-headers, -q, --color, --ascii (ampctl --help)";

// Words that name a command from the root on, "job submit".
std::string PathOf(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) {
    return "";
  }
  const std::string before = PathOf(*parent);
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

void AddFootersBelow(CLI::App* app) {
  for (CLI::App* child : app->get_subcommands([](const CLI::App*) { return true; })) {
    const auto found = ExamplesOf().find(PathOf(*child));
    child->footer(found == ExamplesOf().end() ? kEverywhere
                                              : absl::StrCat("Examples:\n", found->second, "\n", kEverywhere));
    AddFootersBelow(child);
  }
}

// The deepest command that the words name.
const CLI::App* NamedCommand(const CLI::App& root, int argc, char** argv, std::string* unknown) {
  const CLI::App* app = &root;
  for (int i = 1; i < argc; ++i) {
    const auto children = app->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const CLI::App* child) { return child->check_name(argv[i]); });
    if (found != children.end()) {
      app = *found;
    } else if (!children.empty() && argv[i][0] != '-') {
      *unknown = argv[i];
      return app;
    }
  }
  return app;
}

std::vector<std::string> Subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(child->get_name());
  }
  return names;
}

// The option of `app` or of any command around it that is nearest to a word which none of them has.
std::string NearestOption(const CLI::App* app, int argc, char** argv) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (word.starts_with("--") && std::find(names.begin(), names.end(), word) == names.end()) {
      return Nearest(word, names);
    }
  }
  return "";
}

}  // namespace

int FailUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  std::string unknown;
  const CLI::App* const app = NamedCommand(root, argc, argv, &unknown);
  const std::string path = PathOf(*app);
  const std::string full = path.empty() ? "ampctl" : "ampctl " + path;
  const std::vector<std::string> commands = Subcommands(*app);
  std::string text = absl::StrCat("error: ", error.what(), "\n");
  std::string nearest;
  if (!unknown.empty()) {
    text =
        absl::StrCat("error: ", full, " has no command '", unknown, "'; it has ", absl::StrJoin(commands, ", "), "\n");
    nearest = Nearest(unknown, commands);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !commands.empty()) {
    text = absl::StrCat("error: ", full, " needs one of: ", absl::StrJoin(commands, ", "), "\n");
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    nearest = NearestOption(app, argc, argv);
  }
  if (!nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", nearest, "'?\n");
  }
  absl::StrAppend(&text, "  try: ", full, " --help\n");
  std::fputs(text.c_str(), stderr);
  return kExitUsage;
}

void AddFooters(CLI::App* root) {
  root->footer(kExamples);
  AddFootersBelow(root);
}

}  // namespace ampd::client
