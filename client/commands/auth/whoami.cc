#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/call.h"
#include "client/render/format.h"
#include "client/render/token_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// "user:alice  submitter, operator".
std::string CallerText(const v1::Caller& caller) {
  std::vector<std::string> roles;
  for (const int role : caller.roles()) {
    roles.push_back(RoleText(static_cast<v1::Role>(role)));
  }
  const std::string rights = roles.empty() ? "no role" : absl::StrJoin(roles, ", ");
  const std::string who = caller.name().empty() ? "a caller without a name" : Printable(caller.name());
  const std::string worker =
      caller.token().worker().empty() ? "" : absl::StrCat("  (worker ", Printable(caller.token().worker()), ")");
  return absl::StrCat(who, "  ", rights, worker, "\n");
}

int ShowCaller(Session* session) {
  return CallAndShow(session, WhoAmI, [&](const v1::Caller& caller) {
    if (session->names_only()) {
      WriteText(Printable(caller.name()) + "\n");
    } else if (!PrintStructured(*session, caller)) {
      WriteText(CallerText(caller));
    }
  });
}

}  // namespace

Command WhoAmICommand() {
  return {.name = "whoami",
          .help = "Show who you are for the server, and your roles",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .run = ShowCaller};
}

}  // namespace ampd::client
