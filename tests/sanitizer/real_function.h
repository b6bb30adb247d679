#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace ampd::sanitizer {

// Finds a library's function by its mangled name, although the program itself defines a function of that name. Aborts
// if no shared library has the name, because TSan would then report races that do not exist.
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
