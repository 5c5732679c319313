#include "data/text/json_shape.h"

#include <fmt/format.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <optional>

#include "data/text/text_kind.h"

namespace ds {
namespace {

constexpr int64_t kMostLines = 64;

// What comes first in a document.
class Outline : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Outline> {
 public:
  bool Default() {  // any value that is no list and no object
    seen_value_ = depth_ > 0;
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    if (depth_ == 1) member_.assign(text, length);
    has_names_ = true;
    return true;
  }
  bool StartObject() {
    if (depth_ == 0) root_ = '{';
    if (depth_ == 1 && root_ == '[') holds_objects_ = true;
    if (depth_ == 2 && in_list_ && list_.empty()) list_ = member_;
    return enter();
  }
  bool StartArray() {
    if (depth_ == 0) root_ = '[';
    if (depth_ == 1) in_list_ = root_ == '{';
    return enter();
  }
  bool EndObject(rapidjson::SizeType /*members*/) { return leave(); }
  bool EndArray(rapidjson::SizeType /*elements*/) {
    if (depth_ == 2) in_list_ = false;
    return leave();
  }

  // Enough was there to know that it is no text in braces or brackets.
  bool is_object() const { return root_ == '{' && (is_whole() || (has_names_ && seen_value_)); }
  bool is_list_of_objects() const { return root_ == '[' && holds_objects_ && has_names_; }
  const std::string& list() const { return list_; }

 private:
  bool enter() {
    seen_value_ = seen_value_ || depth_ > 0;
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool is_whole() const { return depth_ == 0; }

  char root_ = '\0';
  int64_t depth_ = 0;
  bool has_names_ = false;
  bool seen_value_ = false;
  bool holds_objects_ = false;
  bool in_list_ = false;
  std::string member_;
  std::string list_;
};

enum class Ends { kHere, kCut };

// Nothing where the text is no JSON; a fault at its cut end is none.
std::optional<Outline> outline_of(std::string_view text, Ends ends) {
  constexpr size_t kCut = 12;  // the longest thing that a cut leaves behind: \uD83D\uDE00
  Outline outline;
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(text.data(), text.size());
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, outline);
  const bool is_cut = ends == Ends::kCut && result.Offset() + kCut >= text.size();
  if (result.IsError() && !is_cut) return std::nullopt;
  return outline;
}

// One that needs no quotes in a program of jq.
bool is_plain_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// Whether the lines are objects, each whole; the last one may be cut as the text is.
JsonShape lines_of(std::string_view head, Ends ends) {
  JsonShape shape;
  while (!head.empty() && shape.lines < kMostLines) {
    const size_t end = head.find('\n');
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
    if (is_blank(line)) continue;
    const bool is_last = end == std::string_view::npos;
    const std::optional<Outline> outline = outline_of(line, is_last ? ends : Ends::kHere);
    if (!outline || !outline->is_object()) return {};
    shape.list = ++shape.lines == 1 ? outline->list() : "";  // of a line among others a detail
  }
  if (shape.lines > 0) shape.kind = JsonShape::Kind::kLines;
  return shape;
}

}  // namespace

JsonShape json_shape(std::string_view head) {
  const Ends ends = head.size() < kHeadBytes ? Ends::kHere : Ends::kCut;
  head = without_mark(head.substr(0, kHeadBytes));
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || (head[begin] != '{' && head[begin] != '[')) return {};
  if (JsonShape lines = lines_of(head, ends); lines.kind == JsonShape::Kind::kLines) return lines;
  const std::optional<Outline> outline = outline_of(head, ends);
  if (!outline) return {};
  if (outline->is_list_of_objects()) return {.kind = JsonShape::Kind::kList};
  if (outline->is_object()) return {.kind = JsonShape::Kind::kObject, .list = outline->list()};
  return {};
}

std::string advice_for_json(const JsonShape& shape) {
  if (shape.kind == JsonShape::Kind::kList)
    return "a list of objects becomes JSON lines with: jq -c '.[]' FILE > FILE.jsonl";
  if (is_plain_name(shape.list)) {
    return fmt::format(
        "its list of objects \"{0}\" becomes JSON lines with: jq -c '.{0}[]' FILE > FILE.jsonl",
        shape.list);
  }
  if (shape.kind == JsonShape::Kind::kObject)
    return "an object becomes one line with: jq -c . FILE > FILE.jsonl";
  return "";
}

}  // namespace ds
