#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/identity.h"

namespace ampd::server {

// The local user at the other end of a Unix socket.
struct LocalPeer {
  uid_t uid = 0;
  std::vector<gid_t> groups;  // All groups of the process that connected.
};

// Which role each local user, and each holder of a certificate, has on this server. Thread-compatible.
class Grants {
 public:
  // `admins`: users that are always admins. Nobody else has a role yet.
  explicit Grants(const std::vector<uid_t>& admins);

  // Adds "user:alice=submitter", "uid:1001=viewer", "group:ml=viewer", or "cert:gpu-*=agent" for the certificates whose
  // common names match the glob. INVALID_ARGUMENT with a text for the operator if the text has another form, or names a
  // role, a user or a group that does not exist.
  absl::Status Add(std::string_view text);

  // Whether no local user but the admins of the constructor has a role.
  bool empty() const { return users_.empty() && groups_.empty(); }

  // The identity of a peer, with the roles of the user and of all its groups.
  Identity Of(const LocalPeer& peer) const;

  // The identity of the holder of a certificate with this common name: "cert:gpu-1", with the roles of all globs that
  // match. As an agent it may be the worker of that name only. Without a name if the common name is empty or has
  // characters other than letters, digits, '-', '_', '.' and '@'.
  Identity OfCertificate(const std::string& common_name) const;

 private:
  std::set<uid_t> admins_;
  std::map<uid_t, std::set<Role>> users_;
  std::map<gid_t, std::set<Role>> groups_;
  std::map<std::string, std::set<Role>> certificates_;  // By glob.
};

}  // namespace ampd::server
