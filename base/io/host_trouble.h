#pragma once

namespace ampd {

// Whether `error`, an errno value met while reading a file, means that a disk, a network or the host failed. If so, the
// file itself may be intact, and reading it may succeed later or on another host.
bool IsTroubleOfTheHost(int error);

}  // namespace ampd
