#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/flags/settings.h"
#include "base/yaml/yaml_tree.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ampd {

// Says which part of a flag's value is a path. A relative path on the command line begins at the working directory, and
// a relative path in a configuration file at the folder of that file.
enum class PathForm {
  kNone,
  kPath,         // The whole value.
  kPathOrUrl,    // The whole value, unless it is a URL: "https://...".
  kUnixAddress,  // The part after "unix:", if the value begins with "unix:".
  kNamed,        // The part after the first "=", as in "imagenet=/data/imagenet".
};

// One flag, as --help shows it.
struct Flag {
  std::string name;  // "--data-dir"
  std::string type;  // The kind of its values: "PATH".
  std::string help;
  PathForm path = PathForm::kNone;
  bool is_required = false;
  std::string needs = "";  // Another flag that must be set too; empty: none.
};

// The result of FlagSet::Parse.
struct ParsedFlags {
  std::string output;          // The text that --help or --version prints; empty: neither was given.
  bool prints_config = false;  // Whether --print-config was given.
  std::string config_file;     // The value of --config; empty: none.
  Settings settings;           // The values of all other flags.
};

// The kind of program whose command line a FlagSet parses.
enum class Starts {
  kDaemon,   // A program that runs until it is stopped. It has --config FILE, --print-config and --version.
  kCommand,  // A command that ends by itself: "ampd-server backup".
};

// The flags of a daemon or of a command. They are set by the command line and, for a daemon, by a configuration file;
// the command line takes precedence. Each flag has a variable, which holds the default until Parse writes the flag's
// value to it. The flag --help always exists. Single-threaded.
//
//   FlagSet flags("ampd-server", "The server of ampd.");
//   flags.AddDuration({"--lease", "DURATION", "Length of a worker's lease"}, absl::Milliseconds(100), &config.lease);
//   const absl::StatusOr<ParsedFlags> parsed = flags.Parse(argc, argv);
class FlagSet {
 public:
  // Reads a value and stores it, or returns an error that says why the value is malformed. Called by Parse.
  using Take = std::function<absl::Status(const std::string&)>;

  FlagSet(const std::string& program, const std::string& description, Starts starts = Starts::kDaemon);
  ~FlagSet();

  // The variables passed to the following functions must outlive Parse.
  void AddText(const Flag& flag, std::string* value);
  void AddSwitch(const Flag& flag, bool* value);
  // Adds a flag whose value is one of `choices`.
  void AddChoice(const Flag& flag, const std::vector<std::string>& choices, std::string* value);
  // Adds a flag whose value is a whole number from `at_least` to `at_most`.
  void AddNumber(const Flag& flag, int at_least, int at_most, int* value);
  // Adds a flag whose value is a duration, or a number of seconds, which may have decimals: 20s, 1m, 20, 0.5.
  void AddSeconds(const Flag& flag, absl::Duration* value);
  // Adds a flag whose value is a duration of `at_least` or longer, such as 300ms, 10s, 1h30m or 30d.
  void AddDuration(const Flag& flag, absl::Duration at_least, absl::Duration* value);
  // Adds a flag that says how long something is kept: at most 100 years; zero means for ever.
  void AddAge(const Flag& flag, absl::Duration* value);
  // Adds a flag whose value is a number of bytes, such as 1048576, 256MiB or 2GB.
  void AddSize(const Flag& flag, int64_t* value);
  // Adds a flag whose value is a number of bytes and that has no fixed default.
  void AddSize(const Flag& flag, std::optional<int64_t>* value);
  // Adds a flag with one value, which `take` reads. `default_text` is its default; empty: none.
  void AddValue(const Flag& flag, const std::string& default_text, const Take& take);
  // Adds a flag that may be given several times; in a configuration file it takes a list. `take` reads each value.
  void AddRepeated(const Flag& flag, const Take& take);
  // Adds a required positional argument, such as NAME.
  void AddWord(const std::string& name, const std::string& help, std::string* value);
  // Adds the name of a command, such as "backup", to --help and to the suggestions in errors. The program must
  // recognise its commands before it calls Parse, which refuses them.
  void AddCommand(const std::string& name, const std::string& help);

  // Reads the command line and the file that --config names. Returns INVALID_ARGUMENT with one line that says what is
  // wrong, and where. Call once.
  absl::StatusOr<ParsedFlags> Parse(int argc, const char* const* argv);

 private:
  // One value of a flag. `mark` is its position in the configuration file; line 0: the value is from the command line.
  struct Value {
    std::string text;
    SourceMark mark;
  };
  struct Word {
    std::string name;
    CLI::Option* option = nullptr;
    std::string* value = nullptr;
  };
  struct Declared {
    Flag flag;
    bool is_list = false;
    bool is_switch = false;
    std::vector<std::string> default_values;
    Take take;
    CLI::Option* option = nullptr;
    std::vector<Value> values;  // The flag's values; empty: not set. Paths from a configuration file are absolute.
    bool is_in_file = false;    // Whether `values` come from the configuration file.
    SourceMark mark;            // If is_in_file is true, the position of the key.
  };

  Declared& Declare(Flag flag, CLI::Option* option, const std::string& default_text, Take take);
  void TakeCommandLine();
  absl::Status TakeFile(const std::string& path);
  absl::Status Set(Declared* flag);
  absl::Status CheckComplete() const;
  bool IsSet(const std::string& name) const;
  // Makes an error about a flag. If a configuration file set the flag, the message begins with the position `mark` and
  // the key; if the command line did, with the flag's name.
  absl::Status ErrorOf(const Declared& flag, const SourceMark& mark, const std::string& message) const;
  absl::Status UsageError(const std::string& message) const;
  // Returns the error message for words of the command line that belong to no flag and no positional argument.
  std::string UnexpectedWord() const;
  Settings CurrentSettings() const;

  const std::string program_;
  const Starts starts_;
  std::unique_ptr<CLI::App> app_;
  CLI::Option* config_ = nullptr;
  CLI::Option* print_config_ = nullptr;
  std::vector<Declared> flags_;
  std::vector<Word> words_;
  std::vector<std::string> commands_;
};

}  // namespace ampd
