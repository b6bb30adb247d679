#pragma once

#include <string>

#include "absl/status/status.h"

// ampctl dev --clean.
namespace ampd::client {

// What an `ampctl dev` left in its folder, for the question whether it may be deleted: "checkpoints of 3 jobs (1.2
// GiB), server (12.0 MiB)". Empty: nothing but its lock, or no folder.
std::string DescribeDevFolder(const std::string& folder);

// Asks whether everything in the folder may be deleted, naming the folder and what is in it; does not ask when there is
// nothing or when `confirmed`. OK: it may. INVALID_ARGUMENT when nobody can be asked; CANCELLED when the answer is no;
// FAILED_PRECONDITION for a folder that no `ampctl dev` made.
absl::Status ConfirmDevClean(const std::string& folder, bool confirmed);

// Deletes everything in the folder but its lock.
absl::Status CleanDevFolder(const std::string& folder);

}  // namespace ampd::client
