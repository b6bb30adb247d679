#include "client/terminal/contexts.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/api/tenants.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/io/private_folder.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/terminal/server_address.h"

namespace ampd::client {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxShownBytes = 80;
constexpr std::string_view kTenantWord = "tenant=";
constexpr char kTenantVariable[] = "AMPD_TENANT";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::Status BadFile(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_CONTEXT_FILE", message);
}

// Returns the path of the user's file of contexts. Returns an error if HOME is "/", as it is for users without a home
// folder.
absl::StatusOr<std::string> ContextsPath() {
  const std::string config = Environment("XDG_CONFIG_HOME");
  if (config.starts_with('/')) {
    return config + "/ampd/contexts";
  }
  const std::string home = Environment("HOME");
  if (home.starts_with('/') && home.find_first_not_of('/') != std::string::npos) {
    return home + "/.config/ampd/contexts";
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no folder for the file of contexts, because HOME is ",
                   home.empty() ? "not set" : absl::StrCat("'", Shortened(home, kMaxShownBytes), "'"),
                   "; set HOME or XDG_CONFIG_HOME to the path of a folder of yours, or name the server with --address "
                   "HOST:PORT"));
}

// Returns the reason from a system error's message: "Permission denied" from "open: Permission denied".
std::string ReasonAtEnd(const absl::Status& status) {
  const std::string message(status.message());
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

absl::Status NotReadable(const std::string& path, const std::string& why) {
  return BadFile(absl::StrCat("cannot read the file of contexts ", path, ": ", why,
                              "; correct that, or name the server with --address HOST:PORT"));
}

absl::Status NotWritable(const std::string& path, const std::string& why) {
  return BadFile(absl::StrCat("cannot write the file of contexts ", path, ": ", why,
                              "; correct that, or set XDG_CONFIG_HOME to a folder of yours"));
}

// Creates the folder of the file of contexts if it is missing. Returns an error if other users can write to the folder.
absl::Status PrepareFolderOf(const std::string& path) {
  const absl::Status prepared = PreparePrivateFolder({.path = std::filesystem::path(path).parent_path().string(),
                                                      .what = "the folder",
                                                      .depth = 0,
                                                      .others_may_enter = false,
                                                      .readable = {}})
                                    .status();
  return prepared.ok() || ReasonOf(prepared) == "OPEN_TO_OTHERS" ? prepared : NotWritable(path, ReasonAtEnd(prepared));
}

// Returns an error if another user could have written the file at `path`. The file names the server to which ampctl
// sends the user's tokens and jobs.
absl::Status CheckTrusted(const std::string& path) {
  absl::Status checked = CheckOnlyOwnerWrites(std::filesystem::path(path).parent_path().string(), "the folder");
  if (checked.ok()) {
    checked = CheckOnlyOwnerWrites(path, "the file");
  }
  // Ignore any other error here: reading the file fails with the same error and reports it.
  return ReasonOf(checked) == "OPEN_TO_OTHERS" ? checked : absl::OkStatus();
}

// Parses one setting of a named server in the contexts file, such as "ca=/etc/ampd/ca.pem" or "tenant=vision". Returns
// false if it is malformed.
bool ReadServerWord(const std::string& word, NamedServer* server) {
  if (word.starts_with(kTenantWord) && word.size() > kTenantWord.size()) {
    server->tenant = word.substr(kTenantWord.size());
    return true;
  }
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    const std::string key = absl::StrCat(file.name, "=");
    if (absl::StartsWith(word, key) && word.size() > key.size()) {
      file.in(server->files) = word.substr(key.size());
      return true;
    }
  }
  return false;
}

// Parses one line of the file and adds its content to `contexts`. Returns false if the line is malformed.
bool ReadLine(absl::string_view line, Contexts* contexts) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.size() < 2) {
    return words.empty();
  }
  if (words[0] == "current") {
    contexts->current = words[1];
    return words.size() == 2;
  }
  NamedServer& server = contexts->servers[words[0]];
  server.address = words[1];
  for (size_t i = 2; i < words.size(); ++i) {
    if (!ReadServerWord(words[i], &server)) {
      return false;
    }
  }
  return IsContextName(words[0]);
}

