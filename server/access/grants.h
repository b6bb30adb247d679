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
  std::vector<gid_t> groups;  // All groups of the process that connected.
};

// A role, and where it holds: "submitter@vision", or "agent".
struct RoleGrant {
  // Reads ROLE or ROLE@TENANT; * as the tenant means all. INVALID_ARGUMENT with what is wrong.
  static absl::StatusOr<RoleGrant> Parse(std::string_view text);

  Role role = Role::kViewer;
  std::optional<Tenants> tenants;  // Nothing: the text names none.
};

// Whether a name has no characters other than letters, digits, '-', '_', '.' and '@', so that it cannot mislead a
// reader of names.
bool IsPlainName(std::string_view name);

// Which role each local user, and each holder of a certificate, has on this server. The grants can be replaced while
// calls use them. Thread-safe, but for Add.
class Grants {
 public:
  // `admins`: users that are always admins. Nobody else has a role yet.
  explicit Grants(const std::vector<uid_t>& admins);
  Grants(const Grants& other) : table_(other.table()) {}
  // Replaces all grants, in one step for others that use them.
  Grants& operator=(const Grants& other);

  // Adds "user:alice=submitter", "uid:1001=viewer", "group:ml=viewer@vision", or "cert:gpu-*=agent" for the
  // certificates whose common names match the glob. After the @ is the tenant in which the role holds, or * for all;
  // without it, UsualTenants. INVALID_ARGUMENT with a text for the operator if the text has another form, or names a
  // role, a user or a group that does not exist.
  absl::Status Add(std::string_view text);

  // Whether no local user but the admins of the constructor has a role.
  bool empty() const;

  // The identity of a peer, with the roles of the user and of all its groups.
  Identity Of(const LocalPeer& peer) const;
  // The roles of that identity. Looks no name up.
  std::map<Role, Tenants> RolesOf(const LocalPeer& peer) const;

  // The identity of the holder of a certificate with this common name: "cert:gpu-1", with the roles of all globs that
  // match. As an agent it may be the worker of that name only. Without a name if the common name is empty or has
  // characters other than letters, digits, '-', '_', '.' and '@'.
  Identity OfCertificate(const std::string& common_name) const;

 private:
  using Roles = std::map<Role, Tenants>;
  struct Table {
    std::set<uid_t> admins;
    std::map<uid_t, Roles> users;
    std::map<gid_t, Roles> groups;
    std::map<std::string, Roles> certificates;  // By glob.
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
  std::shared_ptr<const Table> table_ ABSL_GUARDED_BY(mutex_);  // Never changes; it is replaced as a whole.
};

}  // namespace ampd::server
