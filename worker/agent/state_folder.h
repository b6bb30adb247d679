#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/random.h"

namespace ampd::agent {

// Creates `folder` if it does not exist, and writes and deletes a file in it to check that it is writable. An error is
// one line that names the folder and the cause; `what` is the folder's name in that line.
absl::Status CheckWritable(const std::string& folder, const std::string& what);

// The folder that holds one agent's state. No other agent can open it while this object lives. Thread-compatible.
class StateFolder {
 public:
  // Creates the folder if it does not exist. FAILED_PRECONDITION while another agent has it open.
  static absl::StatusOr<StateFolder> Open(const std::string& folder, RandomSource& random);

  // The agent's id, created with the folder and constant from then on. It distinguishes this agent from other agents of
  // the same name. It is a secret between the agent and the server, in a file that only the agent's user may read.
  const std::string& agent_id() const { return agent_id_; }

 private:
  UniqueFd lock_;
  std::string agent_id_;
};

}  // namespace ampd::agent
