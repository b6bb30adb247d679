#include "base/yaml/look_alike.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ampd {
namespace {

struct Character {
  uint32_t code;
  const char* name;   // its name in Unicode
  const char* plain;  // the ASCII characters that it looks like; empty: nobody sees it
};

// Sorted by code. The full-width forms of ASCII and the digits of other scripts are not listed here but in kBlocks,
// because they have the same order as in ASCII.
constexpr Character kCharacters[] = {
    {0x00A0, "no-break space", " "},
    {0x00AB, "left-pointing double angle quotation mark", "\""},
    {0x00AD, "soft hyphen", ""},
    {0x00B4, "acute accent", "'"},
    {0x00BB, "right-pointing double angle quotation mark", "\""},
    {0x0391, "Greek capital letter ALPHA", "A"},
    {0x0392, "Greek capital letter BETA", "B"},
    {0x0395, "Greek capital letter EPSILON", "E"},
    {0x0396, "Greek capital letter ZETA", "Z"},
    {0x0397, "Greek capital letter ETA", "H"},
    {0x0399, "Greek capital letter IOTA", "I"},
    {0x039A, "Greek capital letter KAPPA", "K"},
    {0x039C, "Greek capital letter MU", "M"},
    {0x039D, "Greek capital letter NU", "N"},
    {0x039F, "Greek capital letter OMICRON", "O"},
    {0x03A1, "Greek capital letter RHO", "P"},
    {0x03A4, "Greek capital letter TAU", "T"},
    {0x03A5, "Greek capital letter UPSILON", "Y"},
    {0x03A7, "Greek capital letter CHI", "X"},
    {0x03B1, "Greek small letter alpha", "a"},
    {0x03B9, "Greek small letter iota", "i"},
    {0x03BA, "Greek small letter kappa", "k"},
    {0x03BD, "Greek small letter nu", "v"},
    {0x03BF, "Greek small letter omicron", "o"},
    {0x03C1, "Greek small letter rho", "p"},
    {0x03C5, "Greek small letter upsilon", "u"},
    {0x0405, "Cyrillic capital letter DZE", "S"},
    {0x0406, "Cyrillic capital letter byelorussian-ukrainian I", "I"},
    {0x0408, "Cyrillic capital letter JE", "J"},
    {0x0410, "Cyrillic capital letter A", "A"},
    {0x0412, "Cyrillic capital letter VE", "B"},
    {0x0415, "Cyrillic capital letter IE", "E"},
    {0x041A, "Cyrillic capital letter KA", "K"},
    {0x041C, "Cyrillic capital letter EM", "M"},
    {0x041D, "Cyrillic capital letter EN", "H"},
    {0x041E, "Cyrillic capital letter O", "O"},
    {0x0420, "Cyrillic capital letter ER", "P"},
    {0x0421, "Cyrillic capital letter ES", "C"},
    {0x0422, "Cyrillic capital letter TE", "T"},
    {0x0423, "Cyrillic capital letter U", "Y"},
    {0x0425, "Cyrillic capital letter HA", "X"},
    {0x0430, "Cyrillic small letter a", "a"},
    {0x0435, "Cyrillic small letter ie", "e"},
    {0x043E, "Cyrillic small letter o", "o"},
    {0x0440, "Cyrillic small letter er", "p"},
    {0x0441, "Cyrillic small letter es", "c"},
    {0x0443, "Cyrillic small letter u", "y"},
    {0x0445, "Cyrillic small letter ha", "x"},
    {0x0455, "Cyrillic small letter dze", "s"},
    {0x0456, "Cyrillic small letter byelorussian-ukrainian i", "i"},
    {0x0458, "Cyrillic small letter je", "j"},
    {0x04BB, "Cyrillic small letter shha", "h"},
    {0x0501, "Cyrillic small letter komi de", "d"},
    {0x051B, "Cyrillic small letter qa", "q"},
    {0x051D, "Cyrillic small letter we", "w"},
    {0x1680, "ogham space mark", " "},
    {0x2000, "en quad", " "},
    {0x2001, "em quad", " "},
    {0x2002, "en space", " "},
    {0x2003, "em space", " "},
    {0x2004, "three-per-em space", " "},
    {0x2005, "four-per-em space", " "},
    {0x2006, "six-per-em space", " "},
    {0x2007, "figure space", " "},
    {0x2008, "punctuation space", " "},
    {0x2009, "thin space", " "},
    {0x200A, "hair space", " "},
    {0x200B, "zero width space", ""},
    {0x200C, "zero width non-joiner", ""},
    {0x200D, "zero width joiner", ""},
    {0x2010, "hyphen", "-"},
    {0x2011, "non-breaking hyphen", "-"},
    {0x2012, "figure dash", "-"},
    {0x2013, "en dash", "-"},
    {0x2014, "em dash", "-"},
    {0x2015, "horizontal bar", "-"},
    {0x2018, "left single quotation mark", "'"},
    {0x2019, "right single quotation mark", "'"},
    {0x201A, "single low-9 quotation mark", "'"},
    {0x201B, "single high-reversed-9 quotation mark", "'"},
    {0x201C, "left double quotation mark", "\""},
    {0x201D, "right double quotation mark", "\""},
    {0x201E, "double low-9 quotation mark", "\""},
    {0x201F, "double high-reversed-9 quotation mark", "\""},
    {0x2024, "one dot leader", "."},
    {0x2026, "horizontal ellipsis", "..."},
    {0x202F, "narrow no-break space", " "},
    {0x2032, "prime", "'"},
    {0x2033, "double prime", "\""},
    {0x205F, "medium mathematical space", " "},
    {0x2060, "word joiner", ""},
    {0x2212, "minus sign", "-"},
    {0x2236, "ratio", ":"},
    {0x3000, "ideographic space", " "},
    {0xA789, "modifier letter colon", ":"},
    {0xFEFF, "zero width no-break space", ""},
};

// A block of characters with the same order as in ASCII: `first` looks like `plain`, the next character like the one
// after `plain`, and so on.
struct Block {
  uint32_t first;
  uint32_t last;
  char plain;
  const char* name;
};
constexpr Block kBlocks[] = {{0x0660, 0x0669, '0', "Arabic-Indic digit"},
                             {0x06F0, 0x06F9, '0', "extended Arabic-Indic digit"},
                             {0x0966, 0x096F, '0', "Devanagari digit"},
                             {0xFF01, 0xFF5E, '!', "full-width form"}};

// Returns the code point of the one UTF-8 character that `bytes` consists of.
uint32_t CodeOf(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  uint32_t code = bytes.size() == 1 ? first : first & (0xFF >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3F);
  }
  return code;
}

