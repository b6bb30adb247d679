#pragma once

#include <optional>
#include <string>
#include <string_view>

// Decimal numbers as people write them, handled as texts, so that no digit is lost.
namespace ampd::client {

// Returns the digits of a whole number that is written with a '.' or an exponent: "1500" for "1.5e3" or "1500.0".
// Returns nothing if the text is not a decimal number, if it is not exactly a whole number, such as
// "0.99999999999999999999", or if its exponent would add more than 40 zeros to the digits, as in "1e50".
std::optional<std::string> ExactWhole(std::string_view text);

// Returns the number without the separators between its groups of three digits: "1500000" for "1,500,000",
// "1 500 000" or "1_500_000". A '_' may stand between any two digits. Empty if the text has no such separators.
std::string WithoutSeparators(std::string_view text);

// Returns the number that a text with a suffix or a fraction stands for, in plain digits: "2000" for "2k", "1500000"
// for "1.5M", "0.05" for "5%" and "0.001" for "1/1000". Empty for any other text.
std::string WithoutSuffix(std::string_view text);

}  // namespace ampd::client
