// A plugin of GCC: `#pragma ampd instantiate_early` instantiates there what templates the code above it asked for.
//
// GCC leaves templates that inline functions use until the end of the source. Of a precompiled header it hands them on
// as they are, and each source that begins with the header instantiates all of them again, used or not: nine tenths of
// what an empty source takes with LibTorch's. With the pragma as the header's last line they are part of it.
//
// cmake/AmpdPrecompiled.cmake compiles this where GCC's headers for plugins are; without it a build takes longer and
// makes the same. https://gcc.gnu.org/onlinedocs/gccint/Plugins.html
// clang-format off: the first declares what the others need
#include "gcc-plugin.h"
// clang-format on
#include "c-family/c-pragma.h"
#include "cp/cp-tree.h"
#include "plugin-version.h"

int plugin_is_GPL_compatible;  // GCC loads no other

namespace {

void OnPragma(cpp_reader* /*reader*/) { instantiate_pending_templates(0); }

void RegisterPragma(void* /*event*/, void* /*data*/) { c_register_pragma("ampd", "instantiate_early", OnPragma); }

}  // namespace

int plugin_init(plugin_name_args* plugin, plugin_gcc_version* version) {
  if (!plugin_default_version_check(version, &gcc_version)) return 1;
  register_callback(plugin->base_name, PLUGIN_PRAGMAS, RegisterPragma, nullptr);
  return 0;
}
