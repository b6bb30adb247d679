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

namespace ampd::server {
namespace {

constexpr size_t kNameBufferBytes = 64 << 10;

absl::Status BadGrant(std::string_view text, const std::string& why) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_GRANT",
               absl::StrCat("'", std::string(text), "': ", why,
                            "; a grant is user:NAME=ROLE, uid:NUMBER=ROLE, group:NAME=ROLE or cert:NAME=ROLE"));
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

// Whether a common name has no character that could mislead a reader of names.
bool IsPlain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '@';
  });
}

}  // namespace

Grants::Grants(const std::vector<uid_t>& admins) : admins_(admins.begin(), admins.end()) {}

absl::Status Grants::Add(std::string_view text) {
  const std::vector<std::string> sides = absl::StrSplit(std::string(text), absl::MaxSplits('=', 1));
  const std::vector<std::string> who = absl::StrSplit(sides[0], absl::MaxSplits(':', 1));
  if (sides.size() != 2 || who.size() != 2 || who[1].empty()) {
    return BadGrant(text, "has not the form of a grant");
  }
  const std::optional<Role> role = ParseRole(sides[1]);
  if (!role.has_value()) {
    return BadGrant(text, absl::StrCat("there is no role '", sides[1], "'; the roles are ", RoleNames()));
  }
  if (uid_t uid = 0; who[0] == "uid" && absl::SimpleAtoi(who[1], &uid)) {
    users_[uid].insert(*role);
    return absl::OkStatus();
  }
  if (who[0] == "user") {
    const std::optional<uid_t> uid = UidOf(who[1]);
    if (!uid.has_value()) {
      return BadGrant(text, absl::StrCat("this host has no user '", who[1], "'"));
    }
    users_[*uid].insert(*role);
    return absl::OkStatus();
  }
  if (who[0] == "group") {
    const std::optional<gid_t> gid = GidOf(who[1]);
    if (!gid.has_value()) {
      return BadGrant(text, absl::StrCat("this host has no group '", who[1], "'"));
    }
    groups_[*gid].insert(*role);
    return absl::OkStatus();
  }
  if (who[0] == "cert" && !IsPlain(absl::StrReplaceAll(who[1], {{"*", ""}}))) {
    return BadGrant(text,
                    "the name of a certificate has letters, digits, '-', '_', '.', '@' and, for any characters, '*'");
  }
  if (who[0] == "cert") {
    certificates_[who[1]].insert(*role);
    return absl::OkStatus();
  }
  return BadGrant(text, absl::StrCat("'", sides[0], "' names no user, group or certificate"));
}

Identity Grants::Of(const LocalPeer& peer) const {
  Identity identity = {.name = NameOf(peer.uid), .roles = {}};
  if (admins_.contains(peer.uid)) {
    identity.roles.insert(Role::kAdmin);
  }
  if (const auto user = users_.find(peer.uid); user != users_.end()) {
    identity.roles.insert(user->second.begin(), user->second.end());
  }
  for (const gid_t group : peer.groups) {
    if (const auto found = groups_.find(group); found != groups_.end()) {
      identity.roles.insert(found->second.begin(), found->second.end());
    }
  }
  return identity;
}

Identity Grants::OfCertificate(const std::string& common_name) const {
  if (common_name.empty() || !IsPlain(common_name)) {
    return Identity();
  }
  Identity identity{.name = absl::StrCat("cert:", common_name), .roles = {}, .workers = common_name};
  for (const auto& [glob, roles] : certificates_) {
    if (GlobMatches(glob, common_name)) {
      identity.roles.insert(roles.begin(), roles.end());
    }
  }
  return identity;
}

}  // namespace ampd::server
