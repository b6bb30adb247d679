#include "base/flags/flag_set.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/flags/config_file.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/version.h"

namespace ampd {
namespace {

namespace fs = std::filesystem;

std::string KeyOf(const std::string& flag) { return flag.substr(2); }

std::string Joined(const fs::path& folder, std::string_view path) {
  return path.empty() ? "" : (folder / fs::path(path)).string();
}

// Returns the value of a flag with its path made absolute: a relative path begins at `folder`. `form` says which part
// of the value is the path.
std::string WithAbsolutePath(PathForm form, const fs::path& folder, const std::string& value) {
  constexpr std::string_view kUnix = "unix:";
  const size_t equals = value.find('=');
  switch (form) {
    case PathForm::kPath:
      return Joined(folder, value);
    case PathForm::kPathOrUrl:
      return absl::StrContains(value, "://") ? value : Joined(folder, value);
    case PathForm::kUnixAddress:
      return value.starts_with(kUnix) ? absl::StrCat(std::string(kUnix), Joined(folder, value.substr(kUnix.size())))
                                      : value;
    case PathForm::kNamed:
      return equals == std::string::npos
                 ? value
                 : absl::StrCat(value.substr(0, equals + 1), Joined(folder, value.substr(equals + 1)));
    case PathForm::kNone:
      break;
  }
  return value;
}

fs::path AbsolutePath(const fs::path& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute;
}

// The text that --help shows after the name of a flag: "DURATION=10s", "PATH REQUIRED".
std::string OptionText(const Flag& flag, const std::string& default_text, bool is_list) {
  return absl::StrCat(flag.type, default_text.empty() ? "" : "=", default_text, is_list ? " ..." : "",
                      flag.is_required ? " REQUIRED" : "", flag.needs.empty() ? "" : " Needs: ", flag.needs);
}

// Converts the value of a switch on the command line to "true" or "false", as in a configuration file. CLI11 accepts
// --no-warm, --no-warm=false and --no-warm=0. Returns any other text unchanged.
std::string SwitchText(const std::string& text) {
  try {
    return CLI::detail::to_flag_value(text) > 0 ? kSwitchOn : kSwitchOff;
  } catch (const std::exception&) {  // CLI11 or the standard library throws for any other text.
    return text;
  }
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

FlagSet::FlagSet(const std::string& program, const std::string& description, Starts starts)
    : program_(program), starts_(starts), app_(std::make_unique<CLI::App>(description, program)) {
  if (starts == Starts::kCommand) {
    return;
  }
  app_->set_version_flag("--version", VersionLine(program));
  config_ = app_->add_option(
      "--config",
      "Configuration file in YAML, whose keys are the names of flags without the leading dashes. "
      "Flags of the command line replace those of the file; if a flag may be given several times, they replace all its "
      "values. Paths in the file are relative to its folder. SIGHUP reads the file again "
      "(docs/operator/configure.md)");
  config_->option_text("FILE");
  print_config_ = app_->add_flag("--print-config");
  print_config_->description("Print the configuration in the form of --config's file, and exit");
}

FlagSet::~FlagSet() = default;

FlagSet::Declared& FlagSet::Declare(Flag flag, CLI::Option* option, const std::string& default_text, Take take) {
  Declared declared{.flag = std::move(flag), .take = std::move(take), .option = option};
  if (!default_text.empty()) {
    declared.default_values = {default_text};
  }
  flags_.push_back(std::move(declared));
  return flags_.back();
}

void FlagSet::AddValue(const Flag& flag, const std::string& default_text, const Take& take) {
  CLI::Option* const option = app_->add_option(flag.name, flag.help);
  option->option_text(OptionText(flag, default_text, /*is_list=*/false));
  Declare(flag, option, default_text, take);
}

void FlagSet::AddRepeated(const Flag& flag, const Take& take) {
  CLI::Option* const option = app_->add_option_function<std::vector<std::string>>(
      flag.name, [](const std::vector<std::string>&) {}, absl::StrCat(flag.help, ". May be given several times"));
  option->allow_extra_args(false)->option_text(OptionText(flag, "", /*is_list=*/true));
  Declare(flag, option, "", take).is_list = true;
}

void FlagSet::AddSwitch(const Flag& flag, bool* value) {
  CLI::Option* const option = app_->add_flag(flag.name, flag.help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const Take take = [value](const std::string& text) {
    *value = text == kSwitchOn;
    return text == kSwitchOn || text == kSwitchOff
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("'", text, "' is neither true nor false"));
  };
  Declare(flag, option, *value ? kSwitchOn : kSwitchOff, take).is_switch = true;
}

void FlagSet::AddWord(const std::string& name, const std::string& help, std::string* value) {
  CLI::Option* const option = app_->add_option(name, help);
  option->option_text(" ");
  words_.push_back({.name = name, .option = option, .value = value});
}

void FlagSet::AddCommand(const std::string& name, const std::string& help) {
  constexpr size_t kColumn = 30;  // The column at which CLI11 begins the help of a flag.
  const std::string before = commands_.empty() ? "Commands:" : app_->get_footer();
  const std::string indented = "  " + name;
  app_->footer(
      absl::StrCat(before, "\n", indented, std::string(kColumn - std::min(kColumn, indented.size()), ' '), help));
  commands_.push_back(name);
}

// Copies the values that CLI11 has parsed to `flags_`. If a switch is given several times, its last value counts.
void FlagSet::TakeCommandLine() {
  for (Declared& flag : flags_) {
    const std::vector<std::string>& results = flag.option->results();
    if (flag.is_switch && !results.empty()) {
      flag.values = {{SwitchText(results.back()), {}}};
      continue;
    }
    for (const std::string& text : results) {
      flag.values.push_back({text, {}});
    }
  }
}

absl::Status FlagSet::TakeFile(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<YamlEntry> entries, ReadConfigFile(path));
  const fs::path folder = AbsolutePath(path).parent_path();
  for (const YamlEntry& entry : entries) {
    const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                   [&entry](const Declared& one) { return KeyOf(one.flag.name) == entry.key; });
    if (flag == flags_.end()) {
      std::vector<std::string> keys;
      std::transform(flags_.begin(), flags_.end(), std::back_inserter(keys),
                     [](const Declared& one) { return KeyOf(one.flag.name); });
      return UnknownKey(entry, keys);
    }
    AMPD_ASSIGN_OR_RETURN(const std::vector<YamlNode> values, ValuesOf(entry, flag->is_list     ? ConfigValues::kList
                                                                              : flag->is_switch ? ConfigValues::kSwitch
                                                                                                : ConfigValues::kOne));
    if (!flag->values.empty()) {
      continue;  // The flag on the command line takes precedence.
    }
    flag->is_in_file = true;
    flag->mark = entry.mark;
    for (const YamlNode& value : values) {
      flag->values.push_back({WithAbsolutePath(flag->flag.path, folder, value.text), value.mark});
    }
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Set(Declared* flag) {
  for (const Value& value : flag->values) {
    if (const absl::Status taken = flag->take(value.text); !taken.ok()) {
      return ErrorOf(*flag, value.mark, std::string(taken.message()));
    }
  }
  return absl::OkStatus();
}

bool FlagSet::IsSet(const std::string& name) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&name](const Declared& one) { return one.flag.name == name && !one.values.empty(); });
}