std::optional<LookAlike> LookAlikeOf(std::string_view bytes) {
  const uint32_t code = CodeOf(bytes);
  LookAlike found{.character = std::string(bytes), .code = absl::StrFormat("U+%04X", code)};
  const auto* const character =
      std::lower_bound(std::begin(kCharacters), std::end(kCharacters), code,
                       [](const Character& one, uint32_t wanted) { return one.code < wanted; });
  if (character != std::end(kCharacters) && character->code == code) {
    found.name = character->name;
    found.plain = character->plain;
    return found;
  }
  for (const Block& block : kBlocks) {
    if (code >= block.first && code <= block.last) {
      found.plain = std::string(1, static_cast<char>(block.plain + (code - block.first)));
      found.name = absl::StrCat(block.name, " ", found.plain);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<LookAlike> FindLookAlikes(std::string_view text) {
  constexpr size_t kMost = 1000;
  std::vector<LookAlike> found;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  text.remove_prefix(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  int line = 1;
  size_t line_start = 0;
  int num_before = 0;  // characters of the line before `at`
  for (size_t at = 0; at < text.size() && found.size() < kMost;) {
    const size_t num_bytes = std::max<size_t>(1, Utf8CharacterBytes(text, at));
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
      num_before = -1;
    }
    if (std::optional<LookAlike> one = num_bytes > 1 ? LookAlikeOf(text.substr(at, num_bytes)) : std::nullopt) {
      one->line = line;
      one->column = static_cast<int>(at - line_start) + 1;
      one->shown_column = num_before + 1;
      found.push_back(*std::move(one));
    }
    at += num_bytes;
    ++num_before;
  }
  return found;
}

std::string ExplainLookAlike(const LookAlike& one) {
  const std::string where =
      one.line == 0 ? absl::StrCat("the character '", OneLine(one.character), "' is ")
                    : absl::StrCat("the character in line ", one.line, ", column ", one.shown_column, " is ");
  const std::string what = absl::StrCat(where, one.code, " (", one.name, ")");
  return one.plain.empty()  ? absl::StrCat(what, ", which nobody sees; remove it")
         : one.plain == " " ? absl::StrCat(what, ", which looks like a space; type a plain space")
                            : absl::StrCat(what, ", which looks like ", one.plain, "; type a plain ", one.plain);
}

std::string WithPlainCharacters(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = std::max<size_t>(1, Utf8CharacterBytes(text, at));
    const std::string_view bytes = text.substr(at, num_bytes);
    const std::optional<LookAlike> one = num_bytes > 1 ? LookAlikeOf(bytes) : std::nullopt;
    plain += one.has_value() ? one->plain : std::string(bytes);
    at += num_bytes;
  }
  return plain;
}

bool IsOfSyntax(const LookAlike& one) {
  return one.plain.empty() ||
         (one.plain.size() == 1 && std::string_view(" \"'-:,{}[]#").find(one.plain) != std::string_view::npos);
}

}  // namespace ampd
