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

// Which part of a flag's value is a path. A relative path of the command line is relative to the working directory; one
// of a configuration file to the folder of that file.
enum class PathForm {
  kNone,
  kPath,         // The whole value.
  kPathOrUrl,    // The whole value, unless it is a URL: "https://...".
  kUnixAddress,  // What follows "unix:", if the value begins so.
  kNamed,        // What follows the first "=": "imagenet=/data/imagenet".
};

// One flag, as --help shows it.
struct Flag {
  std::string name;  // "--data-dir"
  std::string type;  // What its values are: "PATH".
  std::string help;
  PathForm path = PathForm::kNone;
  bool is_required = false;
  std::string needs = "";  // Another flag that must be set too; empty: none.
};

// What the arguments of a program ask for.
struct ParsedFlags {
  std::string output;          // What --help or --version print; empty: neither was given.
  bool prints_config = false;  // Whether --print-config was given.
  std::string config_file;     // The value of --config; empty: none.
  Settings settings;           // All flags but those of this struct.
};

// What a command line starts.
enum class Starts {
  kDaemon,   // A program that runs until it is stopped. It has --config FILE, --print-config and --version.
  kCommand,  // A command that ends by itself: "ampd-server backup".
};

// The flags of a daemon, which the command line and a configuration file set, or those of a command. There is always
// --help. A flag on the command line replaces that of the file. Each flag writes its value to a variable, which has the
// default before. Single-threaded.
//
//   FlagSet flags("ampd-server", "The server of ampd.");
//   flags.AddDuration({"--lease", "DURATION", "Length of a worker's lease"}, absl::Milliseconds(100), &config.lease);
//   const absl::StatusOr<ParsedFlags> parsed = flags.Parse(argc, argv);
class FlagSet {
 public:
  // Takes a value, or returns why it is malformed, for people. Called by Parse.
  using Take = std::function<absl::Status(const std::string&)>;

  FlagSet(const std::string& program, const std::string& description, Starts starts = Starts::kDaemon);
  ~FlagSet();

  // All variables outlive Parse.
  void AddText(const Flag& flag, std::string* value);
  void AddSwitch(const Flag& flag, bool* value);
  // One of `choices`.
  void AddChoice(const Flag& flag, const std::vector<std::string>& choices, std::string* value);
  // A whole number within the bounds.
  void AddNumber(const Flag& flag, int at_least, int at_most, int* value);
  // A duration, or a number of seconds, which may have decimals: 20s, 1m, 20, 0.5.
  void AddSeconds(const Flag& flag, absl::Duration* value);
  // Such as 300ms, 10s, 1h30m, 30d.
  void AddDuration(const Flag& flag, absl::Duration at_least, absl::Duration* value);
  // How long something is kept, at most 100 years; zero means for ever.
  void AddAge(const Flag& flag, absl::Duration* value);
  // Such as 1048576, 256MiB or 2GB.
  void AddSize(const Flag& flag, int64_t* value);
  // The same for a size that has no fixed default.
  void AddSize(const Flag& flag, std::optional<int64_t>* value);
  // A flag with one value that `take` reads. `default_text`: its default; empty: none.
  void AddValue(const Flag& flag, const std::string& default_text, const Take& take);
  // A flag that may be given several times; in a file it takes a list. `take` reads each value.
  void AddRepeated(const Flag& flag, const Take& take);
  // A word without a flag, such as NAME. It is required.
  void AddWord(const std::string& name, const std::string& help, std::string* value);
  // A command of a daemon's program, for --help and for errors. Parse refuses it: the program must look for the command
  // before.
  void AddCommand(const std::string& name, const std::string& help);

  // Reads the command line and the file that --config names. INVALID_ARGUMENT with one line for people: what is wrong,
  // and where. Call once.
  absl::StatusOr<ParsedFlags> Parse(int argc, const char* const* argv);

 private:
  // Where a value stands: in a configuration file, or on the command line (line 0).
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
    std::vector<Value> values;  // What it is set to, with absolute paths if it comes from a file.
    bool is_in_file = false;    // Whether `values` come from the configuration file.
    SourceMark mark;            // If so, where its key is.
  };

  Declared& Declare(Flag flag, CLI::Option* option, const std::string& default_text, Take take);
  void TakeCommandLine();
  absl::Status TakeFile(const std::string& path);
  absl::Status Set(Declared* flag);
  absl::Status CheckComplete() const;
  bool IsSet(const std::string& name) const;
  // The error of a flag, which names it as it was written: as a flag, or with its position as a key.
  absl::Status ErrorOf(const Declared& flag, const SourceMark& mark, const std::string& message) const;
  absl::Status UsageError(const std::string& message) const;
  // What is wrong with the words that neither a flag nor AddWord takes.
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
