#include "client/commands/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ampd::client {

std::string BashCompletion(const CompletionWords& words) {
  std::string script =
      "# bash completion of ampctl: source <(ampctl completion bash)\n"
      "_ampctl() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" path=\"\" word words=\"\"\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"${path:+$path }$word\" in\n";
  for (const auto& [path, unused] : words) {
    if (!path.empty()) {
      absl::StrAppend(&script, "      '", path, "') path='", path, "' ;;\n");
    }
  }
  script += "    esac\n  done\n  case \"$path\" in\n";
  for (const auto& [path, choices] : words) {
    absl::StrAppend(&script, "    '", path, "') words='", absl::StrJoin(choices, " "), "' ;;\n");
  }
  script +=
      "  esac\n"
      "  case \"$path\" in\n"
      "    'job show'|'job watch'|'job logs'|'job wait'|'job cancel'|'job pause'|'job resume'|'job explain'|'job "
      "retry'|"
      "'job clone'|'job delete'|'job points'|'job events')\n"
      "      words=\"$words $(ampctl job list -q 2>/dev/null)\" ;;\n"
      "    'worker drain'|'worker undrain')\n"
      "      words=\"$words $(ampctl worker list -q 2>/dev/null)\" ;;\n"
      "    'context use') words=\"$words $(ampctl context list --no-headers 2>/dev/null | sed 's/^\\*//' | awk '{print "
      "$1}')\" ;;\n"
      "    'completion') words='bash' ;;\n"
      "    'help') words='exit-codes' ;;\n"
      "  esac\n"
      "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n"
      "    -o|--output) words='table wide json jsonl yaml name' ;;\n"
      "    --color) words='auto always never' ;;\n"
      "    -f|--file) [ \"$path\" = 'job submit' ] && { COMPREPLY=($(compgen -f -- \"$current\")); return; } ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}\n"
      "complete -o default -F _ampctl ampctl\n";
  return script;
}

}  // namespace ampd::client
