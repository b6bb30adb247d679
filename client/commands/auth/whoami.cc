#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/api/tenants.h"
#include "base/status_macros.h"
#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/call.h"
#include "client/render/format.h"
#include "client/render/token_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns a membership as text: "submitter in vision", or only "submitter" if the role holds in the default tenant or
// in all tenants.
std::string MembershipText(const v1::Caller::Membership& membership) {
  const bool is_usual = membership.tenant() == kDefaultTenant || membership.tenant() == kAllTenants;
  return absl::StrCat(RoleText(membership.role()), is_usual ? "" : " in " + Printable(membership.tenant()));
}

// Returns the caller as text: "user:alice  submitter in vision, operator".
std::string CallerText(const v1::Caller& caller) {
  std::vector<std::string> roles;
  for (const v1::Caller::Membership& membership : caller.memberships()) {
    roles.push_back(MembershipText(membership));
  }
  for (const int role : caller.memberships().empty() ? caller.roles() : google::protobuf::RepeatedField<int>()) {
    roles.push_back(RoleText(static_cast<v1::Role>(role)));  // A server without tenants reports only roles.
  }
  const std::string rights = roles.empty() ? "no role" : absl::StrJoin(roles, ", ");
  const std::string who = caller.name().empty()
                              ? "you sent no token and no certificate; without them this server gives you: "
                              : Printable(caller.name()) + "  ";
  const std::string worker =
      caller.token().worker().empty() ? "" : absl::StrCat("  (worker ", Printable(caller.token().worker()), ")");
  return absl::StrCat(who, rights, worker, "\n");
}

// Returns the error for a caller without a name, for a command that prints only the name.
absl::Status NoName(const Session& session) {
  return absl::FailedPreconditionError(
      "you have no name on this server, because you sent no token and no certificate; to see your roles: " +
      session.Command("auth whoami"));
}

int ShowCaller(Session* session) {
  const auto call = [session](JobClient* client) -> absl::StatusOr<v1::Caller> {
    AMPD_ASSIGN_OR_RETURN(v1::Caller caller, WhoAmI(client));
    return session->names_only() && caller.name().empty() ? NoName(*session)
                                                          : absl::StatusOr<v1::Caller>(std::move(caller));
  };
  return CallAndShow(session, call, [&](const v1::Caller& caller) {
    if (session->names_only()) {
      WriteText(Printable(caller.name()) + "\n");
    } else if (!PrintStructured(*session, caller)) {
      WriteProse(CallerText(caller));
    }
  });
}

}  // namespace

Command WhoAmICommand() {
  return {.name = "whoami",
          .help = "Show your name and roles on the server. On a server without access control, you have no name",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .run = ShowCaller};
}

}  // namespace ampd::client
