#pragma once

#include <string>

#include "base/unique_fd.h"

namespace ampd {

// Opens the folder `path` below the open folder `root`, or `root` itself for "". Follows no symbolic link and does not
// leave the root, even if the tree changes meanwhile. On failure the result is not ok() and errno says why: ELOOP for a
// link, EXDEV for a path that leaves the root.
UniqueFd OpenFolderBelow(int root, const std::string& path);

// Whether `path` is one or more names joined by single slashes: no name is empty, "." or ".." or has a line break.
bool StaysBelow(const std::string& path);

}  // namespace ampd
