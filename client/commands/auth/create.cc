#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/io/file.h"
#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/checks.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/render/token_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct CreateOptions {
  std::string name;
  std::string role;
  std::string worker;
  std::optional<absl::Duration> expires;
  std::string out;
};

// `tenant` is the value of --tenant. The current context's tenant is not used: a token is usually for another person.
v1::CreateTokenRequest RequestOf(const CreateOptions& options, const std::string& tenant) {
  v1::CreateTokenRequest request;
  request.set_tenant(tenant);
  request.set_name(options.name);
  request.set_role(ParseRole(options.role));
  request.set_worker(options.worker);
  if (options.expires.has_value()) {
    request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(absl::Now() + *options.expires));
  }
  return request;
}

// Creates the file for the secret, which only its owner may read. Call it before creating the token: the server sends
// the secret only once, so the secret would be lost if the file could not be created.
absl::StatusOr<UniqueFd> CreateSecretFile(const std::string& path) {
  if (const absl::Status writable = CheckOutputFile(path, /*replace=*/false); !writable.ok()) {
    return absl::IsAlreadyExists(writable) ? absl::AlreadyExistsError(path + " exists; name another file") : writable;
  }
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  return file.ok() ? absl::StatusOr<UniqueFd>(std::move(file))
                   : absl::FailedPreconditionError(absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
}

// In the server's error, replaces the names of the request's fields by the names of the command's arguments.
absl::Status WithArgumentNames(const absl::Status& status) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"name", "NAME"}, {"role", "--role"}, {"worker", "--worker"}, {"expire_time", "--expires"}};
  std::vector<FieldViolation> violations = ViolationsOf(status);
  for (FieldViolation& violation : violations) {
    for (const auto& [field, name] : kNames) {
      violation.field = violation.field == field ? name : violation.field;
    }
  }
  return violations.empty() ? status : InvalidFields(violations);
}

int CreateAndShow(Session* session, const CreateOptions& options) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  UniqueFd file;
  if (!options.out.empty()) {
    absl::StatusOr<UniqueFd> created = CreateSecretFile(options.out);
    if (!created.ok()) {
      return session->Fail(created.status());
    }
    file = *std::move(created);
  }
  absl::StatusOr<v1::CreateTokenResponse> response =
      CreateToken(*client, RequestOf(options, session->options().tenant));
  absl::Status done = response.status();
  if (done.ok() && file.ok()) {
    done = WriteAll(file.get(), response->secret() + "\n");
    response->clear_secret();
  }
  if (!done.ok()) {
    if (file.ok()) {
      unlink(options.out.c_str());
    }
    return session->Fail(WithArgumentNames(done));
  }
  if (!PrintStructured(*session, *response)) {
    WriteText(file.ok() ? "" : Printable(response->secret()) + "\n");
  }
  session->Note(file.ok() ? absl::StrCat("wrote the token ", Printable(options.name), " to ", Printable(options.out))
                          : "this is the only time that the token is shown; the server keeps only its hash");
  return kExitOk;
}

// Checks for a number without a unit, and for a word that means no end; the parser checks the rest.
std::string CheckExpires(const std::string& text) {
  const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (is_number && text != "0") {
    return absl::StrCat("'", text, "' has no unit; write ", text, "d for days, or ", text, "h for hours");
  }
  return NotEndless("--expires")(text);
}

}  // namespace

Command CreateTokenCommand() {
  const auto options = std::make_shared<CreateOptions>();
  return {
      .name = "create",
      .help = "Create a token and print it. It cannot be printed again",
      .examples =
          "  ampctl auth token create ci --role submitter --expires 90d --out ci.token\n"
          "  ampctl auth token create gpus --role agent --worker 'gpu-*' > gpus.token\n"
          "  ampctl auth token create ann --role submitter --tenant vision --out ann.token\n"
          "  ampctl --token-file ci.token auth whoami",
      .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
      .arguments =
          {{.name = "name",
            .value = &options->name,
            .text = "NAME",
            .help = "Name of the token: lower-case letters, digits and hyphens",
            .required = true},
           {.name = "--role",
            .value = &options->role,
            .text = "ROLE",
            .help =
                "What the token allows\nviewer: see the jobs, files and workers of the tenant\nsubmitter: also submit "
                "jobs, upload files and change its own jobs\noperator: also change all jobs, delete files, and drain "
                "or remove workers\nadmin: everything\nagent: what ampd-worker does, and nothing else\nscraper: read "
                "/metrics, and nothing else\nThe role holds in the tenant that --tenant names; the context's tenant "
                "and AMPD_TENANT do not count. Without --tenant, viewer and submitter hold in the tenant 'default', "
                "and the other roles in all tenants. An admin is always an admin of all tenants",
            .required = true,
            .choices = RoleWords()},
           {.name = "--worker",
            .value = &options->worker,
            .text = "PATTERN",
            .help = "For the role agent: name of the worker that may use the token; * stands for any characters"},
           {.name = "--expires",
            .value = &options->expires,
            .text = "DURATION",
            .help = "Time until the token expires: 12h, 90d (default: it never expires)",
            .check = CheckExpires},
           {.name = "--out",
            .value = &options->out,
            .text = "FILE",
            .help = "Write the token to a new file that only you can read, and not to stdout",
            .suggest = SuggestFiles}},
      .run = [options](Session* session) { return CreateAndShow(session, *options); }};
}

}  // namespace ampd::client
