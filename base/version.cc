#include "base/version.h"

namespace ampd {

const char* Version() { return AMPD_VERSION; }

std::string VersionLine(const std::string& program) { return program + " " + Version(); }

}  // namespace ampd
