#include "base/glob.h"

#include <fnmatch.h>

namespace ampd {

bool GlobMatches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace ampd
