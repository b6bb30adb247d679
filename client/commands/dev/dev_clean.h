#pragma once

#include <string>

#include "absl/status/status.h"

// ampctl dev --clean.
namespace ampd::client {

// Describes what an earlier `ampctl dev` left in its folder, for the question whether to delete it: "checkpoints of 3
// jobs (1.2 GiB), server (12.0 MiB)". Returns "" if the folder does not exist or holds only its lock file.
std::string DescribeDevFolder(const std::string& folder);

// Asks whether everything in the folder may be deleted; the question names the folder and its content. Does not ask if
// the folder is empty or `confirmed` is set. Returns OK if it may be deleted; INVALID_ARGUMENT if nobody can be asked;
// CANCELLED if the answer is no; FAILED_PRECONDITION if `ampctl dev` did not create the folder.
absl::Status ConfirmDevClean(const std::string& folder, bool confirmed);

// Deletes everything in the folder except its lock file.
absl::Status CleanDevFolder(const std::string& folder);

}  // namespace ampd::client
