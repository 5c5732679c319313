#include "data/text/json_lines.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <optional>
#include <vector>

#include "data/text/data_notes.h"
#include "data/text/json_shape.h"
#include "data/text/record_objects.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

class Lines {
 public:
  Lines(const std::string& path, const std::string& field,
        const std::function<void(std::string_view text, int64_t line)>& on_text)
      : path_(path), field_(field), on_text_(on_text) {}

  // What the stream begins with, by which a refusal is explained. Once, before the first line.
  void begin(std::string_view head) { head_ = head.substr(0, kHeadBytes); }

  void take(std::string_view line) {
    if (++number_ == 1) line = without_mark(line);
    if (is_blank(line)) return;
    rapidjson::Document document;
    // Python's json.dumps writes NaN and Infinity; what is beside the text does not matter.
    constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag |
                                rapidjson::kParseValidateEncodingFlag;
    document.Parse<kFlags>(line.data(), line.size());
    if (document.HasParseError()) {
      refuse_layout(fmt::format(
          "not valid JSON at byte {} of the line: {}; each line must be one JSON object",
          document.GetErrorOffset(), rapidjson::GetParseError_En(document.GetParseError())));
    }
    if (!document.IsObject()) {
      refuse(
          "the line is no JSON object; a list of objects becomes JSON lines with: jq -c '.[]' FILE "
          "> FILE.jsonl");
    }
    const auto found = document.FindMember(field_.c_str());
    if (found == document.MemberEnd()) {
      const std::string_view format = example_format(document);
      refuse_layout(fmt::format(
          "there is no field \"{}\"; data.field, or --field, chooses another (there are: {}){}",
          field_, names_in(document),
          format.empty() ? "" : fmt::format("; data.format \"{}\" trains on these", format)));
    }
    if (!found->value.IsString()) refuse(fmt::format("the field \"{}\" is no string", field_));
    on_text_({found->value.GetString(), found->value.GetStringLength()}, number_);
    has_text_ = true;
  }
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}:{}: {}", path_, number_, defect));
  }
  // With what the file is instead of JSON lines, where no line of it was any.
  [[noreturn]] void refuse_layout(const std::string& defect) const {
    if (has_text_) refuse(defect);
    require_text(head_, SampleFrom::kBeginning, path_);
    if (is_about_data(path_)) {
      refuse(defect +
             "; the file is about data and holds none: name those that do, or a pattern such as "
             "*.jsonl");
    }
    const JsonShape shape = json_shape(head_);
    const std::string advice = advice_for_json(shape);
    if (advice.empty()) refuse(defect);
    if (shape.kind == JsonShape::Kind::kLines) refuse(fmt::format("{}; {}", defect, advice));
    refuse("the file is one JSON document, and each line must be one JSON object; " + advice);
  }
  void refuse_length() {
    ++number_;
    refuse(fmt::format("the line has more than {} bytes", kLongestLine));
  }

 private:
  static std::string names_in(const rapidjson::Document& document) {
    constexpr int kShown = 8;
    std::string out;
    int shown = 0;
    for (const auto& item : document.GetObject()) {
      if (++shown > kShown) return out + ", ...";
      out += fmt::format("{}{}", out.empty() ? "" : ", ", item.name.GetString());
    }
    return out.empty() ? "none" : out;
  }

  const std::string& path_;
  const std::string& field_;
  const std::function<void(std::string_view text, int64_t line)>& on_text_;
  std::string head_;
  int64_t number_ = 0;
  bool has_text_ = false;
};

class PlainLines {
 public:
  PlainLines(const std::string& path,
             const std::function<void(std::string_view text, int64_t line)>& on_text)
      : path_(path), on_text_(on_text) {}

  // Compressed text is known only now.
  void begin(std::string_view head) const {
    require_text(head.substr(0, kHeadBytes), SampleFrom::kBeginning, path_);
  }
  void take(std::string_view line) {
    if (++number_ == 1) line = without_mark(line);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_blank(line)) on_text_(line, number_);
  }
  void refuse_length() const {
    throw DataError(
        fmt::format("{}:{}: the line has more than {} bytes", path_, number_ + 1, kLongestLine));
  }

 private:
  const std::string& path_;
  const std::function<void(std::string_view text, int64_t line)>& on_text_;
  int64_t number_ = 0;
};

// Takes the lines of the stream until `enough`.
template <class Taker>
void read_lines(ByteStream& stream, Taker& lines, const std::function<bool()>& enough) {
  std::vector<char> chunk(kReadBytes);
  std::string unfinished;  // the beginning of a line that goes on in the next chunk
  for (bool is_first = true; const size_t count = stream.read(chunk); is_first = false) {
    std::string_view rest(chunk.data(), count);
    if (is_first) lines.begin(rest);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      if (unfinished.empty()) {
        lines.take(rest.substr(0, end));
      } else {
        unfinished += rest.substr(0, end);
        lines.take(unfinished);
        unfinished.clear();
      }
      if (enough()) return;
      rest.remove_prefix(end + 1);
    }
    unfinished += rest;
    if (unfinished.size() > kLongestLine) lines.refuse_length();
  }
  if (!unfinished.empty()) lines.take(unfinished);
}

}  // namespace

void for_each_json_text(ByteStream& stream, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& on_text) {
  Lines lines(path, field, on_text);
  read_lines(stream, lines, [] { return false; });
}

void for_each_plain_line(ByteStream& stream, const std::string& path,
                         const std::function<void(std::string_view text, int64_t line)>& on_text) {
  PlainLines lines(path, on_text);
  read_lines(stream, lines, [] { return false; });
}

std::string first_json_text(ByteStream& stream, const std::string& path, const std::string& field) {
  std::optional<std::string> first;
  const std::function<void(std::string_view, int64_t)> keep = [&](std::string_view text, int64_t) {
    first = text;
  };
  Lines lines(path, field, keep);
  read_lines(stream, lines, [&] { return first.has_value(); });
  return first.value_or("");
}

}  // namespace ds
