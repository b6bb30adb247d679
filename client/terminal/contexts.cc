#include "client/terminal/contexts.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::client {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the address that `text` means: that of the context with this name, or the text itself if it is HOST:PORT.
// INVALID_ARGUMENT if it is neither.
absl::StatusOr<ResolvedAddress> Named(const Contexts& contexts, const std::string& text, const std::string& origin) {
  const auto found = contexts.addresses.find(text);
  const std::string& address = found == contexts.addresses.end() ? text : found->second;
  if (!IsHostAndPort(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address '", address, "' from ", origin,
                     " is neither HOST:PORT nor the name of a context; see: ampctl context list"));
  }
  return ResolvedAddress{address, origin};
}

}  // namespace

bool IsHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  return colon != std::string::npos && colon > 0 && text.find_first_of(" \t\n/") == std::string::npos &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port >= 1 && port <= 65535;
}

std::string ContextsPath() {
  const std::string config = Environment("XDG_CONFIG_HOME");
  return (config.empty() ? Environment("HOME") + "/.config" : config) + "/ampd/contexts";
}

absl::StatusOr<Contexts> ReadContexts(const std::string& path) {
  Contexts contexts;
  const auto text = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) {
    return contexts;
  }
  if (!text.ok()) {
    return text.status();
  }
  int number = 0;
  for (const auto line : absl::StrSplit(*text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.empty()) {
      continue;
    }
    if (words.size() != 2) {
      return Error(absl::StatusCode::kInvalidArgument, "BAD_CONTEXT_FILE",
                   absl::StrCat(path, ":", number, ": expected 'NAME ADDRESS'"));
    }
    if (words[0] == "current") {
      contexts.current = words[1];
    } else {
      contexts.addresses[words[0]] = words[1];
    }
  }
  return contexts;
}

absl::Status WriteContexts(const std::string& path, const Contexts& contexts) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::string text = contexts.current.empty() ? "" : absl::StrCat("current ", contexts.current, "\n");
  for (const auto& [name, address] : contexts.addresses) {
    absl::StrAppend(&text, name, " ", address, "\n");
  }
  return WriteFileAtomically(path, text);
}

absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag) {
  AMPD_ASSIGN_OR_RETURN(const Contexts contexts, ReadContexts(ContextsPath()));
  if (!flag.empty()) {
    return Named(contexts, flag, "--address");
  }
  if (const std::string variable = Environment("AMPD_ADDRESS"); !variable.empty()) {
    return Named(contexts, variable, "AMPD_ADDRESS");
  }
  if (const auto project = ReadFile(kProjectContext, kMaxFileBytes); project.ok()) {
    return Named(contexts, std::string(absl::StripAsciiWhitespace(*project)), kProjectContext);
  }
  if (!contexts.current.empty()) {
    return Named(contexts, contexts.current, absl::StrCat("context ", contexts.current));
  }
  return ResolvedAddress{kDefaultAddress, "the default"};
}

}  // namespace ampd::client
