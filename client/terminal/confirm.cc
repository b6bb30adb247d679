#include "client/terminal/confirm.h"

#include <unistd.h>

#include <iostream>

#include "client/terminal/standard_streams.h"

namespace ampd::client {

bool CanAsk() { return isatty(STDIN_FILENO) == 1; }

bool Confirm(const std::string& question) {
  WriteMessage(question + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

}  // namespace ampd::client
