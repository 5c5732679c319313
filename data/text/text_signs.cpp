#include "data/text/text_signs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "data/text/json_shape.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// A word of letters, digits and a few marks, as columns are named; prose has blanks.
bool is_column_name(std::string_view field) {
  constexpr size_t kLongest = 40;
  constexpr std::string_view kMarks = "-.";
  if (field.empty() || field.size() > kLongest || !is_letter(field[0])) return false;
  return std::ranges::all_of(field, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos;
  });
}

// Takes a record of a table (RFC 4180: quotes hold separators and line ends, and are doubled
// inside) off the front of `text`. Nothing where it is cut or its quotes are none of these.
std::optional<std::vector<std::string>> take_record(std::string_view& text, char separator) {
  std::vector<std::string> fields(1);
  enum class In { kPlain, kQuotes, kBehindQuotes } in = In::kPlain;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in == In::kQuotes) {
      if (c == '"') {
        in = In::kBehindQuotes;
      } else {
        fields.back() += c;
      }
    } else if (c == '"' && in == In::kBehindQuotes) {
      fields.back() += c;
      in = In::kQuotes;
    } else if (c == separator) {
      fields.emplace_back();
      in = In::kPlain;
    } else if (c == '\n') {
      if (fields.back().ends_with('\r')) fields.back().pop_back();
      text.remove_prefix(i + 1);
      return fields;
    } else if (c == '"' && fields.back().empty()) {
      in = In::kQuotes;
    } else if (in == In::kBehindQuotes && c != '\r') {
      return std::nullopt;
    } else {
      fields.back() += c;
    }
  }
  return std::nullopt;
}

// The columns that the first line names, where the records after it have as many fields.
std::vector<std::string> columns_of(std::string_view head, char separator) {
  constexpr int kFewestRecords = 2;
  constexpr int kMostRecords = 32;
  const std::optional<std::vector<std::string>> names = take_record(head, separator);
  if (!names || names->size() < 2 || !std::ranges::all_of(*names, is_column_name)) return {};
  int records = 0;
  while (records < kMostRecords) {
    const auto record = take_record(head, separator);
    if (!record) break;
    if (record->size() != names->size()) return {};
    ++records;
  }
  return records >= kFewestRecords ? *names : std::vector<std::string>();
}

std::optional<TextFinding> table_in(const std::string& ending, std::string_view head) {
  struct Form {
    char separator;
    std::string_view name;
  };
  for (const Form form : {Form{',', "CSV"}, Form{'\t', "TSV"}, Form{';', "CSV"}}) {
    std::vector<std::string> columns = columns_of(head, form.separator);
    if (columns.empty()) continue;
    constexpr size_t kShown = 8;
    if (columns.size() > kShown) {
      columns.resize(kShown);
      columns.emplace_back("...");
    }
    return TextFinding{TextSign::kTable,
                       fmt::format("looks like a table ({}): its first line names the columns {}",
                                   form.name, fmt::join(columns, ", "))};
  }
  if (ending != ".csv" && ending != ".tsv") return std::nullopt;
  return TextFinding{TextSign::kTable,
                     fmt::format("is a table ({}) by its name", ending == ".csv" ? "CSV" : "TSV")};
}

std::optional<TextFinding> json_in(const std::string& ending, std::string_view head) {
  const JsonShape shape = json_shape(head);
  switch (shape.kind) {
    case JsonShape::Kind::kLines:
      return TextFinding{
          TextSign::kJsonLines,
          shape.lines == 1
              ? "looks like JSON lines: its first line is an object"
              : fmt::format("looks like JSON lines: its first {} lines are objects", shape.lines)};
    case JsonShape::Kind::kList:
      return TextFinding{TextSign::kJson, "looks like one JSON list"};
    case JsonShape::Kind::kObject:
      if (ending == ".ipynb" || shape.list == "cells")
        return TextFinding{TextSign::kNotebook, "looks like a Jupyter notebook"};
      return TextFinding{TextSign::kJson, "looks like one JSON object"};
    case JsonShape::Kind::kNone:
      break;
  }
  return std::nullopt;
}

bool begins_like(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() &&
         std::ranges::equal(text.substr(0, beginning.size()), beginning, {}, ascii_lower);
}

