#include "data/text/record_objects.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>

#include <algorithm>

#include "core/status/error.h"
#include "data/text/record_lines.h"
#include "data/text/table_rows.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

using OnObject = std::function<void(const rapidjson::Value& object, int64_t line)>;

rapidjson::Value name_in_json(const std::string& text) {
  return rapidjson::Value(
      rapidjson::StringRef(text.data(), static_cast<rapidjson::SizeType>(text.size())));
}

void for_each_of_list(std::string_view content, const RecordText& text, const OnObject& on_object) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
  rapidjson::Document list;
  list.Parse<kFlags>(content.data(), content.size());
  if (list.HasParseError() || !list.IsArray()) {
    const size_t at = list.GetErrorOffset();
    refuse_line(text.path, 1 + std::ranges::count(content.substr(0, at), '\n'),
                fmt::format("the file begins as a JSON list and is none: {}",
                            rapidjson::GetParseError_En(list.GetParseError())));
  }
  int64_t number = 0;
  for (const rapidjson::Value& entry : list.GetArray()) {
    ++number;
    if (!entry.IsObject()) refuse_line(text.path, number, "the entry of the list is no object");
    on_object(entry, number);
  }
}

void for_each_of_table(const RecordText& text, const OnObject& on_object) {
  TableRows rows(text);
  std::vector<std::string> columns, cells;
  if (!rows.next(columns)) return;
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    if (std::find(column + 1, columns.end(), *column) == columns.end()) continue;
    refuse_line(text.path, rows.line(), fmt::format("the column \"{}\" stands twice", *column));
  }
  while (rows.next(cells)) {
    require_cells(text, cells, columns, rows.line());
    rapidjson::Document object(rapidjson::kObjectType);
    for (size_t i = 0; i < cells.size(); ++i) {
      object.AddMember(name_in_json(columns[i]), name_in_json(cells[i]), object.GetAllocator());
    }
    on_object(object, rows.line());
  }
}

}  // namespace

std::string_view example_format(const rapidjson::Value& object) {
  const auto has = [&](const char* name) { return object.HasMember(name); };
  if (has("chosen") && has("rejected")) return "preference";
  if (has("messages") || has("conversations")) return "chat";
  if (has("input_ids")) return "tokenized";
  const bool has_prompt = has("prompt") && has("completion");
  return has_prompt || (has("instruction") && has("output")) ? "prompt_completion" : "";
}

void for_each_object(const RecordText& text, const OnObject& on_object) {
  require_record_text(text.content, text.path);
  if (text.layout != RecordLayout::kJsonLines) return for_each_of_table(text, on_object);
  const std::string_view rest = without_mark(text.content);
  const size_t first = rest.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && rest[first] == '[') {
    return for_each_of_list(rest, text, on_object);
  }
  for_each_object_line(text.content, text.path, on_object);
}

}  // namespace ds