// Returns what is wrong with the address in a line of the file that names a server; "" if nothing is wrong, or if the
// line does not name a server.
std::string FaultOfAddress(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  const bool is_server = words.size() > 1 && IsContextName(words[0]);
  return !is_server || IsServerAddress(words[1]) ? ""
                                                 : absl::StrCat("the address '", Shortened(words[1], kMaxShownBytes),
                                                                "' of '", words[0], "' ", WhyNoAddress(words[1]));
}

absl::StatusOr<Contexts> ReadContextsAt(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return NotReadable(path, "it is a folder");
  }
  AMPD_RETURN_IF_ERROR(CheckTrusted(path));
  const auto text = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) {
    return Contexts();
  }
  if (!text.ok()) {
    return NotReadable(path, ReasonAtEnd(text.status()));
  }
  if (const auto invalid = FirstInvalidUtf8(*text); invalid.has_value()) {
    return BadFile(absl::StrCat(path, ": ", NotUtf8(*text, *invalid), "; correct the file or delete it"));
  }
  Contexts contexts;
  int number = 0;
  for (const auto line : absl::StrSplit(*text, '\n')) {
    ++number;
    if (!ReadLine(line, &contexts)) {
      return BadFile(absl::StrCat(path, ":", number, ": '", Shortened({line.data(), line.size()}, kMaxShownBytes),
                                  "' is neither 'NAME ADDRESS', nor 'NAME ADDRESS tenant=TENANT ca=PATH', nor "
                                  "'current NAME'; correct the file "
                                  "or delete it"));
    }
    if (const std::string fault = FaultOfAddress(line); !fault.empty()) {
      return BadFile(absl::StrCat(path, ":", number, ": ", fault, "; correct the file or delete it"));
    }
  }
  return contexts;
}

// Returns the address with the tenant in the environment variable AMPD_TENANT.
ResolvedAddress InAmpdTenant(const std::string& address, const std::string& origin) {
  return {.address = address,
          .origin = origin,
          .defaults = {},
          .tenant = Environment(kTenantVariable),
          .tenant_origin = kTenantVariable};
}

ResolvedAddress OfContext(const NamedServer& server, const std::string& origin) {
  ResolvedAddress resolved = InAmpdTenant(server.address, origin);
  resolved.defaults.files = server.files;
  if (!server.tenant.empty()) {
    resolved.tenant = server.tenant;
    resolved.tenant_origin = "tenant in the file of contexts";
  }
  return resolved;
}

// Returns the server that `text` names: by an address or by the name of a context. INVALID_ARGUMENT if it is neither.
absl::StatusOr<ResolvedAddress> Named(const std::string& text, const std::string& origin) {
  if (IsServerAddress(text)) {
    return InAmpdTenant(text, origin);
  }
  const auto path = ContextsPath();
  Contexts contexts;
  if (path.ok()) {
    AMPD_ASSIGN_OR_RETURN(contexts, ReadContextsAt(*path));
  }
  const auto found = contexts.servers.find(text);
  if (found == contexts.servers.end()) {
    const std::string subject = absl::StrCat("the address '", Shortened(text, kMaxShownBytes), "' from ", origin, " ");
    if (!IsContextName(text)) {
      return absl::InvalidArgumentError(subject + WhyNoAddress(text));
    }
    const bool is_host = text == "localhost" || text.find('.') != std::string::npos;
    return absl::InvalidArgumentError(absl::StrCat(
        subject,
        is_host ? WhyNoAddress(text) + "; "
                : "is neither HOST:PORT, nor unix:/PATH, nor the name of a context; see: ampctl context list",
        is_host ? "there is no context with this name either" : ""));
  }
  return OfContext(found->second, origin);
}

ResolvedAddress Default() {
  std::error_code ignored;
  const bool has_service = std::filesystem::is_socket(kServiceSocket, ignored);
  return has_service ? InAmpdTenant(absl::StrCat("unix:", kServiceSocket), "the service of this host")
                     : InAmpdTenant(kDefaultAddress, "the default");
}

// Returns the address of the current context or, if there is none, the default address.
absl::StatusOr<ResolvedAddress> Current() {
  const auto path = ContextsPath();
  if (!path.ok()) {
    return Default();
  }
  AMPD_ASSIGN_OR_RETURN(const Contexts contexts, ReadContextsAt(*path));
  if (contexts.current.empty()) {
    return Default();
  }
  const auto found = contexts.servers.find(contexts.current);
  if (found == contexts.servers.end()) {
    return BadFile(absl::StrCat(*path, ": the current context '", Shortened(contexts.current, kMaxShownBytes),
                                "' is not in the file; choose another: ampctl context use NAME"));
  }
  return OfContext(found->second, absl::StrCat("context ", contexts.current));
}

}  // namespace

