#pragma once

namespace ampd {

// Whether `error`, an errno value met while reading a file, tells of a disk, a network or a host that fails: the file
// can't help it, and it may be otherwise later or on another host.
bool IsTroubleOfTheHost(int error);

}  // namespace ampd
