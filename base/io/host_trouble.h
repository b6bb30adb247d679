#pragma once

namespace ampd {

// Whether `error`, an errno value met while reading a file, is a failure of a disk, a network or the host. Then the
// file itself is not to blame, and reading it may succeed later or on another host.
bool IsTroubleOfTheHost(int error);

}  // namespace ampd
