#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/access/identity.h"

namespace ampd::server {

// The local user at the other end of a Unix socket.
struct LocalPeer {
  uid_t uid = 0;
  std::vector<gid_t> groups;  // All groups of the connected process.
};

// A role and the tenants in which it holds, as in "submitter@vision" or "agent".
struct RoleGrant {
  // Parses ROLE or ROLE@TENANT; * as the tenant means all tenants. INVALID_ARGUMENT says what is wrong.
  static absl::StatusOr<RoleGrant> Parse(std::string_view text);

  Role role = Role::kViewer;
  std::optional<Tenants> tenants;  // nullopt: the text names no tenant.
};

// Whether the name consists only of letters, digits, '-', '_', '.' and '@'. Such a name cannot mislead its reader, for
// example with invisible characters.
bool IsPlainName(std::string_view name);

// Holds the roles of local users and of the holders of client certificates on this server. The grants can be replaced
// while calls use them. Thread-safe, except Add.
class Grants {
 public:
  // `admins`: users that are always admins. Initially nobody else has a role.
  explicit Grants(const std::vector<uid_t>& admins);
  Grants(const Grants& other) : table_(other.table()) {}
  // Replaces all grants atomically: a concurrent reader sees either the old or the new grants.
  Grants& operator=(const Grants& other);

  // Adds one grant: "user:alice=submitter", "uid:1001=viewer", "group:ml=viewer@vision", or "cert:gpu-*=agent" for the
  // certificates whose common names match the glob. The text after the @ is the tenant in which the role holds; * means
  // all tenants. Without an @, the role holds in the tenants that UsualTenants returns. Returns INVALID_ARGUMENT, with
  // a message for the operator, if `text` is malformed or names a role, a user or a group that does not exist.
  absl::Status Add(std::string_view text);

  // Whether no local user has a role, except the admins that were passed to the constructor.
  bool empty() const;

  // Returns the identity of a peer, with the roles of its user and of all its groups.
  Identity Of(const LocalPeer& peer) const;
  // Returns the roles in Of(peer), without looking up any user or group name.
  std::map<Role, Tenants> RolesOf(const LocalPeer& peer) const;

  // Returns the identity of the holder of a certificate with this common name, such as "cert:gpu-1". The identity has
  // the roles of all globs that match the common name. As an agent, the holder may only be the worker with this name.
  // If the common name is empty or is not plain (IsPlainName), the identity has no name.
  Identity OfCertificate(const std::string& common_name) const;

 private:
  using Roles = std::map<Role, Tenants>;
  struct Table {
    std::set<uid_t> admins;
    std::map<uid_t, Roles> users;
    std::map<gid_t, Roles> groups;
    std::map<std::string, Roles> certificates;  // Key: the glob on common names.
  };

  std::shared_ptr<const Table> table() const {
    const absl::MutexLock lock(&mutex_);
    return table_;
  }
  void SetTable(std::shared_ptr<const Table> table) {
    const absl::MutexLock lock(&mutex_);
    table_ = std::move(table);
  }
  static absl::Status AddTo(Table* table, std::string_view text);

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Table> table_ ABSL_GUARDED_BY(mutex_);  // Replaced as a whole; a table never changes.
};

}  // namespace ampd::server
