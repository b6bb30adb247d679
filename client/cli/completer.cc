#include "client/cli/completer.h"

#include "ampd/v1/job_spec.pb.h"
#include "client/cli/command_words.h"
#include "client/cli/completion.h"
#include "precision/policy.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

constexpr char kFiles[] = ":files";

std::string AddressIn(const ReadWords& read) {
  const auto found = read.values.find("address");
  return found == read.values.end() ? "" : found->second;
}

Words ValuesOf(const std::string& option, const ReadWords& read, const CommandFormats& formats,
               const std::string& typed) {
  if (option == "output") {
    const auto found = formats.find(read.command);
    Words names;
    for (const OutputFormat format : found == formats.end() ? AllFormats() : found->second) {
      names.push_back(FormatName(format));
    }
    return names;
  }
  if (option == "set") {
    return SpecPathsFor(*v1::JobSpec::descriptor(), typed);
  }
  if (option == "preset") {
    return precision::PresetNames();
  }
  if (option == "device") {
    return {"gpu", "cpu"};
  }
  if (option == "job") {
    return JobIdsFor(AddressIn(read));
  }
  return option == "color"                                             ? Words{"auto", "always", "never"}
         : option == "address"                                         ? ContextNames()
         : option == "format"                                          ? Words{"llm_c", "uint16", "uint32"}
         : option == "file" || option == "vocab" || option == "merges" ? Words{kFiles}
                                                                       : Words();
}

Words Positionals(const ReadWords& read) {
  const std::string path = PathOf(*read.command);
  const Words& before = read.positionals;
  for (const CLI::Option* option : read.command->get_options()) {
    const std::string text = option->get_option_text();
    if (text == "ID..." || (text == "ID" && before.empty())) {
      return JobIdsFor(AddressIn(read));
    }
    if (text == "ID|FOLDER" && before.empty()) {
      Words ids = JobIdsFor(AddressIn(read));
      ids.emplace_back(kFiles);
      return ids;
    }
    if (text == "FOLDER") {
      return {kFiles};
    }
  }
  if (path == "artifact upload" || (path == "artifact download" && before.size() == 1)) {
    return {kFiles};
  }
  if (path.starts_with("data ") || (path == "model inspect" && before.empty())) {
    return {kFiles};
  }
  if (!before.empty()) {
    return {};
  }
  if (path == "artifact download" || path == "artifact delete") {
    return ArtifactNamesFor(AddressIn(read));
  }
  if (path == "worker drain" || path == "worker undrain" || path == "worker remove") {
    return WorkerNamesFor(AddressIn(read));
  }
  return path == "policy show"   ? precision::PresetNames()
         : path == "context use" ? ContextNames()
         : path == "completion"  ? Words{"bash"}
         : path == "help"        ? Words{"exit-codes"}
                                 : Words();
}

Words Candidates(const ReadWords& read, const CommandFormats& formats, const std::string& typed) {
  if (!read.unknown.empty()) {
    return {};
  }
  if (read.open != nullptr) {
    return ValuesOf(read.open->get_lnames().front(), read, formats, typed);
  }
  if (const size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    Words values = ValuesOf(typed.substr(2, equals - 2), read, formats, typed.substr(equals + 1));
    for (std::string& value : values) {
      value = value == kFiles ? value : typed.substr(0, equals + 1) + value;
    }
    return values;
  }
  if (typed.starts_with("-")) {
    return OptionNames(*read.command);
  }
  Words commands = SubcommandNames(*read.command);
  return commands.empty() ? Positionals(read) : commands;
}

}  // namespace

Words Complete(const CLI::App& root, const CommandFormats& formats, Words words) {
  if (words.empty()) {
    words.emplace_back();
  }
  const std::string typed = words.back();
  words.pop_back();
  Words candidates = Candidates(Read(root, words), formats, typed);
  std::erase_if(candidates, [&typed](const std::string& word) { return word != kFiles && !word.starts_with(typed); });
  return candidates;
}

}  // namespace ampd::client
