#pragma once

#include <string>
#include <string_view>

namespace ampd::client {

// Returns the text with its lines broken between words so that no line has more than `width` columns; unchanged if
// `width` is 0. The second and further parts of a broken line are indented. In a line such as "state  FAILED: ..." or
// "  --limit N   Maximum number", they begin below the text; in other lines, they have two more spaces than the line. A
// word that is longer than a line is not broken, so that a path can be copied. A command line of ampctl within a text
// is not broken if it fits on a line of its own. If it does not fit, it is broken with backslashes, as a shell reads
// it, so that it can be copied. A sentence that only mentions a command is broken like any other text. The text may
// have the colours of Palette.
std::string WrapLines(std::string_view text, int width);

}  // namespace ampd::client
