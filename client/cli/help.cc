#include "client/cli/help.h"

#include <cstdio>
#include <memory>

namespace ampd::client {
namespace {

constexpr char kExitCodesTopic[] = "exit-codes";

int PrintHelp(const CLI::App* root, const std::string& topic) {
  std::fputs(topic == kExitCodesTopic
                 ? kExitCodesText
                 : root->get_formatter()->make_help(root, "ampctl", CLI::AppFormatMode::Normal).c_str(),
             stdout);
  return kExitOk;
}

}  // namespace

Command HelpCommand(const CommandTree* tree) {
  const auto topic = std::make_shared<std::string>();
  return {.name = "help",
          .help = "Print help on a topic",
          .arguments = {{.name = "topic",
                         .value = topic.get(),
                         .text = "TOPIC",
                         .help = "Topic: exit-codes",
                         .choices = {kExitCodesTopic}}},
          .run = [tree, topic](Session*) { return PrintHelp(tree->root(), *topic); }};
}

}  // namespace ampd::client
