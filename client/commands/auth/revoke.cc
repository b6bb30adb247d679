#include <memory>
#include <string>

#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/checks.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

int RevokeAndShow(Session* session, const std::string& name) {
  const auto client = session->Client();
  const absl::Status revoked = client.ok() ? RevokeToken(*client, name) : client.status();
  if (!revoked.ok()) {
    std::vector<std::string> names;
    const auto tokens = absl::IsNotFound(revoked) ? ListTokens(*client) : revoked;
    for (const v1::Token& token : tokens.ok() ? *tokens : std::vector<v1::Token>()) {
      names.push_back(token.name());
    }
    return session->Fail(WithMeantName(revoked, name, names));
  }
  if (session->names_only()) {
    WriteText(Printable(name) + "\n");
  } else if (!PrintStructured(*session, PlainFields{{"name", name}, {"revoked", true}})) {
    WriteFormatted("%s  revoked\n", Printable(name).c_str());
  }
  return kExitOk;
}

}  // namespace

Command RevokeTokenCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "revoke",
          .help =
              "Make a token invalid for good. Connections that use the token, such as those of ampctl job watch and of "
              "workers, end within seconds",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {{.name = "name",
                         .value = name.get(),
                         .text = "NAME",
                         .help = "Name of the token, as in ampctl auth token list",
                         .required = true,
                         .suggest = SuggestTokens}},
          .run = [name](Session* session) { return RevokeAndShow(session, *name); }};
}

}  // namespace ampd::client
