#include "data/text/record_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <vector>

#include "core/status/error.h"
#include "data/text/text_kind.h"

namespace ds {

void refuse_line(const std::string& path, int64_t line, const std::string& defect) {
  throw DataError(fmt::format("{}:{}: {}", path, line, defect));
}

void require_record_text(std::string_view content, const std::string& path) {
  require_no_format(content.substr(0, kHeadBytes), path);
  const size_t bad = invalid_utf8_bytes(content);
  if (bad > 0) throw DataError(fmt::format("{}: {} bytes are no part of UTF-8", path, bad));
  const size_t nul = content.find('\0');
  if (nul == std::string_view::npos) return;
  const std::string_view before = content.substr(0, nul);
  refuse_line(path, 1 + std::ranges::count(before, '\n'),
              "a NUL byte, which no text has; the file is damaged, or no text");
}

std::string_view next_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

rapidjson::Document object_on_line(std::string_view content, const std::string& path,
                                   int64_t line) {
  rapidjson::Document document;
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag |
                              rapidjson::kParseValidateEncodingFlag;
  document.Parse<kFlags>(content.data(), content.size());
  if (document.HasParseError()) {
    refuse_line(
        path, line,
        fmt::format("not valid JSON at byte {} of the line: {}; each line must be one JSON object",
                    document.GetErrorOffset(),
                    rapidjson::GetParseError_En(document.GetParseError())));
  }
  if (!document.IsObject()) refuse_line(path, line, "the line is no JSON object");
  return document;
}

void for_each_object_line(
    std::string_view content, const std::string& path,
    const std::function<void(const rapidjson::Document& object, int64_t line)>& on_object) {
  std::string_view rest = without_mark(content);
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = next_line(rest);
    if (!is_blank(line)) on_object(object_on_line(line, path, number), number);
  }
}

const rapidjson::Value& field_on_line(const rapidjson::Value& object, const std::string& name,
                                      std::string_view section, const std::string& path,
                                      int64_t line) {
  const rapidjson::Value* found = nullptr;
  std::vector<std::string_view> there;
  for (const auto& member : object.GetObject()) {
    there.emplace_back(member.name.GetString(), member.name.GetStringLength());
    if (there.back() != name) continue;
    if (found != nullptr)
      refuse_line(path, line, fmt::format("the field \"{}\" stands twice", name));
    found = &member.value;
  }
  if (found != nullptr) return *found;
  refuse_line(path, line,
              fmt::format("there is no field \"{}\" (there are: {}); {} says which fields are read",
                          name, fmt::join(there, ", "), section));
}

std::string word_of(const rapidjson::Value& value, const std::string& what, const std::string& path,
                    int64_t line) {
  if (value.IsString()) return {value.GetString(), value.GetStringLength()};
  if (value.IsInt64()) return std::to_string(value.GetInt64());
  if (value.IsNumber()) {
    refuse_line(path, line, fmt::format("{} is a number, but no whole one of 64 bits", what));
  }
  refuse_line(path, line, fmt::format("{} is neither text nor a whole number", what));
}

std::string word_or_list_of(const rapidjson::Value& value, const std::string& what,
                            const std::string& path, int64_t line) {
  if (value.IsString() || value.IsInt64()) return word_of(value, what, path, line);
  if (value.IsNumber()) return fmt::format("{}", value.GetDouble());
  if (!value.IsArray()) {
    refuse_line(path, line, fmt::format("{} is neither text nor a number nor a list", what));
  }
  rapidjson::StringBuffer text;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>
      writer(text);
  value.Accept(writer);
  return {text.GetString(), text.GetSize()};
}

}  // namespace ds
