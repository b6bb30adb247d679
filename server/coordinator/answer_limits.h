#pragma once

#include <cstddef>

// Limits on the size of the answers to clients.
namespace ampd::server {

// The most bytes of a client's text that an error message repeats.
inline constexpr size_t kMaxShownBytes = 80;
// The number of entries on a page of a list: kDefaultPage if the client gives no number, and at most kMaxPage.
inline constexpr int kDefaultPage = 50;
inline constexpr int kMaxPage = 500;

}  // namespace ampd::server