absl::Status FlagSet::CheckComplete() const {
  for (const Word& word : words_) {
    if (word.option->empty()) {
      return UsageError(absl::StrCat(word.name, " is missing"));
    }
  }
  for (const Declared& flag : flags_) {
    if (flag.flag.is_required && flag.values.empty()) {
      return UsageError(absl::StrCat(flag.flag.name, " is required"));
    }
    if (!flag.values.empty() && !flag.flag.needs.empty() && !IsSet(flag.flag.needs)) {
      return ErrorOf(flag, flag.mark,
                     absl::StrCat("needs ", flag.is_in_file ? KeyOf(flag.flag.needs) : flag.flag.needs, " too"));
    }
  }
  return absl::OkStatus();
}

absl::Status FlagSet::ErrorOf(const Declared& flag, const SourceMark& mark, const std::string& message) const {
  return flag.is_in_file ? ErrorAt(mark, absl::StrCat(KeyOf(flag.flag.name), ": ", message))
                         : UsageError(absl::StrCat(flag.flag.name, ": ", message));
}

absl::Status FlagSet::UsageError(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(message, "; see ", program_, " --help"));
}

// Returns the error message for words of the command line that belong to no flag. If a flag is misspelt, its value is
// such a word too; the message then names the misspelt flag.
std::string FlagSet::UnexpectedWord() const {
  const std::vector<std::string> extra = app_->remaining();
  const auto word = std::find_if(extra.begin(), extra.end(), [](const auto& one) { return one.starts_with('-'); });
  if (word == extra.end()) {
    return absl::StrCat("unexpected word '", extra.front(), "'");
  }
  const std::string name = word->substr(0, word->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* const option : std::as_const(*app_).get_options()) {
    names.push_back(option->get_name());
  }
  const std::string nearest = Nearest(name, names);
  return absl::StrCat("there is no flag ", name, nearest.empty() ? "" : "; did you mean ", nearest,
                      nearest.empty() ? "" : "?");
}

