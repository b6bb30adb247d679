#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace ampd::data {

// The content of an .npy file with this header and these elements, as numpy.save writes it: the header is padded with
// spaces to a multiple of 64 bytes.
inline std::string Npy(const std::string& dict, const std::string& elements, int version = 1) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  std::string header = dict;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) {
    header.push_back(' ');
  }
  header.push_back('\n');
  std::string length;
  for (size_t i = 0; i < length_bytes; ++i) {
    length.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  return absl::StrCat("\x93NUMPY", std::string(1, static_cast<char>(version)), std::string(1, '\0'), length, header,
                      elements);
}

}  // namespace ampd::data
