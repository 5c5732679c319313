#include "data/text/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/text/record_lines.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

using OnRecord = std::function<void(std::span<const std::string> values, int64_t line)>;

constexpr std::string_view kRecordSection = "data.classification";

[[noreturn]] void refuse(const RecordText& text, int64_t line, const std::string& defect) {
  refuse_line(text.path, line, defect);
}

void for_each_object(const RecordText& text, const std::vector<RecordField>& fields,
                     const OnRecord& on_record) {
  std::string_view rest = without_mark(text.content);
  std::vector<std::string> values(fields.size());
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = next_line(rest);
    if (is_blank(line)) continue;
    const rapidjson::Document object = object_on_line(line, text.path, number);
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string& name = fields[i].name;
      const auto& value = field_on_line(object, name, kRecordSection, text.path, number);
      const auto read = fields[i].may_be_list ? word_or_list_of : word_of;
      values[i] = read(value, fmt::format("the field \"{}\"", name), text.path, number);
    }
    on_record(values, number);
  }
}

// Tables ----------------------------------------------------------------------------------------

// Reads rows of a table one by one.
class Rows {
 public:
  explicit Rows(const RecordText& text) : text_(text), rest_(without_mark(text.content)) {}

  // False at the end. line(): where it begins.
  bool next(std::vector<std::string>& cells) {
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
  int64_t line() const { return line_; }

 private:
  static void split_at_tabs(std::string_view line, std::vector<std::string>& cells) {
    for (size_t tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
      cells.emplace_back(line.substr(0, tab));
      line.remove_prefix(tab + 1);
    }
    cells.emplace_back(line);
  }

  void read_quoted_row(std::vector<std::string>& cells) {
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
      refuse(text_, line_, "a quoted cell has text behind its closing quote");
    }
  }

  // "" within quotes is a quote, and a line feed there belongs to the cell.
  void read_quoted(std::string& cell) {
    rest_.remove_prefix(1);
    for (;;) {
      const size_t quote = rest_.find('"');
      if (quote == std::string_view::npos) refuse(text_, line_, "a quoted cell has no end");
      const std::string_view part = rest_.substr(0, quote);
      lines_ += std::ranges::count(part, '\n');
      cell += part;
      rest_.remove_prefix(quote + 1);
      if (!rest_.starts_with('"')) return;
      cell += '"';
      rest_.remove_prefix(1);
    }
  }

  const RecordText& text_;
  std::string_view rest_;
  int64_t line_ = 0, lines_ = 0;
};

void for_each_row(const RecordText& text, const std::vector<RecordField>& fields,
                  const OnRecord& on_record) {
  Rows rows(text);
  std::vector<std::string> columns, cells;
  if (!rows.next(columns)) return;
  std::vector<size_t> places;
  for (const auto& [name, may_be_list] : fields) {
    const auto found = std::ranges::find(columns, name);
    if (found == columns.end()) {
      refuse(
          text, rows.line(),
          fmt::format("there is no column \"{}\" (there are: {}); {} says which columns are read",
                      name, fmt::join(columns, ", "), kRecordSection));
    }
    if (std::find(found + 1, columns.end(), name) != columns.end()) {
      refuse(text, rows.line(),
             fmt::format("the column \"{}\" stands twice; which of them is read cannot be told",
                         name));
    }
    places.push_back(to_size(found - columns.begin()));
  }
  std::vector<std::string> values(fields.size());
  while (rows.next(cells)) {
    if (cells.size() != columns.size()) {
      refuse(text, rows.line(),
             fmt::format("{} cells, expected {}, as the first line has", cells.size(),
                         columns.size()));
    }
    for (size_t i = 0; i < places.size(); ++i) values[i] = cells[places[i]];
    on_record(values, rows.line());
  }
}

}  // namespace

RecordLayout record_layout(const std::string& path) {
  const std::string ending = ending_of(path);
  if (ending == ".csv") return RecordLayout::kCommas;
  if (ending == ".tsv") return RecordLayout::kTabs;
  if (layout_of(path) == TextLayout::kJsonLines) return RecordLayout::kJsonLines;
  throw Unsupported(fmt::format(
      "{}: texts with their classes are read from JSON lines (.jsonl), .csv and .tsv", path));
}

void for_each_record(const RecordText& text, const std::vector<RecordField>& fields,
                     const OnRecord& on_record) {
  require_record_text(text.content, text.path);
  if (text.layout == RecordLayout::kJsonLines) return for_each_object(text, fields, on_record);
  for_each_row(text, fields, on_record);
}

}  // namespace ds