Settings FlagSet::CurrentSettings() const {
  const fs::path folder = AbsolutePath(".").parent_path();  // parent_path removes the dot.
  Settings settings;
  for (const Declared& flag : flags_) {
    Setting setting{.key = KeyOf(flag.flag.name),
                    .type = flag.flag.type,
                    .is_list = flag.is_list,
                    .is_set = !flag.values.empty(),
                    .values = flag.default_values};
    if (setting.is_set) {
      setting.values.clear();
    }
    for (const Value& value : flag.values) {
      setting.values.push_back(WithAbsolutePath(flag.flag.path, folder, value.text));
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

absl::StatusOr<ParsedFlags> FlagSet::Parse(int argc, const char* const* argv) {
  ParsedFlags parsed;
  if (!commands_.empty() && argc > 1 && argv[1][0] != '-') {
    const std::string nearest = Nearest(argv[1], commands_);
    return UsageError(absl::StrCat("there is no command '", argv[1], "'", nearest.empty() ? "" : "; did you mean '",
                                   nearest, nearest.empty() ? "" : "'?"));
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.output = app_->help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.output = VersionLine(program_);
    return parsed;
  } catch (const CLI::ExtrasError&) {
    return UsageError(UnexpectedWord());
  } catch (const CLI::ArgumentMismatch& error) {
    // CLI11's message is "--lease: 1 required DURATION missing" or "--lease: At most 1 required but received 2".
    const std::string text = error.what();
    return UsageError(absl::StrCat(text.substr(0, text.find(':')), absl::EndsWith(text, "missing")
                                                                       ? ": its value is missing"
                                                                       : ": it is given more than once"));
  } catch (const CLI::ParseError& error) {
    return UsageError(FirstLine(error.what()));
  }
  TakeCommandLine();
  for (const Word& word : words_) {
    *word.value = word.option->empty() ? "" : word.option->results().front();
  }
  if (starts_ == Starts::kDaemon && !config_->empty()) {
    parsed.config_file = config_->results().front();
    if (parsed.config_file.empty()) {
      return UsageError("--config: the name of the file is missing");
    }
    AMPD_RETURN_IF_ERROR(TakeFile(parsed.config_file));
  }
  for (Declared& flag : flags_) {
    AMPD_RETURN_IF_ERROR(Set(&flag));
  }
  AMPD_RETURN_IF_ERROR(CheckComplete());
  parsed.prints_config = starts_ == Starts::kDaemon && !print_config_->empty();
  parsed.settings = CurrentSettings();
  return parsed;
}

}  // namespace ampd