std::optional<TextFinding> markup_in(const std::string& ending, std::string_view head) {
  struct Form {
    TextSign sign;
    std::string_view beginning, name;
  };
  constexpr std::array kForms = {Form{TextSign::kHtml, "<!doctype html", "HTML"},
                                 Form{TextSign::kHtml, "<html", "HTML"},
                                 Form{TextSign::kHtml, "<head>", "HTML"},
                                 Form{TextSign::kHtml, "<body", "HTML"},
                                 Form{TextSign::kXml, "<?xml", "XML"},
                                 Form{TextSign::kXml, "<mediawiki", "XML"},
                                 Form{TextSign::kRichText, "{\\rtf", "Rich Text"},
                                 Form{TextSign::kPostScript, "%!ps", "PostScript"}};
  const std::string_view text = head.substr(std::min(head.size(), head.find_first_not_of(kBlanks)));
  for (const Form& form : kForms) {
    if (begins_like(text, form.beginning))
      return TextFinding{form.sign, fmt::format("looks like {}", form.name)};
  }
  const bool html = ending == ".html" || ending == ".htm" || ending == ".xhtml";
  if (html) return TextFinding{TextSign::kHtml, "is HTML by its name"};
  if (ending == ".xml") return TextFinding{TextSign::kXml, "is XML by its name"};
  return std::nullopt;
}

std::optional<TextFinding> encoding_of(std::string_view head) {
  if (head.size() == kHeadBytes) head = whole_characters(head);
  const size_t invalid = invalid_utf8_bytes(head);
  if (invalid == 0) return std::nullopt;
  return TextFinding{TextSign::kOtherEncoding,
                     fmt::format("is not all UTF-8: {} of {} bytes looked at are invalid, as those "
                                 "of Latin-1 and Windows-1252 are",
                                 invalid, head.size())};
}

std::optional<TextFinding> line_ends_of(std::string_view head) {
  size_t lines = 0;
  for (size_t at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1)) {
    if (at == 0 || head[at - 1] != '\r') return std::nullopt;
    ++lines;
  }
  if (lines == 0) return std::nullopt;
  return TextFinding{TextSign::kCarriageReturns, "has lines that end in CR LF"};
}

}  // namespace

std::vector<TextFinding> findings_of(std::string_view path, std::string_view head) {
  head = head.substr(0, kHeadBytes);
  const std::string ending = ending_of(path);
  const std::string_view text = without_mark(head);
  std::vector<TextFinding> out;
  std::optional<TextFinding> format = json_in(ending, text);
  if (!format) format = markup_in(ending, text);
  if (!format) format = table_in(ending, text);
  for (std::optional<TextFinding>& found :
       std::array{format, encoding_of(head), line_ends_of(text)}) {
    if (found) out.push_back(std::move(*found));
  }
  return out;
}

std::string_view advice_for(TextSign sign) {
  switch (sign) {
    case TextSign::kJsonLines:
      return "under a name that ends in .jsonl, data.field of each line would be read";
    case TextSign::kJson:
      return "a list of objects becomes JSON lines with: jq -c '.[]' FILE > FILE.jsonl";
    case TextSign::kNotebook:
      return "its text alone comes from: jupyter nbconvert --to markdown FILE";
    case TextSign::kTable:
      return "JSON lines, of which one column is read, come from: mlr --icsv --ojsonl cat FILE > "
             "FILE.jsonl (--itsv for TSV)";
    case TextSign::kHtml:
      return "its text alone comes from: pandoc -f html -t plain FILE > FILE.txt";
    case TextSign::kXml:
      return "write its texts as JSON lines to have them alone";
    case TextSign::kRichText:
      return "its text alone comes from: pandoc -f rtf -t plain FILE > FILE.txt";
    case TextSign::kPostScript:
      return "its text alone comes from: ps2ascii FILE FILE.txt";
    case TextSign::kOtherEncoding:
      return "it becomes UTF-8 with: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW_FILE";
    case TextSign::kCarriageReturns:
      return "the CR would go with: tr -d '\\r' < FILE > NEW_FILE";
  }
  return "";
}

}  // namespace ds
