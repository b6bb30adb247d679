#pragma once

#include <string>
#include <string_view>

namespace ampd::client {

// Returns the text with its lines broken between words so that each has at most `width` columns; unchanged if `width`
// is 0. The second and further parts of a line are indented: below the text of a line such as "state  FAILED: ..." or
// "  --limit N   Maximum number", by two more columns than the line otherwise. A word that is longer than a line stays
// whole, so that a path can be copied. A command line of ampctl that fits on a line of its own is not broken; one that
// stands alone is broken as a shell reads it, with a backslash. The text may have the colours of Palette.
std::string WrapLines(std::string_view text, int width);

}  // namespace ampd::client
