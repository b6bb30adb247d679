#include "client/commands/contexts.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace ampd::client {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

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
  const auto named = [&contexts](const std::string& text) {
    const auto found = contexts.addresses.find(text);
    return found == contexts.addresses.end() ? text : found->second;
  };
  if (!flag.empty()) {
    return ResolvedAddress{named(flag), "--address"};
  }
  if (const std::string variable = Environment("AMPD_ADDRESS"); !variable.empty()) {
    return ResolvedAddress{named(variable), "AMPD_ADDRESS"};
  }
  if (const auto project = ReadFile(kProjectContext, kMaxFileBytes); project.ok()) {
    return ResolvedAddress{named(std::string(absl::StripAsciiWhitespace(*project))), kProjectContext};
  }
  if (!contexts.current.empty()) {
    return ResolvedAddress{named(contexts.current), absl::StrCat("context ", contexts.current)};
  }
  return ResolvedAddress{kDefaultAddress, "the default"};
}

}  // namespace ampd::client
