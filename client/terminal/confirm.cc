#include "client/terminal/confirm.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace ampd::client {

bool CanAsk() { return isatty(STDIN_FILENO) == 1; }

bool Confirm(const std::string& question) {
  std::fprintf(stderr, "%s [y/N] ", question.c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

}  // namespace ampd::client
