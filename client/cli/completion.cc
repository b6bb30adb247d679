#include "client/cli/completion.h"

#include <cstdio>
#include <memory>

namespace ampd::client {
namespace {

// The script joins words again: bash splits them at '=' and ':' and completes only the last part, but ampctl needs
// whole words.
constexpr char kBashScript[] = R"(# bash completion of ampctl: source <(ampctl completion bash)
_ampctl() {
  local words=() line last prefix i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    if ((i > 1)) && [[ ${COMP_WORDS[i]} =~ ^[=:]+$ || ${COMP_WORDS[i - 1]} =~ ^[=:]+$ ]]; then
      words[${#words[@]} - 1]+=${COMP_WORDS[i]}
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  last=${COMP_WORDS[COMP_CWORD]}
  [[ $last =~ ^[=:]+$ ]] && last=
  prefix=${words[${#words[@]} - 1]}
  prefix=${prefix%"$last"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -O ${#COMPREPLY[@]} -t COMPREPLY < <(compgen -f -- "$last")
      return
    fi
    [[ $line == *[=.] ]] && compopt -o nospace 2>/dev/null
    COMPREPLY+=("${line#"$prefix"}")
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _ampctl ampctl
)";

}  // namespace

Command CompletionCommand() {
  const auto shell = std::make_shared<std::string>();
  return {.name = "completion",
          .help = "Print a completion script for a shell",
          .examples = "  source <(ampctl completion bash)",
          .arguments = {{.name = "shell",
                         .value = shell.get(),
                         .text = "SHELL",
                         .help = "Shell: bash",
                         .required = true,
                         .choices = {"bash"}}},
          .run = [shell](Session*) {
            std::fputs(kBashScript, stdout);
            return kExitOk;
          }};
}

}  // namespace ampd::client
