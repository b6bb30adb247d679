#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/random.h"

namespace ampd::agent {

// Makes `folder` if it is not there and writes a file in it once. An error tells of the folder and why, in one line;
// `what` is what people call the folder.
absl::Status TryFolder(const std::string& folder, const std::string& what);

// The folder of one agent's state, which no other agent has as long as this lives. Thread-compatible.
class StateFolder {
 public:
  // Makes the folder if it is not there. FAILED_PRECONDITION while another agent has it.
  static absl::StatusOr<StateFolder> Open(const std::string& folder, RandomSource& random);

  // Made with the folder and the same ever after: tells this agent from others of its name. A secret between it and the
  // server, in a file that only its user may read.
  const std::string& agent_id() const { return agent_id_; }

 private:
  UniqueFd lock_;
  std::string agent_id_;
};

}  // namespace ampd::agent
