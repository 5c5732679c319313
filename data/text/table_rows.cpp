#include "data/text/table_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text/record_lines.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

void split_at_tabs(std::string_view line, std::vector<std::string>& cells) {
  for (size_t tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
    cells.emplace_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  cells.emplace_back(line);
}

}  // namespace

TableRows::TableRows(const RecordText& text) : text_(text), rest_(without_mark(text.content)) {}

bool TableRows::next(std::vector<std::string>& cells) {
  while (!rest_.empty()) {
    line_ = ++lines_;
    cells.clear();
    if (text_.layout == RecordLayout::kTabs) {
      split_at_tabs(next_line(rest_), cells);
    } else {
      read_quoted_row(cells);
    }
    if (cells.size() > 1 || !is_blank(cells.front())) return true;
  }
  return false;
}

void TableRows::read_quoted_row(std::vector<std::string>& cells) {
  for (bool goes_on = true; goes_on;) {
    std::string& cell = cells.emplace_back();
    if (rest_.starts_with('"')) {
      read_quoted(cell);
    } else {
      const size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
      cell = rest_.substr(0, end);
      rest_.remove_prefix(end);
    }
    goes_on = rest_.starts_with(',');
    if (goes_on) rest_.remove_prefix(1);
  }
  if (!cells.back().empty() && cells.back().back() == '\r') cells.back().pop_back();
  if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
  if (rest_.starts_with('\n')) {
    rest_.remove_prefix(1);
  } else if (!rest_.empty()) {
    refuse_line(text_.path, line_, "a quoted cell has text behind its closing quote");
  }
}

// "" within quotes is a quote, and a line feed there belongs to the cell.
void TableRows::read_quoted(std::string& cell) {
  rest_.remove_prefix(1);
  for (;;) {
    const size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      refuse_line(text_.path, line_, "a quoted cell has no end");
    }
    const std::string_view part = rest_.substr(0, quote);
    lines_ += std::ranges::count(part, '\n');
    cell += part;
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) return;
    cell += '"';
    rest_.remove_prefix(1);
  }
}

void require_cells(const RecordText& text, const std::vector<std::string>& cells,
                   const std::vector<std::string>& columns, int64_t line) {
  if (cells.size() == columns.size()) return;
  refuse_line(
      text.path, line,
      fmt::format("{} cells, expected {}, as the first line has", cells.size(), columns.size()));
}

}  // namespace ds
