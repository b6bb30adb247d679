// A GCC plugin: `#pragma ampd instantiate_early` instantiates the templates that the code above it uses, at that point.
//
// GCC delays the templates that inline functions use until the end of the source. A precompiled header passes them on
// uninstantiated, and each source that includes it instantiates all of them again, used or not. With LibTorch's header
// that is nine tenths of the time to compile an empty source. If the pragma is the header's last line, the
// instantiations become part of the header.
//
// cmake/AmpdPrecompiled.cmake compiles this plugin if GCC's plugin headers are installed. Without it a build takes
// longer and has the same result. https://gcc.gnu.org/onlinedocs/gccint/Plugins.html
// clang-format off: the first declares what the others need
#include "gcc-plugin.h"
// clang-format on
#include "c-family/c-pragma.h"
#include "cp/cp-tree.h"
#include "plugin-version.h"

int plugin_is_GPL_compatible;  // GCC loads no plugin without this symbol.

namespace {

void OnPragma(cpp_reader* /*reader*/) { instantiate_pending_templates(0); }

void RegisterPragma(void* /*event*/, void* /*data*/) { c_register_pragma("ampd", "instantiate_early", OnPragma); }

}  // namespace

int plugin_init(plugin_name_args* plugin, plugin_gcc_version* version) {
  if (!plugin_default_version_check(version, &gcc_version)) return 1;
  register_callback(plugin->base_name, PLUGIN_PRAGMAS, RegisterPragma, nullptr);
  return 0;
}
