#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/api/tenants.h"

namespace ampd::agent {

// A folder from which jobs may read data, and the tenants whose jobs may do so.
struct DataRoot {
  std::string folder;  // Absolute path.
  Tenants tenants = Tenants::All();
};
using DataRoots = std::map<std::string, DataRoot>;  // By name.

// Reads the values of --data-root: "NAME=PATH", or "NAME@TENANT=PATH" with one or more tenants, as in
// "NAME@nlp,vision=PATH". INVALID_ARGUMENT if a value has another form or is not UTF-8, or if its path is not a folder;
// the message contains the value. (The names are sent to the server, and the paths to trainers.)
absl::StatusOr<DataRoots> ParseDataRoots(const std::vector<std::string>& values);

// Reads the values of --tenant. INVALID_ARGUMENT if a value is not a valid name of a tenant; the message contains the
// value.
absl::StatusOr<std::vector<std::string>> ParseTenants(const std::vector<std::string>& values);

}  // namespace ampd::agent
