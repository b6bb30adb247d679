#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace ampd::sanitizer {

// Returns a function that both the program and a shared library define: the library's definition, found by its mangled
// name. If the distribution's library uses another name, the program aborts here; otherwise TSan would report false
// races.
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