std::string WhyNoTenant(const std::string& text) {
  return text == kAllTenants || CheckTenantName("tenant", text).ok()
             ? ""
             : absl::StrCat("\"", Shortened(text, kMaxShownBytes),
                            "\" is not the name of a tenant: 1 to 63 lower-case letters, digits and hyphens, beginning "
                            "with a letter");
}

absl::Status CheckTenant(const std::string& origin, const std::string& tenant) {
  const std::string why = WhyNoTenant(tenant);
  return why.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(origin, ": ", why));
}

bool IsContextName(const std::string& name) {
  return !name.empty() && name != "current" && name.find_first_of(" \t\r\n:") == std::string::npos;
}

absl::StatusOr<Contexts> ReadContexts() {
  AMPD_ASSIGN_OR_RETURN(const std::string path, ContextsPath());
  return ReadContextsAt(path);
}

absl::StatusOr<std::string> PathBesideContexts(const std::string& name) {
  AMPD_ASSIGN_OR_RETURN(const std::string path, ContextsPath());
  AMPD_RETURN_IF_ERROR(PrepareFolderOf(path));
  return (std::filesystem::path(path).parent_path() / name).string();
}

std::string TokenFileName(const std::string& context) { return context + ".token"; }

absl::Status WriteContexts(const Contexts& contexts) {
  AMPD_ASSIGN_OR_RETURN(const std::string path, ContextsPath());
  AMPD_RETURN_IF_ERROR(PrepareFolderOf(path));
  std::string text = contexts.current.empty() ? "" : absl::StrCat("current ", contexts.current, "\n");
  for (const auto& [name, server] : contexts.servers) {
    absl::StrAppend(&text, name, " ", server.address,
                    server.tenant.empty() ? "" : absl::StrCat(" tenant=", server.tenant));
    ConnectionFiles files = server.files;
    for (const ConnectionFileName& file : ConnectionFileNames()) {
      absl::StrAppend(&text, file.in(files).empty() ? "" : absl::StrCat(" ", file.name, "=", file.in(files)));
    }
    absl::StrAppend(&text, "\n");
  }
  const absl::Status written = WriteFileAtomically(path, text);
  return written.ok() ? written : NotWritable(path, ReasonAtEnd(written));
}

absl::StatusOr<ResolvedAddress> ResolveAddress(const std::string& flag) {
  if (!flag.empty()) {
    return Named(flag, "--address");
  }
  if (const std::string variable = Environment("AMPD_ADDRESS"); !variable.empty()) {
    return Named(variable, "AMPD_ADDRESS");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(kProjectContext, ignored)) {
    return Current();
  }
  AMPD_RETURN_IF_ERROR(CheckTrusted(kProjectContext));
  const auto project = ReadFile(kProjectContext, kMaxFileBytes);
  if (!project.ok()) {
    return NotReadable(kProjectContext, ReasonAtEnd(project.status()));
  }
  AMPD_ASSIGN_OR_RETURN(ResolvedAddress server,
                        Named(std::string(absl::StripAsciiWhitespace(*project)), kProjectContext));
  // Ignore the token, the files and the tenant that environment variables name: they are not for the server of
  // `ampctl dev`.
  server.defaults.reads_environment = false;
  server.tenant = "";
  return server;
}

const std::vector<ConnectionFileName>& ConnectionFileNames() {
  static const auto* const kNames = new std::vector<ConnectionFileName>{
      {"token-file", "File with the token to send to the server",
       [](ConnectionFiles& files) -> std::string& { return files.token; }},
      {"ca", "File with the CA certificates for the server; the connection then has TLS",
       [](ConnectionFiles& files) -> std::string& { return files.tls.ca; }},
      {"cert", "File with your certificate, for a server that asks for one",
       [](ConnectionFiles& files) -> std::string& { return files.tls.certificate; }},
      {"key", "File with the key of your certificate",
       [](ConnectionFiles& files) -> std::string& { return files.tls.key; }}};
  return *kNames;
}

}  // namespace ampd::client
