#pragma once

#include <cstddef>

// Limits of what the answers to clients hold.
namespace ampd::server {

// How much of a text from a client an error repeats.
inline constexpr size_t kMaxShownBytes = 80;
// Entries on one page of a list, if the client gives no number, and at most.
inline constexpr int kDefaultPage = 50;
inline constexpr int kMaxPage = 500;

}  // namespace ampd::server
