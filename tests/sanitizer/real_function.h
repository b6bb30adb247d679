#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace ampd::sanitizer {

// The library's definition of a function that the program defines too, by its mangled name. Where the distribution's
// library has another name for it, the program ends here instead of giving false reports.
template <typename Function>
Function* RealFunction(const char* mangled) {
  void* real = dlsym(RTLD_NEXT, mangled);
  if (real == nullptr) {
    std::fprintf(stderr,
                 "tests/sanitizer: no shared library defines %s; take the name from the installed one (nm -D)\n",
                 mangled);
    std::abort();
  }
  return reinterpret_cast<Function*>(real);
}

}  // namespace ampd::sanitizer
