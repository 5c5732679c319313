#include "data/text/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/text/record_lines.h"
#include "data/text/table_rows.h"
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
  std::vector<std::string> values(fields.size());
  const auto on_object = [&](const rapidjson::Document& object, int64_t number) {
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string& name = fields[i].name;
      const auto& value = field_on_line(object, name, kRecordSection, text.path, number);
      const auto read = fields[i].may_be_list ? word_or_list_of : word_of;
      values[i] = read(value, fmt::format("the field \"{}\"", name), text.path, number);
    }
    on_record(values, number);
  };
  for_each_object_line(text.content, text.path, on_object);
}

void for_each_row(const RecordText& text, const std::vector<RecordField>& fields,
                  const OnRecord& on_record) {
  TableRows rows(text);
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
    require_cells(text, cells, columns, rows.line());
    for (size_t i = 0; i < places.size(); ++i) values[i] = cells[places[i]];
    on_record(values, rows.line());
  }
}

}  // namespace

void for_each_record(const RecordText& text, const std::vector<RecordField>& fields,
                     const OnRecord& on_record) {
  require_record_text(text.content, text.path);
  if (text.layout == RecordLayout::kJsonLines) return for_each_object(text, fields, on_record);
  for_each_row(text, fields, on_record);
}

}  // namespace ds
