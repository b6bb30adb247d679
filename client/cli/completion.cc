#include "client/cli/completion.h"

#include <memory>

#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// The script for bash. Bash splits words at '=' and ':' and completes only the last part, but ampctl needs whole words,
// so the script joins the parts again.
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

// The script for zsh. The words in zsh's array `words` have quotes; (Q) removes them. The last line lets the script
// work in two ways: with `source`, and as a file in fpath, which zsh runs as the body of the function.
constexpr char kZshScript[] = R"(#compdef ampctl
# zsh completion of ampctl. After compinit: source <(ampctl completion zsh)
_ampctl() {
  local line files= added=1
  local -a whole unfinished
  for line in "${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files) files=1 ;;
      *[=.]) unfinished+=("$line") ;;
      *) whole+=("$line") ;;
    esac
  done
  (( ${#whole} )) && compadd -- "${whole[@]}" && added=0
  (( ${#unfinished} )) && compadd -S '' -- "${unfinished[@]}" && added=0
  if [[ -n $files ]]; then
    compset -P '--*='
    _files && added=0
  fi
  return added
}
if [[ ${funcstack[1]-} == _ampctl ]]; then _ampctl "$@"; else compdef _ampctl ampctl; fi
)";

// The script for fish. Fish itself adds no space after a completion that ends in '=' or '.'.
constexpr char kFishScript[] = R"(# fish completion of ampctl: ampctl completion fish | source
function __ampctl_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l last (commandline --current-token --cut-at-cursor)
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete $words "$last" 2>/dev/null)
        if test "$line" = :files
            set -l option (string match --regex -- '^--[^=]*=' "$last")
            for path in (__fish_complete_path (string replace --regex -- '^--[^=]*=' '' "$last"))
                printf '%s%s\n' "$option" "$path"
            end
        else
            printf '%s\n' "$line"
        end
    end
end
complete --command ampctl --no-files --arguments '(__ampctl_complete)'
)";

const char* ScriptFor(const std::string& shell) {
  return shell == "zsh" ? kZshScript : shell == "fish" ? kFishScript : kBashScript;
}

}  // namespace

Command CompletionCommand() {
  const auto shell = std::make_shared<std::string>();
  return {.name = "completion",
          .help = "Print a completion script for a shell",
          .examples =
              "  source <(ampctl completion bash)       in ~/.bashrc\n"
              "  source <(ampctl completion zsh)        in ~/.zshrc, after compinit\n"
              "  ampctl completion fish | source        in ~/.config/fish/config.fish",
          .arguments = {{.name = "shell",
                         .value = shell.get(),
                         .text = "SHELL",
                         .help = "Shell: bash, zsh or fish",
                         .required = true,
                         .choices = {"bash", "zsh", "fish"}}},
          .run = [shell](Session*) {
            WriteText(ScriptFor(*shell));
            return kExitOk;
          }};
}

}  // namespace ampd::client
