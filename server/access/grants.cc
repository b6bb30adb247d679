#include "server/access/grants.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

constexpr size_t kNameBufferBytes = 64 << 10;

absl::Status BadGrant(std::string_view text, const std::string& why) {
  return Error(
      absl::StatusCode::kInvalidArgument, "BAD_GRANT",
      absl::StrCat("'", std::string(text), "': ", why,
                   "; a grant is user:NAME=ROLE, uid:NUMBER=ROLE, group:NAME=ROLE or cert:NAME=ROLE, and ROLE@TENANT "
                   "for a role in a tenant"));
}

// Adds the roles of a grant to the roles that an identity already has.
void AddRoles(const std::map<Role, Tenants>& more, std::map<Role, Tenants>* roles) {
  for (const auto& [role, tenants] : more) {
    (*roles)[role].Add(tenants);
  }
}

std::optional<uid_t> UidOf(const std::string& name) {
  std::string buffer(kNameBufferBytes, '\0');
  passwd entry = {};
  passwd* found = nullptr;
  getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? std::nullopt : std::optional(found->pw_uid);
}

std::optional<gid_t> GidOf(const std::string& name) {
  std::string buffer(kNameBufferBytes, '\0');
  group entry = {};
  group* found = nullptr;
  getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? std::nullopt : std::optional(found->gr_gid);
}

std::string NameOf(uid_t uid) {
  std::string buffer(kNameBufferBytes, '\0');
  passwd entry = {};
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? absl::StrCat("uid:", uid) : absl::StrCat("user:", found->pw_name);
}

}  // namespace

bool IsPlainName(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
  });
}

absl::StatusOr<RoleGrant> RoleGrant::Parse(std::string_view text) {
  const std::vector<std::string> what = absl::StrSplit(std::string(text), absl::MaxSplits('@', 1));
  const std::optional<Role> role = ParseRole(what[0]);
  if (!role.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no role '", what[0], "'; the roles are ", RoleNames()));
  }
  RoleGrant grant{.role = *role, .tenants = what.size() == 1 ? std::nullopt : std::optional(Tenants({what[1]}))};
  const bool is_limited = grant.tenants.has_value() && !grant.tenants->all();
  if (*role == Role::kAdmin && is_limited) {
    return absl::InvalidArgumentError("an admin is one of all tenants");
  }
  if (is_limited && !CheckTenantName("tenant", what[1]).ok()) {
    return absl::InvalidArgumentError(
        "the name of a tenant has lower-case letters, digits and hyphens, and begins with a letter");
  }
  return grant;
}

Grants::Grants(const std::vector<uid_t>& admins)
    : table_(std::make_shared<Table>(Table{.admins = {admins.begin(), admins.end()}})) {}

Grants& Grants::operator=(const Grants& other) {
  if (this != &other) {
    SetTable(other.table());
  }
  return *this;
}

bool Grants::empty() const {
  const std::shared_ptr<const Table> now = table();
  return now->users.empty() && now->groups.empty();
}

absl::Status Grants::Add(std::string_view text) {
  auto changed = std::make_shared<Table>(*table());
  AMPD_RETURN_IF_ERROR(AddTo(changed.get(), text));
  SetTable(std::move(changed));
  return absl::OkStatus();
}

absl::Status Grants::AddTo(Table* table, std::string_view text) {
  const std::vector<std::string> sides = absl::StrSplit(std::string(text), absl::MaxSplits('=', 1));
  const std::vector<std::string> who = absl::StrSplit(sides[0], absl::MaxSplits(':', 1));
  if (sides.size() != 2 || who.size() != 2 || who[1].empty()) {
    return BadGrant(text, "has not the form of a grant");
  }
  const absl::StatusOr<RoleGrant> grant = RoleGrant::Parse(sides[1]);
  if (!grant.ok()) {
    return BadGrant(text, std::string(grant.status().message()));
  }
  const Roles roles = {{grant->role, grant->tenants.value_or(UsualTenants(grant->role))}};
  if (uid_t uid = 0; who[0] == "uid" && absl::SimpleAtoi(who[1], &uid)) {
    AddRoles(roles, &table->users[uid]);
    return absl::OkStatus();
  }
  if (who[0] == "user") {
    const std::optional<uid_t> uid = UidOf(who[1]);
    if (!uid.has_value()) {
      return BadGrant(text, absl::StrCat("this host has no user '", who[1], "'"));
    }
    AddRoles(roles, &table->users[*uid]);
    return absl::OkStatus();
  }
  if (who[0] == "group") {
    const std::optional<gid_t> gid = GidOf(who[1]);
    if (!gid.has_value()) {
      return BadGrant(text, absl::StrCat("this host has no group '", who[1], "'"));
    }
    AddRoles(roles, &table->groups[*gid]);
    return absl::OkStatus();
  }
  if (who[0] == "cert" && !IsPlainName(absl::StrReplaceAll(who[1], {{"*", ""}}))) {
    return BadGrant(text,
                    "the name of a certificate has letters, digits, '-', '_', '.', '@' and, for any characters, '*'");
  }
  if (who[0] == "cert") {
    AddRoles(roles, &table->certificates[who[1]]);
    return absl::OkStatus();
  }
  return BadGrant(text, absl::StrCat("'", sides[0], "' names no user, group or certificate"));
}

Identity Grants::Of(const LocalPeer& peer) const { return {.name = NameOf(peer.uid), .roles = RolesOf(peer)}; }

std::map<Role, Tenants> Grants::RolesOf(const LocalPeer& peer) const {
  const std::shared_ptr<const Table> now = table();
  Roles roles;
  if (now->admins.contains(peer.uid)) {
    roles[Role::kAdmin] = Tenants::All();
  }
  if (const auto user = now->users.find(peer.uid); user != now->users.end()) {
    AddRoles(user->second, &roles);
  }
  for (const gid_t group : peer.groups) {
    if (const auto found = now->groups.find(group); found != now->groups.end()) {
      AddRoles(found->second, &roles);
    }
  }
  return roles;
}

Identity Grants::OfCertificate(const std::string& common_name) const {
  if (common_name.empty() || !IsPlainName(common_name)) {
    return Identity();
  }
  Identity identity{.name = absl::StrCat("cert:", common_name), .roles = {}, .workers = common_name};
  const std::shared_ptr<const Table> now = table();
  for (const auto& [glob, roles] : now->certificates) {
    if (GlobMatches(glob, common_name)) {
      AddRoles(roles, &identity.roles);
    }
  }
  return identity;
}

}  // namespace ampd::server
