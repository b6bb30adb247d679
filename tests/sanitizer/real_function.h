#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace ampd::sanitizer {

// Finds a function in a shared library by its mangled name, although the program defines the same function. Aborts if
// no library has that name; otherwise TSan would report false races.
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
