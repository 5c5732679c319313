// What a text that is taken as it stands looks like besides (pure): a table, markup, JSON under the
// name of a text, another encoding. The name and the first bytes tell. It is a reason for a note
// and never for reading the text otherwise, as a text may be meant to hold just that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

enum class TextSign {
  kJsonLines,
  kJson,
  kNotebook,
  kTable,
  kHtml,
  kXml,
  kRichText,
  kPostScript,
  kOtherEncoding,
  kCarriageReturns,
};

struct TextFinding {
  TextSign sign;
  std::string reason;  // "looks like JSON lines: its first 64 lines are objects"
};

// In the order of TextSign; of JSON, tables and markup at most one. `head`: the first kHeadBytes of
// the text, decompressed, or all of it.
std::vector<TextFinding> findings_of(std::string_view path, std::string_view head);

// How what is meant instead is had of FILE.
std::string_view advice_for(TextSign sign);

}  // namespace ds
